/// The mechanism of every cache: owns the ledger and the device memory, and makes the view of a step.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tenon/core/concepts.h"
#include "tenon/ops/args.h"

namespace tenon {

/// Sizes of a cache.
struct CacheStats {
  std::size_t bytes = 0;    ///< of keys and values, on the device
  int capacity_tokens = 0;  ///< of all sequences together
  int used_tokens = 0;      ///< not free; the rest of partly filled blocks or slots counts as used
};

/// Most tokens whose keys and values fit `bytes` bytes; 1 if none fit, because a cache holds at least one token.
template <CachePolicy P>
int tokens_within(const KvShape& shape, std::size_t bytes) {
  int fits = 0;
  for (int part = 1 << 30; part > 0; part /= 2) {
    if (P::bytes(shape, fits + part) <= bytes) fits += part;
  }
  return fits > 0 ? fits : 1;
}

/// The cache of an engine: a policy bound to a device. One thread at a time uses it.
template <CachePolicy P, DevicePolicy D>
class CacheStore {
 public:
  using Ledger = typename P::Ledger;
  using View = typename P::View;

  /// Allocates room for `tokens` tokens. Throws Error capacity if it does not fit.
  CacheStore(D& device, const KvShape& shape, int tokens);

  Ledger& ledger() { return ledger_; }
  const Ledger& ledger() const { return ledger_; }
  const KvShape& shape() const { return shape_; }
  /// Whether tokens stay cached between steps (CachePolicy::keeps_tokens).
  bool keeps_tokens() const;

  /// The view for the sequences of a batch, in the batch's order, for kernels of this step. Valid until the next call.
  View view(D& device, std::span<const SequenceRows> rows);

  /// Makes the block copies of forks, before this step writes.
  void copy_forked_blocks(D& device);

  CacheStats stats() const { return {bytes_, capacity_, capacity_ - static_cast<int>(ledger_.free_tokens())}; }

 private:
  KvShape shape_;
  int tokens_;
  std::size_t bytes_;
  typename D::Memory memory_;  // before the ledger: an allocation that fails throws before the ledger is made
  Ledger ledger_;
  int capacity_;
  std::vector<std::int32_t> table_;
};

// Members are defined outside the class, so they are not inline: extern templates (engine/instances.h) then prevent
// another instance in each unit.
template <CachePolicy P, DevicePolicy D>
CacheStore<P, D>::CacheStore(D& device, const KvShape& shape, int tokens)
    : shape_(shape),
      tokens_(tokens),
      bytes_(P::bytes(shape, tokens)),
      memory_(device.allocate(bytes_)),
      ledger_(P::ledger(shape, tokens)),
      capacity_(ledger_.free_tokens()) {}

template <CachePolicy P, DevicePolicy D>
bool CacheStore<P, D>::keeps_tokens() const {
  if constexpr (ChoosesCache<P>) return P::keeps(shape_);
  return P::keeps_tokens;
}

template <CachePolicy P, DevicePolicy D>
typename CacheStore<P, D>::View CacheStore<P, D>::view(D& device, std::span<const SequenceRows> rows) {
  table_.resize(P::table_entries(shape_, rows));
  View view = P::view(shape_, tokens_, ledger_, rows, static_cast<void*>(memory_.data()), table_);
  if constexpr (ReadsTable<View>)
    view.table = device.put(std::span<const std::int32_t>(table_));
  else if constexpr (ChoosesElement<View>)
    view.set_table(device.put(std::span<const std::int32_t>(table_)));
  return view;
}

template <CachePolicy P, DevicePolicy D>
void CacheStore<P, D>::copy_forked_blocks(D& device) {
  if constexpr (ForksSequences<Ledger>) {
    const auto copies = ledger_.copies();
    if (copies.empty()) return;
    const BlockLayout layout = P::block_layout(shape_, tokens_);
    copy_blocks(device, CopyBlocksArgs{memory_.data(), shape_.layers, layout, copies});
    ledger_.clear_copies();
  }
}

}  // namespace tenon
