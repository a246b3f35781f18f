// Loads packed weights from files. Every tensor is checked against the sizes of config.json before anything is
// allocated. Then blocks of rows stream into the stores.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tenon/core/concepts.h"
#include "tenon/model/files.h"
#include "tenon/model/parts.h"
#include "tenon/model/tensor_source.h"
#include "tenon/model/traits.h"
#include "tenon/model/weight_hash.h"
#include "tenon/weights/store.h"

namespace tenon {

/// The packed weights of a decoder on a device: matrices in format P, embedding and head in format H, vectors in
/// float32.
template <WeightPolicy P, WeightPolicy H, DevicePolicy D>
class DecoderWeights {
 public:
  using Parts = DecoderParts<typename P::View, typename H::View, const float*>;

  /// Checks all tensors, then reads them. Errors: those of TensorSource.
  DecoderWeights(D& device, const DecoderSpec& spec, bool tied_head, const TensorSource& source);

  const Parts& parts() const { return parts_; }
  /// Bytes of all weights on the device.
  std::size_t bytes() const { return bytes_; }
  /// The packed bytes of all matrices, and of embedding and head.
  auto matrices() const { return matrices_.contents(); }
  auto heads() const { return heads_.contents(); }

  /// A hash of all packed values that decide results. `threads` threads read them (0: all cores); their number does not
  /// change it.
  std::uint64_t hash(int threads) const;

 private:
  // Codes of this very format are packed as they are. Everything else is encoded from its values.
  template <WeightPolicy Q>
  static typename Q::View add(D& device, WeightStore<Q, D>& store, const TensorSource& source, const MatrixSpec& m) {
    if (m.none()) return {};
    if constexpr (PacksCodes<Q>) {
      using Code = typename Q::Code;
      if (source.holds<Code>(m)) {
        return store.add_codes(device, m.shape, [&](int first, int count, CodeBlock& block) {
          source.read_codes<Code>(m, first, count, block);
        });
      }
    }
    return store.add(
        device, m.shape, [&](int first, int count, float* out) { source.read(m, first, count, out); }, source.where(m));
  }

  // In floats, rounded up to cache lines, so that no two vectors share a line.
  static std::size_t padded(const VectorSpec& v) {
    if (v.none()) return 0;
    return (static_cast<std::size_t>(v.shape.rows) * static_cast<std::size_t>(v.shape.cols) + 15) / 16 * 16;
  }

  WeightStore<P, D> matrices_;
  WeightStore<H, D> heads_;
  typename D::Memory vectors_;
  std::vector<typename D::Memory> expert_tables_;  // of layers with experts, where the device has such tables
  Parts parts_;
  std::size_t bytes_ = 0;
};

// Members are defined outside the class, so they are not inline: extern templates (engine/formats.h) then prevent
// another instance in each unit.
template <WeightPolicy P, WeightPolicy H, DevicePolicy D>
DecoderWeights<P, H, D>::DecoderWeights(D& device, const DecoderSpec& spec, bool tied_head,
                                        const TensorSource& source) {
  source.check(spec, tied_head);
  std::vector<Shape> matrices, heads;
  std::size_t floats = 0;
  const auto list = [](std::vector<Shape>& shapes) {
    return [&shapes](const MatrixSpec& m) {
      if (!m.none()) shapes.push_back(m.shape);
    };
  };
  const auto count = [&](const VectorSpec& v) { floats += padded(v); };
  visit_parts(spec, tied_head, {list(matrices), list(heads), count});
  matrices_ = WeightStore<P, D>(device, matrices);
  heads_ = WeightStore<H, D>(device, heads);
  vectors_ = device.allocate(floats * sizeof(float));
  std::byte* next = vectors_.data();
  parts_ = map_parts<typename P::View, typename H::View, const float*>(
      spec, tied_head, [&](const MatrixSpec& m) { return add(device, matrices_, source, m); },
      [&](const MatrixSpec& m) { return add(device, heads_, source, m); },
      [&](const VectorSpec& v) -> const float* {
        if (v.none()) return nullptr;
        const std::span<std::byte> vector{next, padded(v) * sizeof(float)};
        device.fill(vector, [&](std::span<std::byte> host) { source.read(v, reinterpret_cast<float*>(host.data())); });
        next += vector.size();
        return reinterpret_cast<const float*>(vector.data());
      });
  if constexpr (TabulatesExperts<D, typename P::View>) {
    for (auto& layer : parts_.layers) {
      if (layer.experts.empty()) continue;
      expert_tables_.push_back(expert_table(device, std::span<const typename Parts::Expert>(layer.experts)));
      layer.expert_table = expert_tables_.back().data();
    }
  }
  bytes_ = matrices_.bytes() + heads_.bytes() + floats * sizeof(float);
}

template <WeightPolicy P, WeightPolicy H, DevicePolicy D>
std::uint64_t DecoderWeights<P, H, D>::hash(int threads) const {
  const auto of_store = [&](const auto& store, std::uint64_t seed) {
    const auto contents = store.contents();
    for (const auto& each : store.values())
      seed =
          detail::hash_of_leaves(std::span<const std::byte>(contents).subspan(each.begin, each.bytes), seed, threads);
    return seed;
  };
  const std::uint64_t of_heads = of_store(heads_, of_store(matrices_, 0));
  return detail::hash_of_leaves(vectors_.contents(vectors_.bytes()), of_heads, threads);
}

}  // namespace tenon
