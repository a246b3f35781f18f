// Short convolutions over positions, whose inputs the cache has in place of keys and values.
#pragma once
#include <algorithm>
#include <cstddef>
#include <vector>

#include "tenon/core/elements.h"
#include "tenon/device/cpu.h"
#include "tenon/ops/convolve_args.h"
#include "tenon/ops/cpu/kernels.h"
#include "tenon/ops/cpu/rows.h"

namespace tenon {
namespace cpu {

/// The inputs of the last positions that a thread has read: consecutive rows of a sequence share all but one.
template <CacheView V>
class ConvolvedInputs {
 public:
  /// memory: [taps, n]
  ConvolvedInputs(const ConvolveArgs<V>& args, float* memory)
      : args_(args), memory_(memory), positions_(static_cast<std::size_t>(args.taps), -1) {}

  /// Call it before the rows of another sequence.
  void begin_sequence(int slot) {
    slot_ = slot;
    std::fill(positions_.begin(), positions_.end(), -1);
  }

  /// [n], valid until `taps` later positions are read.
  const float* at(int position) {
    const auto place = static_cast<std::size_t>(position % args_.taps);
    float* const out = memory_ + place * static_cast<std::size_t>(args_.gates.cols);
    if (positions_[place] != position) read(position, out);
    positions_[place] = position;
    return out;
  }

 private:
  using Element = typename V::Element;

  static float value_of(const Element& element) {
    if constexpr (OwnKvElement<Element>)
      return element.decode();
    else
      return static_cast<float>(element);
  }

  // out: [n]
  void read(int position, float* out) const {
    const int n = args_.head_dim, lane = position % kTilePositions;
    const int width = KvShape{.head_dim = n}.value_stride();
    float* second = out + args_.gates.cols / 2;  // [n / 2], what the values hold
    for (int h = 0; h < args_.kv_heads; ++h, out += n, second += n) {
      const auto tile = args_.kv.tile(args_.layer, slot_, h, position / kTilePositions);
      float key_scale = 1, value_scale = 1;
      if constexpr (has_scales<Element>) {
        key_scale = tile.key_scales[lane];
        value_scale = tile.value_scales[lane];
      }
      for (int d = 0; d < n; ++d) {
        out[d] = value_of(tile.keys[d * kTilePositions + lane]) * key_scale;
        second[d] = value_of(tile.values[lane * width + d]) * value_scale;
      }
    }
  }

  const ConvolveArgs<V>& args_;
  float* const memory_;
  std::vector<int> positions_;  // [taps], the position at each place of the memory
  int slot_ = 0;
};

/// One row at `position`. weights: [taps, n]; sum, term: [n], scratch.
template <CacheView V>
void convolve_row(const Kernels& kernels, const ConvolveArgs<V>& args, int row, int position,
                  ConvolvedInputs<V>& inputs, const float* weights, float* sum, float* term) {
  const int n = args.gates.cols, before = args.taps - 1;
  const int first = std::max(0, before - position);  // the first tap with an input
  for (int tap = first; tap < args.taps; ++tap) {
    const float* const x = inputs.at(position - before + tap);
    kernels.gate_row(weights + std::ptrdiff_t{tap} * n, x, n, Activation::none, tap == first ? sum : term);
    if (tap > first) kernels.add_row(term, 1, n, sum);
  }
  if (args.bias) kernels.add_row(args.bias, 1, n, sum);
  kernels.gate_row(args.gates.row(row), sum, n, Activation::none, args.y.row(row));
}

}  // namespace cpu

template <CacheView V>
void convolve_positions(Cpu& device, const ConvolveArgs<V>& args) {
  const auto n = static_cast<std::size_t>(args.gates.cols), taps = static_cast<std::size_t>(args.taps);
  const std::size_t each = (taps + 2) * n;  // floats of a thread
  float* const weights = device.scratch(taps * n + each * static_cast<std::size_t>(device.threads()));  // [taps, n]
  float* const own = weights + taps * n;  // [threads, each]
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t tap = 0; tap < taps; ++tap) weights[tap * n + i] = args.weights[i * taps + tap];
  }
  const cpu::Kernels& kernels = cpu::kernels_for(device.isa());
  device.pool().share(args.batch.rows, kTilePositions, [&](int begin, int end, int thread) {
    float* const memory = own + static_cast<std::size_t>(thread) * each;
    float *const sum = memory + taps * n, *const term = sum + n;
    cpu::ConvolvedInputs<V> inputs(args, memory);
    const SequenceRows* rows = cpu::sequence_of(args.batch, begin);
    inputs.begin_sequence(rows->slot);
    for (int row = begin; row < end; ++row) {
      for (; row >= rows->first_row + rows->rows; inputs.begin_sequence(rows->slot)) ++rows;
      const int position = rows->start + row - rows->first_row;
      cpu::convolve_row(kernels, args, row, position, inputs, weights, sum, term);
    }
  });
}

}  // namespace tenon
