// What the simulation itself knows of a sequence, and what it demands.
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

// What a policy promises beyond what every policy must keep. Nothing is taken for granted: what is not said is not
// checked.
struct PolicyPromises {
  int max_batch = 0;                                   // sequences at once; 0: no bound
  int token_budget = std::numeric_limits<int>::max();  // rows of a step
  bool continuous = false;                             // whoever fits, with batch and budget left, joins at once
  std::optional<Clock::duration> company = {};         // an idle engine waits for company at most so long
  std::optional<Clock::duration> patience = {};        // who has waited so long is overtaken by nobody ...
  bool patience_by_adapter = false;                    // ... of the same client and adapter
};

namespace detail {

struct BrokenInvariant : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline void demand(bool holds, const char* invariant, SeqId seq = kNoParent) {
  if (holds) return;
  throw BrokenInvariant(invariant + (seq == kNoParent ? std::string{} : " (sequence " + std::to_string(seq) + ")"));
}

struct SimulatedSequence {
  SeqId seq = 0;
  RequestId request = 0;
  std::shared_ptr<const SimulatedRequest> about;
  SimulatedSampling sampling = {};
  LoneAnswer alone = {};
  TimePoint arrival{};
  SeqId parent = kNoParent;
  int ordinal = 0;                       // choices of its request before it
  bool scores = false;                   // the first choice scores the prompt for all
  std::vector<std::uint64_t> tags = {};  // of its known tokens
  int delivered = 0;
  int scored = 0;  // up to this position of the prompt, from score_from
  bool on_hold = false, ended = false;
  bool runs = false;             // when it was last looked at
  std::uint64_t left_in = 0;     // the step in which it was cancelled or held
  std::uint64_t planned_in = 0;  // the step that it last ran in
  int preemptions = 0, admissions = 0, holds = 0;
  long rows = 0;      // computed and committed
  int published = 0;  // tokens in blocks that others may have found
  int passed = 0;     // the most tokens that it ever had in the cache, computed or found

  int prompt_tokens() const { return static_cast<int>(about->prompt.size()); }
  int known() const { return prompt_tokens() + delivered; }
  int cache_end() const { return prompt_tokens() + std::max(about->max_new_tokens, 1) - 1; }
  // The tags of all known tokens; those of the last step are added here.
  std::span<const std::uint64_t> tags_of(std::span<const TokenId> tokens) {
    while (tags.size() < tokens.size()) {
      tags.push_back(next_tag(tags.empty() ? first_tag(about->identity) : tags.back(), tokens[tags.size()]));
    }
    return tags;
  }
};

}  // namespace detail
}  // namespace tenon::testing
