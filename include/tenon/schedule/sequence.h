// A sequence as the queue keeps it.
#pragma once
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "tenon/core/low_rank.h"
#include "tenon/core/plan.h"
#include "tenon/core/request.h"
#include "tenon/core/views.h"

namespace tenon {

/// The most times that a sequence is preempted. Then it comes back only with room to its end, and stays.
inline constexpr int kMaxPreemptions = 4;

/// The last token of a sequence, where a device has picked it and the host does not know it yet.
inline constexpr TokenId kUnknownToken = -1;

/// NewSequence::parent of a sequence that shares no prompt.
inline constexpr SeqId kNoSequence = std::numeric_limits<SeqId>::max();

/// A sequence to be added to the queue.
struct NewSequence {
  RequestId request = 0;
  int choice = 0;
  std::vector<TokenId> tokens = {};     ///< the prompt
  std::vector<TokenId> generated = {};  ///< that another engine has picked
  int max_new_tokens = 16;
  TimePoint arrival{};
  int adapter = -1;
  int priority = 0;
  int client = 0;
  int ordinal = 0;
  std::uint64_t tag = 0;
  TimePoint deadline = TimePoint::max();
  std::string identity = {};  ///< all that keys depend on beside tokens: adapters, a salt
  std::shared_ptr<const AdapterSet> adapters = {};
  int adapters_from = 0;  ///< position from which they act
  /// Tokens, from the first on, whose keys others may share: those after them depend on more than `identity`.
  int share_limit = std::numeric_limits<int>::max();
  int reuse_limit = std::numeric_limits<int>::max();  ///< prompt tokens that may come from the cache
  SeqId parent = kNoSequence;  ///< a sequence with the same prompt, whose cache is shared once it has read that
};

/// A sequence and its state.
struct Sequence {
  /// A held sequence is shown to no policy: its reader is slow, or its parent still reads the prompt they share.
  enum class State { waiting, running, held };

  SeqId seq = 0;
  RequestId request = 0;
  int choice = 0;
  std::vector<TokenId> tokens;  ///< the prompt, then generated tokens, then guessed ones
  int guessed = 0;              ///< of `tokens`, the last ones, which this step verifies (SequenceQueue::guess)
  int prompt_tokens = 0;
  int cached = 0;    ///< tokens whose keys and values are in the cache
  int reserved = 0;  ///< tokens that the cache has room for, cached <= reserved; those that a window has passed count
  int computed = 0;  ///< the most that `cached` ever was
  int max_new_tokens = 0;
  TimePoint arrival{}, admitted{};  ///< admitted: the first time
  int adapter = -1;
  int priority = 0;
  int client = 0;
  int ordinal = 0;
  std::uint64_t tag = 0;
  TimePoint deadline = TimePoint::max();
  std::string identity;
  std::shared_ptr<const AdapterSet> adapters;  ///< kept until the sequence has ended
  int adapters_from = 0;
  int share_limit = std::numeric_limits<int>::max();
  int reuse_limit = 0;
  SeqId parent = kNoSequence;
  std::vector<SeqId> children;  ///< that wait until this one has read the prompt
  int preemptions = 0;
  State state = State::waiting;
  bool on_hold = false, awaits_parent = false;  ///< either: State::held
  bool was_admitted = false;
  bool unpublished = false;      ///< others cannot find all verified tokens yet: commit() left them out
  bool outgrown = false;         ///< the next plan gives its cache back: SequenceQueue::set_recompute_after
  int read_again = 0;            ///< tokens that are read as a prompt after it has outgrown its cache; 0: it has not
  int reused = 0;                ///< of `cached`, tokens that move_in() found
  std::uint64_t planned_in = 0;  ///< the attempt at a plan that granted it rows

  /// Tokens that are certain.
  int known() const { return static_cast<int>(tokens.size()) - guessed; }
  int pending() const { return known() - cached; }
  /// Tokens that are read as a prompt, by which dynamic and longrope tell texts apart.
  int read_at_once() const { return read_again > 0 ? read_again : prompt_tokens; }
  int generated() const { return known() - prompt_tokens; }
  int remaining() const { return max_new_tokens - generated(); }
  /// All tokens are picked, some perhaps unknown to the host.
  bool has_written_all() const { return remaining() <= 0 && (generated() > 0 || computed >= prompt_tokens); }
  bool preemptible() const { return preemptions < kMaxPreemptions; }
  /// The most tokens that the cache will hold of it.
  int cache_end() const { return static_cast<int>(cache_tokens_of(static_cast<std::size_t>(known()), remaining())); }
  /// Tokens that may be guessed: those before the last one. A text that is to be read again once it has more than
  /// `recompute_after` tokens is not guessed beyond them, as its keys are others then (0: it never is).
  int most_guesses(int recompute_after) const;
  /// Whether the step that was committed last verifies guesses.
  bool verifies() const { return guessed > 0 || unpublished; }
  /// Call it when tokens were added. True if the sequence has outgrown its cache, with more than `recompute_after`
  /// tokens (0: it never does). From then on its keys are others than before, and than those of shorter texts.
  bool outgrow(int recompute_after);
  void forget_guesses() {
    tokens.resize(static_cast<std::size_t>(known()));
    guessed = 0;
  }
  Candidate candidate() const;
};

/// A sequence that waits. Its tokens have room for all that it may write.
Sequence make_sequence(SeqId seq, NewSequence request);

/// Refuses what a sequence's cache can never hold: error capacity, field `prompt`. capacity: tokens of one sequence.
void check_cache_room(std::size_t prompt, int max_new_tokens, int capacity);

/// Counters of a queue.
struct QueueStats {
  std::uint64_t steps = 0;      ///< committed ones
  std::uint64_t sequences = 0;  ///< summed over steps: sequences / steps is the mean occupancy
  std::uint64_t rows = 0;       ///< summed over steps
  std::uint64_t preemptions = 0;
  std::uint64_t prefix_hit_tokens = 0;  ///< prompt tokens that newcomers found in the cache
  std::uint64_t added = 0, ended = 0;
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/schedule/sequence-inl.h"
#endif
