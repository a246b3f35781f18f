#pragma once
#include <algorithm>
#include <string>
#include <utility>

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

TENON_INLINE int Sequence::most_guesses(int recompute_after) const {
  const int most = remaining() - 1;
  const bool may_outgrow = recompute_after > 0 && prompt_tokens <= recompute_after && read_again == 0;
  return may_outgrow ? std::min(most, recompute_after - known()) : most;
}

TENON_INLINE bool Sequence::outgrow(int recompute_after) {
  const bool may_outgrow = recompute_after > 0 && prompt_tokens <= recompute_after && read_again == 0;
  if (!may_outgrow || known() <= recompute_after) return false;
  read_again = recompute_after + 1;
  identity += "\noutgrown";
  return true;
}

TENON_INLINE Sequence make_sequence(SeqId seq, NewSequence request) {
  Sequence s;
  s.seq = seq;
  s.request = request.request;
  s.choice = request.choice;
  s.tokens = std::move(request.tokens);
  s.tokens.reserve(cache_tokens_of(s.tokens.size(), request.max_new_tokens) + 1);
  s.prompt_tokens = s.known();
  s.tokens.insert(s.tokens.end(), request.generated.begin(), request.generated.end());
  s.max_new_tokens = request.max_new_tokens;
  s.arrival = request.arrival;
  s.adapter = request.adapter;
  s.priority = request.priority;
  s.client = request.client;
  s.ordinal = request.ordinal;
  s.tag = request.tag;
  s.deadline = request.deadline;
  s.identity = std::move(request.identity);
  s.adapters = std::move(request.adapters);
  s.adapters_from = request.adapters_from;
  s.share_limit = request.share_limit;
  s.reuse_limit = request.reuse_limit;
  return s;
}

TENON_INLINE void check_cache_room(std::size_t prompt, int max_new_tokens, int capacity) {
  const std::size_t needed = cache_tokens_of(prompt, max_new_tokens);
  if (needed <= static_cast<std::size_t>(std::max(capacity, 0))) return;
  throw Error(Error::Kind::capacity, "prompt",
              std::to_string(prompt) + " tokens and max_new_tokens " + std::to_string(max_new_tokens) + " need " +
                  std::to_string(needed) + " tokens of cache; a sequence can have " + std::to_string(capacity));
}

}  // namespace tenon
