// Mixtures of experts: the router, the rows of each expert as one product, and the gate of a shared expert.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <vector>

#include "tenon/ops/args.h"
#include "tenon/ops/cpu/kernels.h"
#include "tenon/ops/cpu/linear.h"
#include "tenon/ops/cpu/rows.h"
#include "tenon/ops/gate_rows_args.h"

namespace tenon {

namespace cpu {

/// Writes softmax of logits [n] over themselves.
inline void softmax_row(const Kernels& kernels, int n, float* logits) {
  const float top = *std::max_element(logits, logits + n);
  for (int i = 0; i < n; ++i) logits[i] -= top;
  kernels.exp_row(logits, n, logits);
  float sum = 0;
  for (int i = 0; i < n; ++i) sum += logits[i];
  for (int i = 0; i < n; ++i) logits[i] /= sum;
}

/// Writes 1 / (1 + exp(-x)) over x [n].
inline void sigmoid_row(const Kernels& kernels, int n, float* x) {
  for (int i = 0; i < n; ++i) x[i] = -x[i];
  kernels.exp_row(x, n, x);
  for (int i = 0; i < n; ++i) x[i] = 1 / (1 + x[i]);
}

/// A thread's memory of the router.
struct RouterMemory {
  std::vector<float> logits, keys;  ///< [experts]; keys: what the choice compares
  std::vector<int> ids;             ///< [experts]
  std::vector<float> weights;       ///< [chosen]
  RouterMemory(std::size_t experts, std::size_t chosen)
      : logits(experts), keys(experts), ids(experts), weights(chosen) {}
};

/// Writes the experts of a row with their weights, in order of ids, and overwrites m.logits. False if a logit or a key
/// is not finite.
template <class W>
bool choose_experts(const Kernels& kernels, const MixtureArgs<W>& args, RouterMemory& m,
                    ExpertChoice* choices /* [chosen] */) {
  const int experts = static_cast<int>(args.experts.size()), chosen = args.chosen;
  float* const logits = m.logits.data();
  if (!std::isfinite(kernels.finite_max(logits, experts))) return false;
  const bool sigmoids = args.kind == RouterKind::sigmoid || args.kind == RouterKind::normalised_sigmoid;
  if (sigmoids) sigmoid_row(kernels, experts, logits);
  m.keys = m.logits;  // a softmax keeps their order
  if (args.choice_bias) {
    if (args.kind == RouterKind::softmax || args.kind == RouterKind::normalised)
      softmax_row(kernels, experts, m.keys.data());
    kernels.add_row(args.choice_bias, 1, experts, m.keys.data());
    if (!std::isfinite(kernels.finite_max(m.keys.data(), experts))) return false;
  }
  for (int e = 0; e < experts; ++e) m.ids[static_cast<std::size_t>(e)] = e;
  const auto key = [&](int e) { return m.keys[static_cast<std::size_t>(e)]; };
  std::partial_sort(m.ids.begin(), m.ids.begin() + chosen, m.ids.end(),
                    [&](int a, int b) { return key(a) > key(b) || (key(a) == key(b) && a < b); });
  std::sort(m.ids.begin(), m.ids.begin() + chosen);
  if (!sigmoids && args.kind != RouterKind::chosen_softmax) softmax_row(kernels, experts, logits);
  float sum = 0;
  for (int i = 0; i < chosen; ++i) m.weights[static_cast<std::size_t>(i)] = logits[m.ids[static_cast<std::size_t>(i)]];
  if (args.kind == RouterKind::chosen_softmax) softmax_row(kernels, chosen, m.weights.data());
  for (const float weight : m.weights) sum += weight;
  if (args.kind == RouterKind::normalised) sum = std::max(sum, args.epsilon);
  if (args.kind == RouterKind::normalised_sigmoid) sum += args.epsilon;
  const bool divides = args.kind == RouterKind::normalised || args.kind == RouterKind::normalised_sigmoid;
  for (int i = 0; i < chosen; ++i) {
    const auto at = static_cast<std::size_t>(i);
    choices[i] = {m.ids[at], m.weights[at] / (divides ? sum : 1) * args.scale};
  }
  return true;
}

/// The choices of all rows. A row whose scores are not finite takes the first experts, with weights of NaN.
template <class W>
void route(Cpu& device, const MixtureArgs<W>& args) {
  const auto& kernels = kernels_for(device.isa());
  const auto experts = args.experts.size(), chosen = static_cast<std::size_t>(args.chosen);
  args.memory->choices.resize(static_cast<std::size_t>(args.x.rows) * chosen);
  split_rows(device, args.x.rows, [&](int begin, int end) {
    RouterMemory memory(experts, chosen);
    float* const logits = memory.logits.data();
    for (int r = begin; r < end; ++r) {
      kernels.products_row(args.x.row(r), args.router, args.x.cols, static_cast<int>(experts), logits);
      if (args.router_bias) kernels.add_row(args.router_bias, 1, static_cast<int>(experts), logits);
      ExpertChoice* const choices = args.memory->choices.data() + static_cast<std::size_t>(r) * chosen;
      if (choose_experts(kernels, args, memory, choices)) continue;
      for (int i = 0; i < args.chosen; ++i) choices[i] = {i, std::numeric_limits<float>::quiet_NaN()};
    }
  });
}

/// Sorts the pairs by expert and copies their rows. Returns the first pair of each expert, and the number of pairs.
template <class W>
std::vector<int> sort_pairs(Cpu& device, const MixtureArgs<W>& args) {
  ExpertMemory& memory = *args.memory;
  std::vector<int> first(args.experts.size() + 1);
  for (const ExpertChoice& choice : memory.choices) ++first[static_cast<std::size_t>(choice.expert) + 1];
  for (std::size_t e = 1; e < first.size(); ++e) first[e] += first[e - 1];
  std::vector<int> next = first;
  memory.places.clear();
  for (const ExpertChoice& choice : memory.choices)
    memory.places.push_back(next[static_cast<std::size_t>(choice.expert)]++);
  split_rows(device, args.x.rows, [&](int begin, int end) {
    for (int i = begin * args.chosen; i < end * args.chosen; ++i)
      std::memcpy(memory.x.row(memory.places[static_cast<std::size_t>(i)]), args.x.row(i / args.chosen),
                  static_cast<std::size_t>(args.x.cols) * sizeof(float));
  });
  return first;
}

/// The outputs of one expert for its pairs [first, last).
template <class W>
void run_expert(Cpu& device, const MixtureArgs<W>& args, const ExpertParts<W, const float*>& expert, int first,
                int last) {
  const auto pairs = [&](const MatrixView<float>& all) {
    return MatrixView<float>{all.row(first), last - first, all.cols, all.stride};
  };
  const MatrixView<float> both = pairs(args.memory->gate_and_up);
  const int inner = both.cols / 2;
  linear(device,
         LinearArgs<W>{.x = pairs(args.memory->x), .weight = expert.up.weight, .bias = expert.up.bias, .y = both});
  const auto& kernels = kernels_for(device.isa());
  split_rows(device, both.rows, [&](int begin, int end) {
    for (int r = begin; r < end; ++r) {
      float* x = both.row(r);  // [2 inner]
      if (args.gate.limit > 0)
        kernels.clamped_gate_row(x, x + inner, inner, args.gate.limit, args.gate.steepness, x);
      else
        kernels.gate_row(x, x + inner, inner, args.gate.activation, x);
    }
  });
  linear(device, LinearArgs<W>{.x = MatrixView<const float>{both.data, both.rows, inner, both.stride},
                               .weight = expert.down.weight,
                               .bias = expert.down.bias,
                               .y = pairs(args.memory->out)});
}

}  // namespace cpu

/// Rows of one expert are one product, so its weights are read once a step.
template <class W>
requires(!OnTensorCores<W>) void mixture(Cpu& device, const MixtureArgs<W>& args) {
  if (args.x.rows == 0) return;
  cpu::route(device, args);
  const std::vector<int> first = cpu::sort_pairs(device, args);
  for (std::size_t e = 0; e < args.experts.size(); ++e) {
    if (first[e + 1] > first[e]) cpu::run_expert(device, args, args.experts[e], first[e], first[e + 1]);
  }
  const auto& kernels = cpu::kernels_for(device.isa());
  const ExpertMemory& memory = *args.memory;
  cpu::split_rows(device, args.x.rows, [&](int begin, int end) {
    std::vector<float> sum(static_cast<std::size_t>(args.y.cols));
    for (int r = begin; r < end; ++r) {
      std::fill(sum.begin(), sum.end(), 0.0f);
      for (int i = r * args.chosen; i < (r + 1) * args.chosen; ++i) {
        const auto pair = static_cast<std::size_t>(i);
        kernels.add_row(memory.out.row(memory.places[pair]), memory.choices[pair].weight, args.y.cols, sum.data());
      }
      kernels.add_row(sum.data(), 1, args.y.cols, args.y.row(r));
    }
  });
}

inline void gate_rows(Cpu& device, const GateRowsArgs& args) {
  const auto& kernels = cpu::kernels_for(device.isa());
  cpu::split_rows(device, args.x.rows, [&](int begin, int end) {
    for (int r = begin; r < end; ++r) {
      float weight;
      kernels.products_row(args.x.row(r), args.weights, args.x.cols, 1, &weight);
      cpu::sigmoid_row(kernels, 1, &weight);
      for (int i = 0; i < args.y.cols; ++i) args.y.row(r)[i] *= weight;
    }
  });
}

inline void add_positions(Cpu& device, const AddPositionsArgs& args) {
  const auto& kernels = cpu::kernels_for(device.isa());
  cpu::split_rows(device, args.x.rows, [&](int begin, int end) {
    for (int r = begin; r < end; ++r) {
      const float* p = args.table + static_cast<std::ptrdiff_t>(args.batch.positions[r]) * args.x.cols;
      kernels.add_row(p, 1, args.x.cols, args.x.row(r));
    }
  });
}

}  // namespace tenon
