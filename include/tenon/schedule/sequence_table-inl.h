#pragma once
#include <string>

#include "tenon/core/require.h"
#include "tenon/schedule/sequence_table.h"

namespace tenon {

TENON_INLINE const Sequence& SequenceTable::sequence(SeqId seq) const {
  const Sequence* s = find(seq);
  if (!s) throw Error(Error::Kind::internal, "queue", "has no sequence " + std::to_string(seq));
  return *s;
}

}  // namespace tenon
