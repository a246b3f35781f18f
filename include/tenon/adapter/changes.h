// Changes of an adapter beside its low-rank updates: gains of DoRA and IA3, biases, norms, embedding and head.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "tenon/adapter/site.h"
#include "tenon/checkpoint/peft.h"
#include "tenon/core/low_rank.h"

namespace tenon {

/// The vectors of one adapter that scale or replace the model's, in the host's memory. Not copied or moved: an
/// AdapterSet points into it.
class ChangeTable {
 public:
  /// Reads the vectors. DoRA's gains are magnitude / |W + scale * B A|, with norms in double over the weights that
  /// `base` decodes. Errors: those of PeftAdapter::read; unsupported, if `base` is empty and the adapter needs it, or
  /// if IA3 scales the inputs of a part of a matrix alone; invalid_file, if a value is not finite.
  ChangeTable(const PeftAdapter& adapter, const AdapterSites& sites, const BaseWeights& base);
  ChangeTable(const ChangeTable&) = delete;

  /// Null: the adapter changes nothing beside its low-rank updates.
  const AdapterChanges* changes() const { return changes_.any() ? &changes_ : nullptr; }

  /// Bytes of the vectors.
  std::size_t bytes() const;
  /// bytes() of the table of this adapter, or slightly more. Reads no values.
  static std::size_t bytes_of(const PeftAdapter& adapter, const AdapterSites& sites);

 private:
  std::vector<ProductChange> products_;
  std::vector<NormChange> norms_;
  std::deque<std::vector<float>> vectors_;
  std::deque<std::vector<std::int32_t>> tokens_;
  AdapterChanges changes_;
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/adapter/changes-inl.h"
#endif
