/// LoRA adapters with random factors, in PEFT's files: for benchmarks and tests.
#pragma once
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "tenon/adapter/site.h"
#include "tenon/checkpoint/safetensors_writer.h"
#include "tenon/core/hash.h"

namespace tenon::testing {

/// The parts of a random adapter.
enum class RandomKind : std::uint8_t {
  lora,
  dora,         ///< and magnitudes
  ia3,          ///< scales of inputs after the MLP's first product, and of outputs elsewhere; nothing else
  vectors,      ///< LoRA, and the model's biases and norms replaced
  tables,       ///< LoRA, of the embedding and the head, too
  dora_tables,  ///< likewise DoRA
  rows,         ///< LoRA, the embedding replaced, and the head's rows of tokens 1 and 4
  classifier,   ///< LoRA, and a classification head
};

/// Parameters of a random adapter.
struct RandomAdapter {
  int rank = 16;
  double alpha = 16;
  std::uint64_t seed = 0;                     ///< factors are drawn from it, in -1/8 .. 1/8
  std::vector<std::int32_t> invocation = {};  ///< alora_invocation_tokens; empty: everywhere
  RandomKind kind = RandomKind::lora;
  int labels = 3;  ///< of a classification head
};

namespace detail {

inline bool is_dora(RandomKind kind) { return kind == RandomKind::dora || kind == RandomKind::dora_tables; }

// The tensors of a random adapter.
inline std::vector<TensorPlan> random_tensors(std::span<const AdapterSite> sites, const RandomAdapter& adapter,
                                              std::span<const AdapterVector> vectors, const PeftBase& base) {
  std::vector<TensorPlan> plans;
  const auto size = [](int n) { return static_cast<std::uint64_t>(n); };
  const auto add = [&](std::string name, std::vector<std::uint64_t> shape) {
    plans.push_back({"base_model.model." + std::move(name), DType::f32, std::move(shape)});
  };
  for (const AdapterSite& site : sites) {
    const PeftModule& module = site.module;
    if (adapter.kind == RandomKind::ia3) {
      const bool of_inputs = site.site == Site::mlp_down;
      add(module.path + ".ia3_l", {of_inputs ? 1 : size(module.outputs), of_inputs ? size(module.inputs) : 1});
      continue;
    }
    add(module.path + ".lora_A.weight", {size(adapter.rank), size(module.inputs)});
    add(module.path + ".lora_B.weight", {size(module.outputs), size(adapter.rank)});
    if (is_dora(adapter.kind)) add(module.path + ".lora_magnitude_vector", {size(module.outputs)});
  }
  if (adapter.kind == RandomKind::tables || adapter.kind == RandomKind::dora_tables) {
    add(base.embedding + ".lora_embedding_A", {size(adapter.rank), size(base.vocab)});
    add(base.embedding + ".lora_embedding_B", {size(base.width), size(adapter.rank)});
    add(base.head + ".lora_A.weight", {size(adapter.rank), size(base.width)});
    add(base.head + ".lora_B.weight", {size(base.vocab), size(adapter.rank)});
    if (is_dora(adapter.kind)) {
      add(base.embedding + ".lora_magnitude_vector", {size(base.width)});
      add(base.head + ".lora_magnitude_vector", {size(base.vocab)});
    }
  }
  if (adapter.kind == RandomKind::rows) {
    add(base.embedding + ".weight", {size(base.vocab), size(base.width)});
    add(base.head + ".token_adapter.trainable_tokens_delta", {2, size(base.width)});
  }
  if (adapter.kind == RandomKind::classifier) add("score.weight", {size(adapter.labels), size(base.head_width)});
  for (const AdapterVector& vector : vectors) {
    const std::string& name = vector.tensor;
    const std::string module = name.substr(0, name.rfind('.'));
    const bool is_target = std::ranges::any_of(sites, [&](const auto& site) { return site.module.path == module; });
    add(is_target ? module + ".base_layer" + name.substr(module.size()) : name, {size(vector.stored)});
  }
  return plans;
}

inline bool is_about_one(std::string_view tensor) {
  return tensor.ends_with(".ia3_l") || tensor.ends_with("_vector") || tensor.find("norm") != tensor.npos ||
         tensor.find("ln_") != tensor.npos;
}

}  // namespace detail

/// Writes an adapter, in float32, that updates all of `sites`. Makes the folder. `vectors`: those that it replaces, for
/// RandomKind::vectors alone. `base`: for kinds that change the embedding and the head, or have a classification head.
inline void write_adapter(const std::filesystem::path& folder, std::span<const AdapterSite> sites,
                          const RandomAdapter& adapter, std::span<const AdapterVector> vectors = {},
                          const PeftBase& base = {}) {
  std::filesystem::create_directories(folder);
  const std::vector<TensorPlan> plans = detail::random_tensors(sites, adapter, vectors, base);
  SafetensorsWriter writer(folder / "adapter_model.safetensors", plans, {});
  std::uint64_t draw = mix64(adapter.seed);
  for (const TensorPlan& plan : plans) {
    std::vector<float> values(static_cast<std::size_t>(plan.shape[0] * (plan.shape.size() > 1 ? plan.shape[1] : 1)));
    for (float& value : values) value = static_cast<float>(static_cast<int>(mix64(++draw) % 2001) - 1000) / 8000.0f;
    if (detail::is_about_one(plan.name)) std::ranges::for_each(values, [](float& value) { value += 1; });
    writer.write(plan.name, 0, std::as_bytes(std::span(values)));
  }
  writer.finish();
  std::string targets, feedforward, invocation;
  const auto list = [](std::string& all, const std::string& item) { all += (all.empty() ? "" : ", ") + item; };
  for (const AdapterSite& site : sites) {
    list(targets, '"' + site.module.path + '"');
    if (site.site == Site::mlp_down) list(feedforward, '"' + site.module.path + '"');
  }
  if (adapter.kind == RandomKind::tables || adapter.kind == RandomKind::dora_tables) {
    list(targets, '"' + base.embedding + '"');
    list(targets, '"' + base.head + '"');
  }
  for (const std::int32_t token : adapter.invocation) list(invocation, std::to_string(token));
  std::ofstream config(folder / "adapter_config.json");
  config << R"({"target_modules": [)" << targets << "], ";
  if (adapter.kind == RandomKind::ia3)
    config << R"("peft_type": "IA3", "feedforward_modules": [)" << feedforward << "]}\n";
  else
    config << R"("peft_type": "LORA", "r": )" << adapter.rank << R"(, "lora_alpha": )" << adapter.alpha
           << R"(, "bias": ")" << (adapter.kind == RandomKind::vectors ? "all" : "none") << R"(", "use_dora": )"
           << (detail::is_dora(adapter.kind) ? "true" : "false") << R"(, "alora_invocation_tokens": [)" << invocation
           << "]" << (adapter.kind == RandomKind::classifier ? R"(, "task_type": "SEQ_CLS")" : "")
           << (adapter.kind == RandomKind::rows
                   ? R"(, "modules_to_save": [")" + base.embedding + R"("], "trainable_token_indices": {")" +
                         base.head + R"(": [4, 1]})"
                   : std::string())
           << "}\n";
}

/// Random adapters of one site in every layer, in a temporary folder that this object removes.
class RandomAdapters {
 public:
  RandomAdapters(const AdapterSites& all, Site site) {
    for (const AdapterSite& each : all.sites)
      if (each.site == site) sites_.push_back(each);
  }
  RandomAdapters(const RandomAdapters&) = delete;
  RandomAdapters& operator=(const RandomAdapters&) = delete;
  ~RandomAdapters() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }

  /// The folder of the adapter drawn from `which`, written on the first call. kind: lora or dora.
  std::string folder(int which, int rank, RandomKind kind = RandomKind::lora) const {
    const auto own =
        root_ / (std::to_string(which) + "-" + std::to_string(rank) + (kind == RandomKind::dora ? "-dora" : ""));
    if (!std::filesystem::exists(own))
      write_adapter(own, sites_, {.rank = rank, .seed = static_cast<std::uint64_t>(which), .kind = kind});
    return own.string();
  }

  /// Bytes of the float32 factors of one adapter.
  double bytes(int rank) const {
    double bytes = 0;
    for (const auto& site : sites_) bytes += 4.0 * rank * (site.module.inputs + site.module.outputs);
    return bytes;
  }

 private:
  inline static std::atomic<int> made_ = 0;
  std::filesystem::path root_ = std::filesystem::temp_directory_path() /
                                ("tenon-adapters-" + std::to_string(::getpid()) + "-" + std::to_string(made_++));
  std::vector<AdapterSite> sites_;
};

}  // namespace tenon::testing
