#pragma once
#include <algorithm>
#include <string>

#include "tenon/core/error.h"
#include "tenon/core/require.h"
#include "tenon/schedule/sequence.h"

namespace tenon {

TENON_INLINE Candidate Sequence::candidate() const {
  return {.seq = seq,
          .cached = cached,
          .pending = pending(),
          .remaining = remaining(),
          .arrival = arrival,
          .adapter = adapter,
          .priority = priority,
          .client = client,
          .ordinal = ordinal,
          .request = request,
          .tag = tag,
          .deadline = deadline};
}

TENON_INLINE void check_cache_room(std::size_t prompt, int max_new_tokens, int capacity) {
  const std::size_t needed = cache_tokens_of(prompt, max_new_tokens);
  if (needed <= static_cast<std::size_t>(std::max(capacity, 0))) return;
  throw Error(Error::Kind::capacity, "prompt",
              std::to_string(prompt) + " tokens and max_new_tokens " + std::to_string(max_new_tokens) + " need " +
                  std::to_string(needed) + " tokens of cache; a sequence can have " + std::to_string(capacity));
}

}  // namespace tenon
