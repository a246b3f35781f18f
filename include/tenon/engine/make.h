// Makes the parts of an engine: its device, its weights, and its adapters.
#pragma once
#include <cstddef>
#include <memory>
#include <optional>
#include <type_traits>
#include <vector>

#include "tenon/adapter/store.h"
#include "tenon/core/classifier_head.h"
#include "tenon/core/concepts.h"
#include "tenon/engine/options.h"
#include "tenon/model/adapter_sites.h"
#include "tenon/model/any_family.h"
#include "tenon/model/base_weights.h"
#include "tenon/model/configure.h"
#include "tenon/model/decoder.h"
#include "tenon/model/load.h"
#include "tenon/model/merged_updates.h"

namespace tenon::detail {

template <DevicePolicy D>
D make_device(const EngineOptions& options) {
  if constexpr (TakesOptions<D>) {
    typename D::Options of_device{};
    of_device.threads = options.threads;
    if constexpr (TakesIndex<D>) of_device.index = options.device_index;
    return D(of_device);
  } else {
    return D{};
  }
}

template <class Model, class Attend, WeightPolicy W, WeightPolicy H, AdapterPolicy P, DevicePolicy D>
DecoderWeights<W, H, D> make_weights(D& device, const EngineOptions& options, const ModelFiles& files) {
  const Family& family = family_for<Model>(files);
  const ModelConfig config = configure(files, family);  // with as many positions as the files have
  check_layer_count(files, config);
  const DecoderSpec spec = tensors_of(family, config);
  check_switches(spec, config);
  check_runs<Attend, D, typename W::View>(spec, config);
  const std::string_view prefix = family.name_prefix;
  std::optional<MergedUpdates> merged;
  if (!options.merged.empty()) {
    if constexpr (!MergesAtLoad<P>) {
      throw Error(Error::Kind::unsupported, "merged", "this engine merges no adapters into its weights");
    }
    merged.emplace(options.merged, adapter_sites(spec, prefix, files), options.adapters);
  }
  const TensorSource source(files, prefix, merged ? &*merged : nullptr);
  DecoderWeights<W, H, D> weights(device, spec, config.tied_head, source);
  if (!files.random) files.tensors->verify_unchanged();
  return weights;
}

// The classification head of the checkpoint, on the host. stored: [labels, head width] on the device, or null.
template <DevicePolicy D>
std::shared_ptr<const ClassifierHead> make_classifier(D& device, const ModelConfig& c, const float* stored) {
  if (!stored) return nullptr;
  const std::size_t count = c.labels.size() * static_cast<std::size_t>(c.head_width());
  const float* const weights = device.fetch(stored, count);
  return std::make_shared<const ClassifierHead>(std::vector<float>(weights, weights + count), c.head_width());
}

// The adapters of an engine: a store where the policy adds them at run time, else nothing.
template <AdapterPolicy P, DevicePolicy D>
using AdaptersOf = std::conditional_t<P::adds_at_runtime, std::unique_ptr<AdapterStore<D>>, std::nullptr_t>;

// parts: of the engine's weights, which outlive the adapters.
template <class Model, AdapterPolicy P, DevicePolicy D, class Parts>
AdaptersOf<P, D> make_adapters(const EngineOptions& options, const ModelConfig& config, const ModelFiles& files,
                               const Parts& parts) {
  if constexpr (P::adds_at_runtime) {
    const Family& family = family_for<Model>(config);
    EngineOptions of_loads = options;
    of_loads.threads = 1;
    return std::make_unique<AdapterStore<D>>([of_loads] { return make_device<D>(of_loads); },
                                             adapter_sites(tensors_of(family, config), family.name_prefix, files),
                                             options.adapters, base_weights<D>(parts));
  } else {
    return nullptr;
  }
}

}  // namespace tenon::detail
