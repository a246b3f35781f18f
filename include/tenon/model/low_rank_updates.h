// The low-rank updates of a step's rows, made beside each product of the model.
#pragma once
#include <algorithm>
#include <cstddef>
#include <vector>

#include "tenon/core/batch.h"
#include "tenon/core/concepts.h"
#include "tenon/ops/args.h"

namespace tenon {

template <DevicePolicy D>
class LowRankUpdates {
 public:
  // The rows that come next, in the host's memory, and how they are taken together.
  template <AdapterPolicy P>
  void arrange(const P& policy, const BatchView& batch) {
    groups_.clear();
    const auto has_adapters = [](const SequenceRows& s) { return s.adapters != nullptr; };
    if (!std::any_of(batch.sequences, batch.sequences + batch.sequence_count, has_adapters)) return;
    of_row_.assign(static_cast<std::size_t>(batch.rows), nullptr);
    for (int s = 0; s < batch.sequence_count; ++s) {
      const SequenceRows& rows = batch.sequences[s];
      std::fill_n(of_row_.begin() + rows.first_row, rows.rows, rows.adapters);
    }
    policy.arrange(of_row_, groups_);
  }

  // What LinearArgs::delta takes: the updates of x [rows, in] for a matrix of so many outputs. Valid until the next call.
  const float* const* add(D& device, MatrixView<const float> x, int layer, Site site, int outputs) {
    if (groups_.groups.empty() || x.rows == 0) return nullptr;
    const auto rows = static_cast<std::size_t>(x.rows);
    const std::size_t pointers = (rows * sizeof(float*) + 63) / 64 * 64;
    const std::size_t bytes = pointers + rows * static_cast<std::size_t>(outputs) * sizeof(float);
    if (bytes > memory_.bytes()) memory_ = device.allocate(bytes);
    auto* const deltas = reinterpret_cast<const float**>(memory_.data());
    const MatrixView<float> delta{reinterpret_cast<float*>(memory_.data() + pointers), x.rows, outputs, outputs};
    low_rank(device, LowRankArgs{x, &groups_, layer, site, delta, deltas});
    return deltas;
  }

 private:
  std::vector<const AdapterSet*> of_row_;  // [rows]
  AdapterGroups groups_;
  typename D::Memory memory_;  // pointers to rows, then the rows
};

}  // namespace tenon
