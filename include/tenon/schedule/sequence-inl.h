#pragma once
#include "tenon/core/require.h"
#include "tenon/schedule/sequence.h"

namespace tenon {

TENON_INLINE Candidate Sequence::candidate() const {
  return {seq, cached, pending(), remaining(), arrival, adapter, priority, client, ordinal};
}

}  // namespace tenon
