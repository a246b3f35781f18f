// The sequences of a queue, by their ids. Code that only reads them takes this table, whatever the scheduler.
#pragma once
#include <unordered_map>
#include <utility>

#include "tenon/core/error.h"
#include "tenon/core/plan.h"
#include "tenon/schedule/sequence.h"

namespace tenon {

/// Sequences that wait, run or are held. SequenceQueue fills it.
class SequenceTable {
 public:
  /// Error internal if it is not here.
  const Sequence& sequence(SeqId seq) const;
  bool contains(SeqId seq) const { return sequences_.contains(seq); }
  bool empty() const { return sequences_.empty(); }

 protected:
  SequenceTable() = default;
  SequenceTable(SequenceTable&&) noexcept = default;
  SequenceTable& operator=(SequenceTable&&) noexcept = default;

  /// null: not here.
  const Sequence* find(SeqId seq) const {
    const auto found = sequences_.find(seq);
    return found == sequences_.end() ? nullptr : &found->second;
  }
  Sequence* find(SeqId seq) { return const_cast<Sequence*>(std::as_const(*this).find(seq)); }
  /// Error internal if it is not here.
  Sequence& at(SeqId seq) { return const_cast<Sequence&>(sequence(seq)); }

  std::unordered_map<SeqId, Sequence> sequences_;  // nodes stay where they are
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/schedule/sequence_table-inl.h"
#endif
