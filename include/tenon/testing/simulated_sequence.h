/// A sequence as the simulation records it, and the promises that it checks.
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "tenon/core/request.h"
#include "tenon/schedule/sequence.h"
#include "tenon/testing/simulated_engine.h"
#include "tenon/testing/simulated_load.h"

namespace tenon::testing {

/// Promises of a policy beyond the laws of every policy. A promise that is not made here is not checked.
struct PolicyPromises {
  int max_batch = 0;                                   ///< sequences at once; 0: no bound
  int token_budget = std::numeric_limits<int>::max();  ///< rows of a step
  bool continuous = false;                       ///< a sequence that fits joins at once if batch and budget have room
  std::optional<Clock::duration> company = {};   ///< longest wait of an idle engine for a fuller batch
  std::optional<Clock::duration> patience = {};  ///< a sequence that has waited this long is not overtaken ...
  bool patience_by_adapter = false;              ///< ... by sequences of the same client and adapter
};

namespace detail {

struct BrokenInvariant : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline void demand(bool holds, const char* invariant, SeqId seq = kNoSequence) {
  if (holds) return;
  throw BrokenInvariant(invariant + (seq == kNoSequence ? std::string{} : " (sequence " + std::to_string(seq) + ")"));
}

struct SimulatedSequence {
  SeqId seq = 0;
  RequestId request = 0;
  std::shared_ptr<const SimulatedRequest> about;
  SimulatedSampling sampling = {};
  LoneAnswer alone = {};
  TimePoint arrival{};
  SeqId parent = kNoSequence;
  int ordinal = 0;                       // number of choices of its request before it
  bool scores = false;                   // the first choice scores the prompt for all
  std::vector<std::uint64_t> tags = {};  // tags of its known tokens, then of guesses
  std::size_t sure_tags = 0;             // number of those that were no guesses
  int delivered = 0;
  int scored = 0;  // end of the scored positions of the prompt, which begin at score_from
  bool on_hold = false, ended = false;
  bool runs = false;             // its state at the last check
  std::uint64_t left_in = 0;     // step in which it was cancelled or held
  std::uint64_t planned_in = 0;  // step in which it last ran
  int preemptions = 0, admissions = 0, holds = 0;
  long rows = 0;      // rows computed and committed
  int published = 0;  // tokens in blocks that others may have found
  int passed = 0;     // most tokens that it ever had in the cache, computed or found

  int prompt_tokens() const { return static_cast<int>(about->prompt.size()); }
  int known() const { return prompt_tokens() + delivered; }
  int cache_end() const { return prompt_tokens() + std::max(about->max_new_tokens, 1) - 1; }
  // The tags of all tokens, guesses included. Keeps those of the known ones.
  std::span<const std::uint64_t> tags_of(std::span<const TokenId> tokens) {
    tags.resize(std::min(tags.size(), sure_tags));
    while (tags.size() < tokens.size()) {
      tags.push_back(about->key.tag(tags.empty() ? 0 : tags.back(), tags.size(), tokens[tags.size()]));
    }
    sure_tags = std::min(tags.size(), static_cast<std::size_t>(known()));
    return tags;
  }
};

}  // namespace detail
}  // namespace tenon::testing
