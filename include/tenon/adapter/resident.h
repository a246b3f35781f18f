// An adapter in device memory: its factors with the file's values in the layout of the ops, a table of the updates of
// each layer and site, and what it changes beside them.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tenon/adapter/changes.h"
#include "tenon/adapter/site.h"
#include "tenon/checkpoint/peft.h"
#include "tenon/core/concepts.h"
#include "tenon/core/low_rank.h"
#include "tenon/core/request.h"

namespace tenon {

/// The updates of each layer and site in device memory. An AdapterSet points into it.
template <DevicePolicy D>
class UpdateTable {
 public:
  /// by_place: [layers * kSites], lists of updates whose factors are in device memory and outlive the table. So do
  /// `changes`; null: none.
  UpdateTable(D& device, const std::vector<std::vector<LowRank>>& by_place, const AdapterChanges* changes = nullptr) {
    set_.changes = changes;
    std::size_t count = 0;
    set_.sites = 0;
    for (std::size_t i = 0; i < by_place.size(); ++i) {
      count += by_place[i].size();
      if (!by_place[i].empty()) set_.sites |= AdapterSet::bit(static_cast<Site>(i % kSites));
    }
    const std::size_t updates = count * sizeof(LowRank), begins = (by_place.size() + 1) * sizeof(int);
    memory_ = device.allocate(updates + begins);
    device.fill({memory_.data(), updates + begins}, [&](std::span<std::byte> host) {
      std::byte *update = host.data(), *begin = host.data() + updates;
      int first = 0;
      for (const auto& place : by_place) {
        begin = put(begin, first);
        for (const LowRank& each : place) update = put(update, each);
        first += static_cast<int>(place.size());
      }
      put(begin, first);
    });
    set_.updates = reinterpret_cast<const LowRank*>(memory_.data());
    set_.begins = reinterpret_cast<const int*>(memory_.data() + updates);
  }

  /// Valid as long as the table.
  const AdapterSet& set() const { return set_; }

 private:
  template <class T>
  static std::byte* put(std::byte* at, const T& value) {
    std::memcpy(at, &value, sizeof value);
    return at + sizeof value;
  }

  typename D::Memory memory_;
  AdapterSet set_;
};

/// One adapter in device memory. It is immutable; its digest identifies its content.
template <DevicePolicy D>
class ResidentAdapter {
 public:
  /// Reads all factors. Errors name file and tensor, for example if a value is not finite. `base`: for adapters that
  /// change more than low-rank updates; an empty one refuses them as unsupported.
  ResidentAdapter(D& device, const PeftAdapter& adapter, const AdapterSites& sites, const BaseWeights& base = {});

  /// The digest of factors and scales, as PeftAdapter::digest.
  const std::string& digest() const { return digest_; }
  /// All updates of the adapter. Valid as long as the adapter.
  const AdapterSet& set() const { return table_->set(); }
  /// [layers * kSites]: the updates, for tables that combine several adapters.
  const std::vector<std::vector<LowRank>>& by_place() const { return by_place_; }
  /// AdapterLease::invocation.
  const std::vector<TokenId>& invocation() const { return invocation_; }
  /// Sets invocation, head and task of a lease to those of the adapter. A task that is set already is kept instead of
  /// AdapterTask::text.
  void describe(AdapterLease& lease) const;
  /// PeftAdapter::beyond_updates.
  const std::string& beyond_updates() const { return beyond_updates_; }
  /// Bytes of the factors in device memory, and of the vectors of its changes and its classification head.
  std::size_t bytes() const { return factors_.bytes() + changes_.bytes() + (head_ ? head_->bytes() : 0); }
  /// bytes() of a resident adapter of this file, or slightly more. The update table is not counted.
  static std::size_t bytes_of(const PeftAdapter& adapter, const AdapterSites& sites) {
    return factor_bytes(adapter) + ChangeTable::bytes_of(adapter, sites) + adapter.classifier_bytes();
  }

 private:
  static constexpr std::size_t kLine = 64;

  static std::size_t factor_bytes(const PeftAdapter& adapter);

  // Each factor begins at a cache line.
  static std::size_t padded(std::size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

  // Reorders [outputs, rank] of the file into the blocks of LowRank::b. Outputs are in the order of the model.
  template <class Word>
  static void in_blocks(std::span<const std::byte> stored, const AdapterSite& site, int rank, std::span<std::byte> out);

  std::string digest_, beyond_updates_;
  std::vector<TokenId> invocation_;
  AdapterTask task_ = AdapterTask::text;
  std::shared_ptr<const ClassifierHead> head_;  // null: none
  typename D::Memory factors_;
  std::vector<std::vector<LowRank>> by_place_;
  ChangeTable changes_;
  std::optional<UpdateTable<D>> table_;
};

// Members are defined outside the class, so they are not inline: extern templates (adapter/store.h) then prevent
// another instance in each unit.
template <DevicePolicy D>
ResidentAdapter<D>::ResidentAdapter(D& device, const PeftAdapter& adapter, const AdapterSites& sites,
                                    const BaseWeights& base)
    : by_place_(static_cast<std::size_t>(sites.layers * kSites)), changes_(adapter, sites, base) {
  PeftDigest digest(adapter.config(), adapter.factors().size());
  factors_ = device.allocate(factor_bytes(adapter));
  std::byte* next = factors_.data();
  for (const PeftFactors& f : adapter.factors()) {
    const AdapterSite& site = sites.sites[f.module];
    digest.add(f.scale);
    std::byte* const a = next;
    device.fill({a, f.a_bytes()}, [&](std::span<std::byte> host) {
      adapter.read_a(f, host);
      digest.add_a(f, host);
    });
    next += padded(f.a_bytes());
    std::byte* const b = next;
    device.fill({b, f.b_bytes()}, [&](std::span<std::byte> host) {
      std::vector<std::byte> stored(host.size());
      adapter.read_b(f, stored);
      digest.add_b(f, stored);
      if (f.type == FactorType::float32)
        in_blocks<std::uint32_t>(stored, site, f.rank, host);
      else
        in_blocks<std::uint16_t>(stored, site, f.rank, host);
    });
    next += padded(f.b_bytes());
    by_place_[static_cast<std::size_t>(site.layer * kSites + static_cast<int>(site.site))].push_back(
        {a, b, f.type, f.rank, static_cast<float>(f.scale), site.first_output, site.module.outputs});
  }
  digest.add_others(adapter);
  digest_ = digest.text();
  beyond_updates_ = adapter.beyond_updates();
  invocation_ = adapter.config().invocation_tokens;
  task_ = adapter.config().task;
  head_ = adapter.read_classifier();
  table_.emplace(device, by_place_, changes_.changes());
}

template <DevicePolicy D>
void ResidentAdapter<D>::describe(AdapterLease& lease) const {
  lease.invocation = invocation_;
  lease.head = head_;
  if (task_ != AdapterTask::text) lease.task = task_;
}

template <DevicePolicy D>
std::size_t ResidentAdapter<D>::factor_bytes(const PeftAdapter& adapter) {
  std::size_t bytes = 0;
  for (const PeftFactors& f : adapter.factors()) bytes += padded(f.a_bytes()) + padded(f.b_bytes());
  return bytes;
}

template <DevicePolicy D>
template <class Word>
void ResidentAdapter<D>::in_blocks(std::span<const std::byte> stored, const AdapterSite& site, int rank,
                                   std::span<std::byte> out) {
  const Word* from = reinterpret_cast<const Word*>(stored.data());
  Word* to = reinterpret_cast<Word*>(out.data());
  for (const OutputRun& run : site.runs) {
    for (int i = 0; i < run.count; ++i) {
      const int own = run.own - site.first_output + i, block = own / kFactorBlock * kFactorBlock;
      const int width = std::min(kFactorBlock, site.module.outputs - block);
      const Word* row = from + static_cast<std::ptrdiff_t>(run.stored + i) * rank;
      for (int r = 0; r < rank; ++r) to[static_cast<std::ptrdiff_t>(block) * rank + r * width + own - block] = row[r];
    }
  }
}

}  // namespace tenon
