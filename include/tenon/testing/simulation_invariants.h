/// The invariants of serving, checked from outside after every step of a simulation. The checks keep the state of the
/// queue and of the ledger a second time, in the plainest form.
///   - I1: free and used blocks are all blocks. References are the tables that hold a block. No block is twice in a
///     table. With a window a block belongs to one sequence, and the passed blocks of its ring are those that no row
///     sees.
///   - I2: a shared block is never written to; a row sees what was written, and all of it is in the cache
///   - I3: limits hold: rows within the budget, sequences within the batch, tokens within the room
///   - I4: every sequence is in exactly one state, changes it along the diagram, and has blocks only while it runs
///   - I5: tokens come in order, each exactly once, none after the end
///   - I6: a text finds only what was left under its own identity: adapter, its version, salt; and nothing from
///     the position on where its adapter is activated
///   - I7: the answer is the one that the request gets alone
///   - I8: no request starves: bounded preemptions, bounded work, none overtaken for ever, the oldest reaches its end
///   - I9: nothing idles: no empty step while there is work, no request waits while there is room, kept prefixes are
///   found
///   - I10: in the end every block is free
/// The checks that need the engine (I2, I5, I7) are in simulation.h. Adapters are identities here: none is loaded or
/// evicted.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tenon/schedule/sequence_queue.h"
#include "tenon/testing/policy_witness.h"
#include "tenon/testing/simulated_ledger.h"
#include "tenon/testing/simulated_load.h"
#include "tenon/testing/simulated_sequence.h"

namespace tenon::testing::detail {

class Invariants final : public PolicyWitness {
 public:
  Invariants(const SimulationConfig& config, const PolicyPromises& promises, SimulatedLedger& ledger)
      : config_(config), promises_(promises), ledger_(ledger), tables_(static_cast<std::size_t>(config.blocks)) {}

  void watch(const SequenceQueue& queue) { queue_ = &queue; }

  std::vector<SimulatedSequence> all;  // by id
  std::vector<SeqId> live;             // not ended, in order of arrival
  bool reuses_prefixes = true, draining = false;

  SimulatedSequence& at(SeqId seq) { return all[seq]; }
  const Sequence& seen(SeqId seq) const { return queue_->sequence(seq); }
  std::uint64_t step() const { return step_; }
  bool runs(SeqId seq) const { return all[seq].runs; }

  // ---- events of a sequence

  void ended(SimulatedSequence& s) {
    s.ended = true;
    std::erase(live, s.seq);
    left(s);
    demand(!queue_->contains(s.seq), "I4: who has ended is not in the queue", s.seq);
    demand(ledger_.held(s.seq).empty(), "I5: who has ended has no blocks", s.seq);
  }
  void held(SimulatedSequence& s) {
    s.on_hold = true;
    left(s);
    demand(ledger_.held(s.seq).empty(), "I4: who is held has no blocks", s.seq);
  }

  // ---- a step, in this order: before_plan, shown() to the policy, after_plan, before_commit, told(), at_rest

  void before_plan(TimePoint now, int token_budget) {
    now_ = now;
    token_budget_ = token_budget;
    attempts_ = 0;
    oldest_ = kNoSequence;
    refusals_ = ledger_.refusals();
    ++step_;
  }

  void shown(const QueueState& state) override {
    demand(state.free_cache_tokens == ledger_.free_tokens(), "I1: the policy is shown what is free");
    demand(state.now == now_ && state.draining == draining, "I4: the policy is shown the time, and who drains");
    auto next = order_.begin();
    for (const Candidate& c : state.running) {
      shown(c, Sequence::State::running);
      next = std::find(next, order_.end(), c.seq);
      demand(next != order_.end(), "I4: those that run are shown in order of admission", c.seq);
      ++next;
    }
    const Candidate* before = nullptr;
    for (const Candidate& c : state.waiting) {
      shown(c, Sequence::State::waiting);
      demand(!before || before->seq < c.seq, "I4: those that wait are shown in order of arrival", c.seq);
      before = &c;
    }
    const auto in_line = std::count_if(live.begin(), live.end(), [&](SeqId seq) { return !hidden(at(seq)); });
    demand(static_cast<std::size_t>(in_line) == state.running.size() + state.waiting.size(),
           "I4: everybody who may run is shown");
    if (attempts_++ == 0) {
      demand(state.running.size() == order_.size(), "I4: nobody stops running between steps");
      if (!state.running.empty()) oldest_ = state.running.front().seq;
    }
    ledger_.refuse(config_.refusals, oldest_);
  }

  void after_plan(const Plan& plan) {
    ledger_.refuse(0, kNoSequence);
    limits(plan);
    const std::size_t newcomers = admit(plan), ran = order_.size();
    for (const SeqId seq : std::vector<SeqId>(order_)) {
      SimulatedSequence& s = at(seq);
      if (seen(seq).state == Sequence::State::running) continue;
      demand(seq != oldest_, "I8: the oldest is never preempted", seq);
      demand(newcomers == 0, "I8: newcomers go before anybody is preempted", seq);
      ++s.preemptions;
      s.runs = false;
      std::erase(order_, seq);
    }
    nobody_starves(plan, newcomers);
    nobody_idles(plan, /*preempts=*/order_.size() < ran);
    states(/*planned=*/true);
    blocks();
  }

  void before_commit(const Plan& plan) {
    expected_.clear();
    was_told_ = false;
    for (const Plan::Slice& slice : plan.slices) {
      SimulatedSequence& s = at(slice.seq);
      if (s.left_in == step_) continue;
      const int guessed = seen(s.seq).guessed;
      const int from = seen(s.seq).cached, to = from + slice.tokens - guessed, end = s.prompt_tokens();
      const int fresh = std::max(0, std::min(to, end) - std::min(std::max(s.passed, from), end));
      expected_.push_back({s.seq, s.about->adapter, fresh,
                           to == s.known() && s.about->max_new_tokens > s.delivered ? 1 : 0, s.about->client});
      s.passed = std::max(s.passed, to);
      s.rows += slice.tokens - guessed;
      if (!config_.keeps_tokens) continue;
      demand(s.rows <= static_cast<long>(s.admissions) * s.cache_end(),
             "I8: nothing is computed twice but after a preemption", s.seq);
      note_published(s, guessed > 0 ? to - 1 : to);  // the last row may be taken back
    }
  }

  // The next token of a committed step was guessed.
  void before_right_guess(SimulatedSequence& s) {
    expected_ = {{s.seq, s.about->adapter, 0, 1, s.about->client}};
    was_told_ = false;
  }
  void after_right_guess(SimulatedSequence& s) {
    demand(was_told_, "I9: the policy is told of every right guess", s.seq);
    s.passed = std::max(s.passed, seen(s.seq).cached);
    ++s.rows;
  }
  // The last row of a sequence is computed again.
  void taken_back(SimulatedSequence& s) { --s.rows; }
  // A sequence ends. Others can find what it has verified.
  void ends(SimulatedSequence& s) {
    const Sequence& q = seen(s.seq);
    if (q.unpublished && config_.window == 0) note_published(s, q.cached);
  }

  void told(std::span<const Served> step) override {
    was_told_ = true;
    const auto same = [](const Served& a, const Served& b) {
      return a.seq == b.seq && a.adapter == b.adapter && a.prompt_tokens == b.prompt_tokens &&
             a.new_tokens == b.new_tokens && a.client == b.client;
    };
    demand(std::equal(step.begin(), step.end(), expected_.begin(), expected_.end(), same),
           "I9: the policy is told whom the step served, and what for the first time");
  }

  void at_rest() {
    states(/*planned=*/false);
    blocks();
  }
  void after_commit() { demand(was_told_, "I9: the policy is told of every step"); }

  void in_the_end() {
    demand(queue_->empty() && queue_->running() == 0 && queue_->waiting() == 0, "I10: the queue is empty");
    demand(ledger_.free_tokens() == config_.blocks * config_.block_tokens, "I10: every block is free");
    demand(ledger_.copies().empty(), "I10: no copy is left to be made");
    ledger_.forget_prefixes();
    demand(ledger_.blank_blocks() == config_.blocks, "I10: nothing is kept when prefixes are forgotten");
  }

 private:
  static constexpr std::size_t kAdapters = 9;  // -1 to 7
  static constexpr std::size_t kLines = kAdapters * SimulatedRequest::kClients;

  void left(SimulatedSequence& s) {
    s.left_in = step_;
    s.runs = false;
    std::erase(order_, s.seq);
  }

  // Whether its parent still reads the prompt that they share.
  bool awaits_parent(const SimulatedSequence& s) const {
    if (s.parent == kNoSequence || !config_.keeps_tokens || config_.window > 0) return false;
    return !all[s.parent].ended && all[s.parent].passed < s.prompt_tokens();
  }
  bool hidden(const SimulatedSequence& s) const { return s.on_hold || awaits_parent(s); }

  void shown(const Candidate& c, Sequence::State state) {
    demand(c.seq < all.size() && !at(c.seq).ended, "I4: only those in the queue are shown", c.seq);
    const SimulatedSequence& s = at(c.seq);
    const Sequence& q = seen(c.seq);
    demand(q.state == state && !hidden(s), "I4: everybody is shown where they are", c.seq);
    demand(c.cached == q.cached && c.pending == s.known() - q.cached && c.pending > 0, "I4: shown with what is pending",
           c.seq);
    demand(c.remaining == s.about->max_new_tokens - s.delivered && c.arrival == s.arrival &&
               c.adapter == s.about->adapter && c.priority == s.about->priority && c.client == s.about->client &&
               c.ordinal == s.ordinal,
           "I4: shown as it was submitted", c.seq);
  }

  void limits(const Plan& plan) {
    long long rows = 0;
    for (const Plan::Slice& slice : plan.slices) {
      demand(slice.seq < all.size() && !at(slice.seq).ended && !hidden(at(slice.seq)),
             "I4: only who may run is planned", slice.seq);
      demand(std::exchange(at(slice.seq).planned_in, step_) != step_, "I3: everybody runs once in a step", slice.seq);
      const Sequence& s = seen(slice.seq);
      const int end = s.cached + slice.tokens;
      demand(slice.tokens > 0 && end <= s.known(), "I3: as many tokens run as are pending, or fewer", slice.seq);
      const SimulatedTable table = ledger_.table(slice.seq);
      const int room = (table.first + static_cast<int>(table.blocks.size())) * config_.block_tokens;
      demand(end <= s.reserved && end <= room, "I3: there is room for what runs", slice.seq);
      demand(config_.keeps_tokens || end == s.known(), "I3: without a cache a sequence runs whole", slice.seq);
      rows += slice.tokens;
    }
    demand(rows == plan.rows, "I3: the rows of a plan are those of its slices");
    demand(!config_.keeps_tokens || rows <= std::min(token_budget_, promises_.token_budget),
           "I3: a step has rows within its budget");
    demand(promises_.max_batch == 0 || queue_->running() <= promises_.max_batch, "I3: as many run at once as may");
  }

  // Number of sequences in the plan that have not run before.
  std::size_t admit(const Plan& plan) {
    const std::size_t before = order_.size();
    for (const Plan::Slice& slice : plan.slices) {
      SimulatedSequence& s = at(slice.seq);
      demand(seen(s.seq).state == Sequence::State::running, "I4: who is planned runs", s.seq);
      if (s.runs) continue;
      finds_what_is_kept(s);
      order_.push_back(s.seq);
      s.runs = true;
      ++s.admissions;
    }
    return order_.size() - before;
  }

  // Sequences of one line (client and adapter) do not overtake one whose patience has ended.
  std::size_t line_of(const SimulatedSequence& s) const {
    if (!promises_.patience_by_adapter) return 0;
    return static_cast<std::size_t>(s.about->client) * kAdapters + static_cast<std::size_t>(s.about->adapter + 1);
  }

  void nobody_starves(const Plan& plan, std::size_t newcomers) const {
    if (!promises_.patience || newcomers == 0) return;
    std::array<SeqId, kLines> first;  // the oldest of each line whose patience has ended
    first.fill(kNoSequence);
    for (const SeqId seq : live) {
      const SimulatedSequence& s = all[seq];
      if (s.runs || hidden(s) || now_ - s.arrival < *promises_.patience) continue;
      SeqId& oldest = first[line_of(s)];
      oldest = std::min(oldest, seq);
    }
    for (const Plan::Slice& slice : plan.slices) {
      const SimulatedSequence& s = all[slice.seq];
      const bool joins =
          std::find(order_.end() - static_cast<std::ptrdiff_t>(newcomers), order_.end(), s.seq) != order_.end();
      const SeqId oldest = first[line_of(s)];
      demand(!joins || s.seq < oldest, "I8: nobody overtakes who has waited long enough", oldest);
    }
  }

  void nobody_idles(const Plan& plan, bool preempts) const {
    if (ledger_.refusals() > refusals_) return;
    const auto waits = [&](SeqId seq) { return !all[seq].runs && !hidden(all[seq]); };
    const auto oldest = std::find_if(live.begin(), live.end(), waits);
    if (plan.slices.empty()) {
      demand(order_.empty(), "I9: no step is empty while somebody runs");
      demand(oldest == live.end() || !draining, "I9: no step is empty while somebody waits and nobody else comes");
      demand(oldest == live.end() || !promises_.company || now_ - all[*oldest].arrival < *promises_.company,
             "I9: no step is empty while somebody waits, but for company");
      return;
    }
    const bool full = promises_.max_batch > 0 && queue_->running() >= promises_.max_batch;
    if (preempts || full || !promises_.continuous || oldest == live.end()) return;
    if (plan.rows >= std::min(token_budget_, promises_.token_budget)) return;
    // Less the tokens that running sequences still need, and the rest of their blocks.
    long long room = ledger_.free_tokens();
    for (const SeqId seq : order_) {
      const Sequence& s = seen(seq);
      room -= std::max(0, at_once(s.preemptible() ? s.known() : s.cache_end()) - s.reserved) + config_.block_tokens;
    }
    const bool fits = std::all_of(live.begin(), live.end(), [&](SeqId seq) {
      return !waits(seq) || at_once(seen(seq).cache_end()) + config_.block_tokens <= room;
    });
    demand(!fits, "I9: nobody waits while there is a place, budget and room", *oldest);
  }

  // Every sequence is in the right place, with the right blocks.
  void states(bool planned) const {
    int running = 0, waiting = 0;
    for (const SeqId seq : live) {
      const SimulatedSequence& s = all[seq];
      const Sequence& q = seen(seq);
      const auto right = s.runs      ? Sequence::State::running
                         : hidden(s) ? Sequence::State::held
                                     : Sequence::State::waiting;
      demand(q.state == right && q.on_hold == s.on_hold && q.awaits_parent == awaits_parent(s),
             "I4: everybody is in one state", seq);
      running += s.runs, waiting += right == Sequence::State::waiting;
      const SimulatedTable table = ledger_.table(seq);
      const int end = table.first + static_cast<int>(table.blocks.size());
      demand(end == ledger_.blocks_of(q.reserved), "I1: blocks are held for what is reserved", seq);
      const int unseen = first_seen(q.cached, config_.window) / config_.block_tokens;
      // After right guesses blocks are passed with the next plan.
      demand(table.first == unseen || (!planned && q.unpublished && table.first < unseen),
             "I1: whole blocks are passed as soon as no row sees them", seq);
      demand(static_cast<int>(ledger_.held(seq).size()) <= config_.ring(), "I3: nobody holds more than a ring", seq);
      demand(s.runs || (q.cached == 0 && q.reserved == 0), "I4: only who runs holds blocks", seq);
      demand(q.cached <= q.reserved && q.cached < q.known() + (s.runs ? 1 : 0), "I4: no more is cached than is known",
             seq);
      demand(q.known() == s.known(), "I5: every token is appended once", seq);
      demand(q.preemptions == s.preemptions, "I8: preemptions are counted", seq);
      demand(q.preemptions <= kMaxPreemptions, "I8: nobody is preempted more often than the bound", seq);
      demand(!s.runs || q.preemptible() || !config_.keeps_tokens || has_room_to_its_end(s),
             "I8: who was preempted so often runs with room to the end", seq);
    }
    demand(queue_->running() == running && queue_->waiting() == waiting, "I4: the queue counts its sequences");
    demand(static_cast<std::size_t>(running) == order_.size(), "I4: those that run are counted");
  }

  // Tokens of a text of `tokens` that a sequence may hold room for at once.
  int at_once(int tokens) const { return std::min(tokens, config_.ring() * config_.block_tokens); }

  bool has_room_to_its_end(const SimulatedSequence& s) const {
    const int room = at_once(s.cache_end());
    return seen(s.seq).reserved >= room && static_cast<int>(ledger_.held(s.seq).size()) >= ledger_.blocks_of(room);
  }

  void blocks() {
    std::fill(tables_.begin(), tables_.end(), Holders{});
    for (const SeqId seq : live) {
      for (const std::int32_t block : ledger_.held(seq)) {
        demand(block >= 0 && block < config_.blocks, "I1: blocks are numbered", seq);
        Holders& holders = tables_[static_cast<std::size_t>(block)];
        demand(holders.tables == 0 || holders.last != seq, "I1: no block is in a table twice", seq);
        holders = {holders.tables + 1, seq};
      }
    }
    int unused = 0;
    for (int block = 0; block < config_.blocks; ++block) {
      const int tables = tables_[static_cast<std::size_t>(block)].tables;
      if (config_.window > 0)
        demand(tables <= 1, "I1: a block of a ring is nobody else's");
      else
        demand(ledger_.references(block) == tables, "I1: references are the tables that hold a block");
      unused += tables == 0;
    }
    demand(ledger_.kept_blocks() + ledger_.blank_blocks() == unused, "I1: what no table holds is kept or blank");
    demand(ledger_.free_tokens() == unused * config_.block_tokens, "I1: what no table holds is free");
  }

  // `tokens` tokens of a text are in the cache: its whole blocks may be found from now on.
  void note_published(SimulatedSequence& s, int cached) {
    if (!reuses_prefixes) return;
    cached = std::min(cached, s.about->key.share_limit);
    const auto tags = s.tags_of(seen(s.seq).tokens);
    for (; s.published + config_.block_tokens <= cached; s.published += config_.block_tokens) {
      published_.insert(tags[static_cast<std::size_t>(s.published + config_.block_tokens) - 1]);
    }
  }

  // All prefixes that others left are found, unless their blocks were reused since.
  void finds_what_is_kept(SimulatedSequence& s) {
    const Sequence& q = seen(s.seq);
    if (s.parent != kNoSequence || !config_.keeps_tokens) return;
    const int scored_from = s.scores ? s.about->score_from : std::numeric_limits<int>::max();
    const int limit = std::min({q.known() - 1, scored_from, s.about->key.share_limit});
    const auto tags = s.tags_of(q.tokens);
    int found = 0;
    while (reuses_prefixes && found + config_.block_tokens <= limit &&
           published_.contains(tags[static_cast<std::size_t>(found + config_.block_tokens) - 1])) {
      found += config_.block_tokens;
    }
    demand(q.cached <= found, "I6: nothing is found but what the same text left under the same identity", s.seq);
    demand(q.cached == found || ledger_.may_have_evicted(), "I9: what is kept is found", s.seq);
  }

  struct Holders {
    int tables = 0;
    SeqId last = 0;
  };

  const SimulationConfig& config_;
  const PolicyPromises& promises_;
  SimulatedLedger& ledger_;
  const SequenceQueue* queue_ = nullptr;
  std::vector<SeqId> order_;                     // in order of admission
  std::vector<Holders> tables_;                  // [blocks] the tables that hold each, as counted
  std::vector<Served> expected_;                 // of the current step
  std::unordered_set<std::uint64_t> published_;  // tags at the ends of blocks that were once findable
  TimePoint now_{};
  std::uint64_t step_ = 0;
  int token_budget_ = 0, attempts_ = 0, refusals_ = 0;
  SeqId oldest_ = kNoSequence;
  bool was_told_ = false;
};

}  // namespace tenon::testing::detail
