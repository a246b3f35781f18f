// The low-rank updates of a step's rows, and what else their adapters change, computed with each product of the model.
#pragma once
#include <algorithm>
#include <cstddef>
#include <functional>
#include <span>
#include <type_traits>
#include <vector>

#include "tenon/core/batch.h"
#include "tenon/core/concepts.h"
#include "tenon/ops/args.h"
#include "tenon/ops/change_args.h"
#include "tenon/ops/low_rank_first.h"

namespace tenon {

/// Splits the groups into tiles of at most D::rows_together rows and puts them in the step's memory on the device. Rows
/// without an adapter form one tile more.
template <DevicePolicy D>
void put_tiles(D& device, int step_rows, AdapterGroups& groups) {
  std::vector<AdapterTile> tiles;
  std::vector<int> rows = groups.rows;
  groups.tiles.most = 1;
  for (const AdapterGroup& group : groups.groups) {
    for (int i = 0; i < group.count; i += D::rows_together) {
      tiles.push_back({*group.adapters, group.first + i, std::min(group.count - i, D::rows_together)});
      groups.tiles.most = std::max(groups.tiles.most, tiles.back().count);
    }
  }
  std::vector<bool> adapted(static_cast<std::size_t>(step_rows));
  for (const int row : rows) adapted[static_cast<std::size_t>(row)] = true;
  const int first = static_cast<int>(rows.size());
  for (int row = 0; row < step_rows; ++row) {
    if (!adapted[static_cast<std::size_t>(row)]) rows.push_back(row);
  }
  const int plain = static_cast<int>(rows.size()) - first;
  if (plain > 0) tiles.push_back({{}, first, plain});
  groups.tiles.count = static_cast<int>(tiles.size());
  groups.tiles.tiles = device.put(std::span<const AdapterTile>(tiles));
  groups.tiles.rows = device.put(std::span<const int>(rows));
}

/// Groups the rows of a step by adapter: AdapterPolicy::arrange of any policy.
using RowGrouper = std::function<void(std::span<const AdapterSet* const> rows, AdapterGroups& out)>;

/// The policy must outlive the result.
template <AdapterPolicy P>
RowGrouper row_grouper(const P& policy) {
  return [&policy](std::span<const AdapterSet* const> rows, AdapterGroups& out) { policy.arrange(rows, out); };
}

/// Adds the low-rank updates of a step's rows to the products of a model.
template <DevicePolicy D>
class LowRankUpdates {
 public:
  /// Sets the rows of the next products: a batch in host memory, grouped by `group`.
  void arrange(D& device, const RowGrouper& group, const BatchView& batch);
  template <AdapterPolicy P>
  void arrange(D& device, const P& policy, const BatchView& batch) {
    arrange(device, row_grouper(policy), batch);
  }

  /// Whether a row of the last arrange() has an update for the matrices of `site`.
  bool has(Site site) const { return (sites_ & AdapterSet::bit(site)) != 0; }

  /// linear(args), with the updates and changes of its rows for this layer and site.
  template <class W, class X, class Y>
  void multiply(D& device, LinearArgs<W, X, Y> args, int layer, Site site) {
    if constexpr (ChangesProducts<D> && std::is_same_v<X, MatrixView<const float>>) {
      if (changes_any_) change(device, args, layer, site);
    }
    if (!has(site) || args.x.rows == 0) return linear(device, args);
    const auto rows = static_cast<std::size_t>(args.x.rows);
    const int outputs = args.y.cols;
    const std::size_t pointers = (rows * sizeof(float*) + 63) / 64 * 64;
    const std::size_t bytes = pointers + rows * static_cast<std::size_t>(outputs) * sizeof(float);
    if (bytes > memory_.bytes()) memory_ = device.allocate(bytes);
    auto* const deltas = reinterpret_cast<const float**>(memory_.data());
    const MatrixView<float> delta{reinterpret_cast<float*>(memory_.data() + pointers), args.x.rows, outputs, outputs};
    const LowRankArgsOf<X> updates{args.x, &groups_, layer, site, delta, deltas};
    if constexpr (FusesLowRank<D, W>)
      linear(device, args, updates);
    else
      linear_after_updates(device, args, updates);
  }

  /// Changes the embeddings that `args` has made of the rows whose adapters have embeddings of their own.
  template <class W>
  void apply_to_embeddings(D& device, const EmbedArgs<W>& args) {
    if (!changes_any_) return;
    table_changes_.assign(static_cast<std::size_t>(args.batch.rows), nullptr);
    bool any = false;
    for (std::size_t r = 0; r < table_changes_.size(); ++r) {
      if (of_row_[r]) table_changes_[r] = of_row_[r]->embedding();
      any = any || table_changes_[r];
    }
    if (any) change_embeddings(device, ChangeEmbeddingsArgs<W>{args, table_changes_.data()});
  }

  /// Calls body(first, count, change) for runs of rows whose adapters change a norm alike, in order. `rows`: of the
  /// step.
  template <class Body>
  void for_norm_runs(int rows, int layer, NormSite site, Body&& body) const {
    if (!changes_any_) return body(0, rows, NormChange{});
    const auto change_of = [&](int row) {
      const AdapterSet* const set = of_row_[static_cast<std::size_t>(row)];
      return set ? set->norm(layer, site) : NormChange{};
    };
    for (int first = 0; first < rows;) {
      const NormChange change = change_of(first);
      int last = first + 1;
      while (last < rows && change_of(last) == change) ++last;
      body(first, last - first, change);
      first = last;
    }
  }

 private:
  // Points args to the changes of its rows, and to their inputs times input gains.
  template <class W, class X, class Y>
  void change(D& device, LinearArgs<W, X, Y>& args, int layer, Site site) {
    const auto rows = static_cast<std::size_t>(args.x.rows);
    changes_.assign(rows, {});
    input_gains_.assign(rows, nullptr);
    bool any = false, scales = false;
    for (std::size_t r = 0; r < rows; ++r) {
      if (!of_row_[r]) continue;
      changes_[r] = of_row_[r]->product(layer, site);
      input_gains_[r] = changes_[r].input_gain;
      any = any || changes_[r].gain || changes_[r].bias;
      scales = scales || input_gains_[r];
    }
    if (any) args.changes = changes_.data();
    if (!scales) return;
    const std::size_t bytes = rows * static_cast<std::size_t>(args.x.cols) * sizeof(float);
    if (bytes > scaled_.bytes()) scaled_ = device.allocate(bytes);
    const MatrixView<float> scaled{reinterpret_cast<float*>(scaled_.data()), args.x.rows, args.x.cols, args.x.cols};
    scale_rows(device, ScaleRowsArgs{args.x, input_gains_.data(), scaled});
    args.x = scaled;
  }

  std::vector<const AdapterSet*> of_row_;  // [rows]
  AdapterGroups groups_;
  unsigned sites_ = 0;                             // union over all groups, as AdapterSet::sites
  bool changes_any_ = false;                       // some adapter changes more than low-rank updates
  typename D::Memory memory_;                      // [rows] pointers, then the rows
  std::vector<ProductChange> changes_;             // [rows]
  std::vector<const float*> input_gains_;          // [rows]
  std::vector<const TableChange*> table_changes_;  // [rows]
  typename D::Memory scaled_;                      // [rows, inputs]
};

// Outside the class it is not inline: extern templates (engine/instances.h) then prevent another instance in each unit.
template <DevicePolicy D>
void LowRankUpdates<D>::arrange(D& device, const RowGrouper& group, const BatchView& batch) {
  groups_.clear();
  sites_ = 0;
  changes_any_ = false;
  const auto has_adapters = [](const SequenceRows& s) { return s.first_adapted() < s.rows; };
  if (!std::any_of(batch.sequences, batch.sequences + batch.sequence_count, has_adapters)) return;
  of_row_.assign(static_cast<std::size_t>(batch.rows), nullptr);
  for (int s = 0; s < batch.sequence_count; ++s) {
    const SequenceRows& rows = batch.sequences[s];
    const int first = rows.first_adapted();
    std::fill_n(of_row_.begin() + rows.first_row + first, rows.rows - first, rows.adapters);
  }
  group(of_row_, groups_);
  for (const AdapterGroup& each : groups_.groups) {
    sites_ |= each.adapters->sites;
    changes_any_ = changes_any_ || each.adapters->changes;
  }
  if constexpr (TilesRows<D>) put_tiles(device, batch.rows, groups_);
}

}  // namespace tenon
