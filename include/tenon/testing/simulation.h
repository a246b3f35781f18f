/// Deterministic simulation, after FoundationDB's. It runs the real queue, the real ledgers and your policy under a
/// virtual clock, with an engine that proves where it read (simulated_engine.h), and with faults. One seed draws
/// everything: sizes, requests, cancels, slow readers, steps that fail, room that is refused. After every step it
/// checks the invariants of simulation_invariants.h. A failure repeats with the same seed.
///   BOOST_TEST(simulate(MyPolicy{}, seed).empty());
#pragma once
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tenon/schedule/queue.h"
#include "tenon/testing/policy_witness.h"
#include "tenon/testing/simulation_invariants.h"
#include "tenon/testing/simulation_log.h"

namespace tenon::testing {

namespace detail {

class Simulation {
 public:
  Simulation(std::uint64_t seed, const PolicyPromises& promises, SimulationLog& log)
      : seed_(seed),
        random_(seed),
        config_(draw_config(random_)),
        promises_(promises),
        log_(log),
        ledger_({config_.block_tokens, config_.blocks, config_.positions, config_.window, config_.hash_mask()},
                random_.next()),
        engine_(config_.blocks, config_.block_tokens),
        load_(config_, random_),
        invariants_(config_, promises_, ledger_),
        to_come_(config_.requests) {}

  bool keeps_tokens() const { return config_.keeps_tokens; }
  PolicyWitness& witness() { return invariants_; }

  Violations run(SequenceQueue& queue) {
    queue_ = &queue;
    invariants_.watch(queue);
    invariants_.reuses_prefixes = config_.reuses_prefixes;
    queue.set_prefix_reuse(config_.reuses_prefixes);
    queue.set_window(config_.window);
    say("seed ", seed_, ": ", to_string(config_));
    try {
      while (to_come_ > 0 || !invariants_.live.empty()) step();
      check_statistics();
      invariants_.in_the_end();
    } catch (const std::exception& e) {
      return {broken(e)};
    }
    return {};
  }

 private:
  void step() {
    demand(invariants_.step() < kMostSteps, "I8: the simulation comes to an end");
    arrive();
    meddle();
    if (to_come_ == 0 && config_.drains) drain(true);
    invariants_.before_plan(now_, config_.token_budget);
    const Plan& plan = queue_->plan(ledger_, config_.token_budget, now_);
    tell(plan);
    invariants_.after_plan(plan);
    if (plan.slices.empty()) return idle();
    idle_ = 0;
    guess(plan);
    now_ += std::chrono::microseconds(random_.between(0, 2000));
    if (!compute(plan)) {
      ++log_.counts.failed_steps;
      say("  the step fails");
      demand(++failed_ < 1000, "I8: the simulation comes to an end");
      return invariants_.at_rest();
    }
    failed_ = 0;
    see(plan);
    pick(plan);
    for (int i = random_.between(0, 2); i > 0; --i) disturb();
    commit(plan);
    invariants_.at_rest();
  }

  // ---- clients

  void arrive() {
    if (to_come_ == 0 || !chance(random_, config_.arrivals)) return;
    for (int n = std::min(to_come_, random_.between(1, config_.burst)); n > 0; --n, --to_come_) submit(load_.next());
  }

  void submit(SimulatedRequest drawn) {
    const auto request = std::make_shared<const SimulatedRequest>(std::move(drawn));
    const bool fits =
        static_cast<int>(request->prompt.size()) + std::max(request->max_new_tokens, 1) - 1 <= config_.capacity();
    const RequestId id = ++log_.counts.requests;
    SeqId first = kNoSequence;
    for (int choice = 0; choice < request->choices; ++choice) {
      SimulatedSequence s = {.request = id, .about = request, .sampling = request->sampling, .arrival = now_};
      s.sampling.seed = choice_seed(request->sampling.seed, choice);
      s.scores = choice == 0;
      s.scored = request->score_from;
      s.parent = first;
      s.ordinal = choice;
      try {
        s.seq = queue_->add({.request = id,
                             .choice = choice,
                             .tokens = request->prompt,
                             .max_new_tokens = request->max_new_tokens,
                             .arrival = now_,
                             .adapter = request->adapter,
                             .priority = request->priority,
                             .client = request->client,
                             .ordinal = choice,
                             .identity = request->key.identity,
                             .share_limit = request->key.share_limit,
                             .reuse_limit = s.scores ? request->score_from : std::numeric_limits<int>::max(),
                             .parent = first},
                            ledger_);
      } catch (const Error& e) {
        demand(!fits && e.kind() == Error::Kind::capacity, "I8: what fits is accepted");
        ++log_.counts.refused;
        return;
      }
      demand(fits, "I8: what could never finish is refused", s.seq);
      demand(s.seq == invariants_.all.size(), "I4: ids are given in order of arrival", s.seq);
      if (choice == 0) first = s.seq;
      s.alone = lone_answer(request->prompt, request->key, s.sampling, request->max_new_tokens, config_.window);
      say("  arrives ", s.seq, ": prompt ", s.prompt_tokens(), ", new ", request->max_new_tokens, ", of request ", id);
      invariants_.live.push_back(s.seq);
      invariants_.all.push_back(std::move(s));
    }
  }

  // Events between steps: of clients, of the clock and of the engine's owner.
  void meddle() {
    disturb();
    for (const SeqId seq : std::vector<SeqId>(invariants_.live)) {
      if (invariants_.at(seq).on_hold && random_.between(0, 9) == 0) resume(seq);
    }
    if (chance(random_, config_.jumps)) now_ += std::chrono::seconds(log_between(random_, 1, 7200));
    if (chance(random_, config_.reloads)) load_.reload();
    if (chance(random_, config_.forgets)) ledger_.forget_prefixes();
    if (chance(random_, config_.toggles)) drain(random_.between(0, 1) == 0);
    if (chance(random_, config_.toggles)) {
      invariants_.reuses_prefixes = !invariants_.reuses_prefixes;
      queue_->set_prefix_reuse(invariants_.reuses_prefixes);
    }
  }

  void drain(bool drains) {
    invariants_.draining = drains;
    queue_->set_draining(drains);
  }

  // Cancels, holds and resumes of clients, for one sequence or a whole request. Most likely after a failed step.
  void disturb() {
    const auto& live = invariants_.live;
    const int haste = failed_ > 0 ? 400 : 0;
    const bool cancels = chance(random_, config_.cancels > 0 ? config_.cancels + haste : 0);
    const bool holds = chance(random_, config_.holds > 0 ? config_.holds + haste : 0);
    if (live.empty() || !(cancels || holds)) return;
    SeqId chosen = live[static_cast<std::size_t>(random_.between(0, static_cast<int>(live.size()) - 1))];
    if (failed_ > 0 && random_.between(0, 3) > 0) chosen = awaited_by_copies(chosen);
    const bool whole = random_.between(0, 2) == 0;
    for (const SeqId seq : std::vector<SeqId>(live)) {
      const bool meant = seq == chosen || (whole && invariants_.at(seq).request == invariants_.at(chosen).request);
      if (meant && cancels)
        cancel(seq);
      else if (meant)
        hold(seq);
    }
  }

  // A parent whose copies are still to be made, if there is one.
  SeqId awaited_by_copies(SeqId otherwise) const {
    for (const BlockCopy& copy : ledger_.copies()) {
      for (const SeqId seq : invariants_.live) {
        const auto table = ledger_.held(seq);
        if (std::find(table.begin(), table.end(), copy.from) != table.end()) return seq;
      }
    }
    return otherwise;
  }

  void cancel(SeqId seq) {
    say("  cancels ", seq);
    invariants_.ends(invariants_.at(seq));
    demand(queue_->cancel(seq, ledger_), "I4: who is in the queue can be cancelled", seq);
    demand(!queue_->cancel(seq, ledger_) && !queue_->resume(seq) && !queue_->hold(seq, ledger_),
           "I4: nobody ends twice", seq);
    invariants_.ended(invariants_.at(seq));
    ++log_.counts.cancelled;
  }
  void hold(SeqId seq) {
    const bool was_held = invariants_.at(seq).on_hold;
    if (!was_held && ++invariants_.at(seq).holds > 4) return;  // or a text that takes many steps would never end
    demand(queue_->hold(seq, ledger_) != was_held, "I4: who is not held can be held", seq);
    if (was_held) return;
    say("  holds ", seq);
    invariants_.held(invariants_.at(seq));
    ++log_.counts.holds;
    if (random_.between(0, 3) == 0) resume(seq);
  }
  void resume(SeqId seq) {
    say("  resumes ", seq);
    demand(queue_->resume(seq) && !queue_->resume(seq), "I4: who is held can be resumed, once", seq);
    invariants_.at(seq).on_hold = false;
  }

  // ---- the engine

  // Guesses some tokens of answers, where the step has rows left.
  void guess(const Plan& plan) {
    for (std::size_t i = 0; config_.guesses > 0 && i < plan.slices.size(); ++i) {
      const Plan::Slice& slice = plan.slices[i];
      const SimulatedSequence& s = invariants_.at(slice.seq);
      const int most = std::min(8, config_.token_budget - plan.rows);
      if (!chance(random_, config_.guesses) || most <= 0) continue;
      const std::vector<TokenId> guesses = load_.guesses(s.alone.tokens, s.known(), most);
      const bool ends = queue_->ends_known_tokens(slice);
      const int before = slice.tokens, taken = queue_->guess(i, guesses, ledger_);
      const Sequence& q = queue_->sequence(slice.seq);
      demand(taken >= 0 && slice.tokens == before + taken && q.guessed == taken, "I5: guesses are counted", slice.seq);
      demand(taken == 0 || (ends && taken < q.remaining()), "I5: what is guessed comes before the last token",
             slice.seq);
      demand(q.cached + slice.tokens <= q.reserved, "I3: there is room for guesses", slice.seq);
      log_.counts.guesses += static_cast<std::uint64_t>(taken);
    }
  }

  // An engine may fail before the copies of forks, after them, or amid the rows; most likely if there are copies.
  // Returns false if it failed.
  bool compute(const Plan& plan) {
    const int failures = config_.failures == 0 ? 0 : config_.failures + (ledger_.copies().empty() ? 0 : 300);
    const int fails = chance(random_, failures) ? random_.between(0, 2) : 3;
    if (fails == 0) return false;
    engine_.copy(ledger_.copies());
    log_.counts.copies += ledger_.copies().size();
    ledger_.clear_copies();
    int rows_left = fails == 1 ? 0 : fails == 2 ? random_.between(0, plan.rows - 1) : std::numeric_limits<int>::max();
    for (const Plan::Slice& slice : plan.slices) {
      const Sequence& s = queue_->sequence(slice.seq);
      const auto tags = invariants_.at(slice.seq).tags_of(s.tokens);
      const SimulatedTable table = ledger_.table(slice.seq);
      for (int position = s.cached; position < s.cached + slice.tokens; ++position) {
        if (rows_left-- == 0) return false;
        demand(ledger_.references(engine_.block(table, position)) == 1, "I2: a shared block is never written to",
               slice.seq);
        engine_.slot(table, position) = tags[static_cast<std::size_t>(position)];
      }
    }
    return true;
  }

  // Checks what the rows of a window see, also if no token is picked from it.
  void see(const Plan& plan) {
    if (config_.window == 0) return;
    for (const Plan::Slice& slice : plan.slices) {
      const Sequence& s = queue_->sequence(slice.seq);
      const auto tags = invariants_.at(slice.seq).tags_of(s.tokens);
      const SimulatedTable table = ledger_.table(slice.seq);
      for (int position = first_seen(s.cached, config_.window); position < s.cached + slice.tokens; ++position) {
        const std::uint64_t tag = tags[static_cast<std::size_t>(position)];
        demand(engine_.has(table, position) && engine_.slot(table, position) == tag,
               "I2: what a row sees is in the cache, as it was written", slice.seq);
      }
    }
  }

  // Reads back every text that ends in this step. All rows are written before any is read, as in a layer of a model.
  void pick(const Plan& plan) {
    picks_.clear();
    for (const Plan::Slice& slice : plan.slices) {
      SimulatedSequence& s = invariants_.at(slice.seq);
      const Sequence& q = queue_->sequence(slice.seq);
      const int end = q.cached + slice.tokens - q.guessed;
      demand(queue_->ends_known_tokens(slice) == (end == s.known()), "I5: who ends the known tokens is known",
             slice.seq);
      if (s.scores && end > s.about->score_from && q.cached < s.prompt_tokens())
        score(s, q.cached, std::min(end, s.prompt_tokens()));
      if (end < s.known() || q.remaining() == 0) continue;
      Picked& picked = picks_.emplace_back();
      picked.seq = slice.seq;
      for (int at = end; at <= end + q.guessed; ++at) {
        const std::uint64_t sum = engine_.read(ledger_.table(slice.seq), at - 1, config_.window);
        picked.tokens.push_back(s.sampling.pick(sum, at));
      }
    }
  }

  // Every requested position is computed, in order, and again after a preemption.
  void score(SimulatedSequence& s, int from, int to) {
    demand(from <= s.scored, "I7: every position of which logits are wanted is computed", s.seq);
    for (int position = std::max(from, s.about->score_from); position < to; ++position) {
      const std::uint64_t sum = engine_.read(ledger_.table(s.seq), position, config_.window);
      demand(sum == s.alone.sums[static_cast<std::size_t>(position)], "I7: a prompt is scored as it is alone", s.seq);
    }
    s.scored = std::max(s.scored, to);
  }

  void commit(const Plan& plan) {
    const auto slices = plan.slices;
    invariants_.before_commit(plan);
    queue_->commit(plan, ledger_);
    invariants_.after_commit();
    for (const Picked& picked : picks_) {
      SimulatedSequence& s = invariants_.at(picked.seq);
      if (s.left_in != invariants_.step()) deliver(s, picked.tokens);
    }
    for (const Plan::Slice& slice : slices) {  // sequences that only read their prompt
      const SimulatedSequence& s = invariants_.at(slice.seq);
      if (s.left_in == invariants_.step() || s.about->max_new_tokens > 0) continue;
      if (!config_.keeps_tokens || queue_->sequence(slice.seq).pending() == 0) finish(invariants_.at(slice.seq));
    }
  }

  // The picks of a sequence, up to the first one that was not guessed. Each may fail where there are guesses.
  void deliver(SimulatedSequence& s, std::span<const TokenId> tokens) {
    for (const TokenId token : tokens) {
      if (queue_->sequence(s.seq).verifies() && random_.between(0, 19) == 0) {
        say("  takes back ", s.seq);
        queue_->retry(s.seq);
        return invariants_.taken_back(s);
      }
      if (!deliver(s, token)) return;
    }
  }

  // Whether the token was guessed, so that the next pick counts, too.
  bool deliver(SimulatedSequence& s, TokenId token) {
    demand(!s.ended, "I5: nothing is delivered after the end", s.seq);
    const auto at = static_cast<std::size_t>(s.known());
    demand(at < s.alone.tokens.size() && token == s.alone.tokens[at],
           "I7: the answer is the one that the request gets alone", s.seq);
    const Sequence& q = queue_->sequence(s.seq);
    const bool right = q.guessed > 0 && q.tokens[at] == token;
    const int cached = q.cached;
    if (right) invariants_.before_right_guess(s);
    demand(queue_->append(s.seq, token) == right && q.cached == cached + (right ? 1 : 0),
           "I5: a right guess, and nothing else, is in the cache", s.seq);
    ++s.delivered;
    if (right) invariants_.after_right_guess(s);
    log_.counts.right_guesses += right ? 1 : 0;
    const bool ends = s.sampling.ends(token) || q.remaining() == 0;
    if (ends) finish(s);
    return right && !ends;
  }

  void finish(SimulatedSequence& s) {
    const Sequence& q = queue_->sequence(s.seq);
    const std::vector<TokenId> tokens(q.tokens.begin(), q.tokens.begin() + q.known());
    demand(tokens == s.alone.tokens, "I7: the text is the one that the request gets alone", s.seq);
    demand(!s.scores || s.scored >= s.prompt_tokens(), "I7: the whole prompt is scored", s.seq);
    load_.remember(tokens);
    log_.counts.passed_blocks += static_cast<std::uint64_t>(ledger_.table(s.seq).first);
    log_.counts.unpreemptible += !queue_->sequence(s.seq).preemptible();
    say("  finishes ", s.seq);
    invariants_.ends(s);
    queue_->finish(s.seq, ledger_);
    invariants_.ended(s);
    ++log_.counts.finished;
  }

  // ---- the clock, and the end

  // Nothing is planned: the policy waits for a fuller batch, all sequences are held, or there are none.
  void idle() {
    ++log_.counts.idle_steps;
    now_ += std::chrono::milliseconds(1) * (1 << std::min(idle_ / 16, 22));
    demand(++idle_ < 1000 || to_come_ > 0, "I8: the simulation comes to an end");
  }

  void check_statistics() {
    const QueueStats& stats = queue_->stats();
    std::uint64_t rows = 0, preemptions = 0;
    for (const SimulatedSequence& s : invariants_.all) {
      rows += static_cast<std::uint64_t>(s.rows);
      preemptions += static_cast<std::uint64_t>(s.preemptions);
    }
    demand(stats.added == invariants_.all.size() && stats.ended == stats.added, "I10: who was added has ended");
    demand(stats.preemptions == preemptions, "I10: preemptions are counted");
    demand(stats.rows >= rows, "I10: rows are counted");  // rows of sequences that left amid a step included
    SimulationCounts& c = log_.counts;
    c.sequences += stats.added, c.steps += stats.steps, c.rows += stats.rows, c.preemptions += stats.preemptions;
    c.prefix_hits += stats.prefix_hit_tokens, c.refusals += static_cast<std::uint64_t>(ledger_.refusals());
  }

  std::string broken(const std::exception& e) const {
    const auto since = std::chrono::duration<double>(now_.time_since_epoch()).count();
    return "seed " + std::to_string(seed_) + ": " + e.what() + ", step " + std::to_string(invariants_.step()) + ", " +
           std::to_string(since) + " s; " + to_string(config_);
  }

  // ---- the trace

  void say(const auto&... words) { log_.say(words...); }
  void tell(const Plan& plan) {
    if (!log_.trace) return;
    say("step ", invariants_.step(), ":", who_runs(plan, *queue_, invariants_), "; waiting ", queue_->waiting(),
        ", free ", ledger_.free_tokens(), " of ", config_.blocks * config_.block_tokens, ", kept ",
        ledger_.kept_blocks(), " blocks");
  }

  static constexpr std::uint64_t kMostSteps = 2000000;  // 50 times more than any of 20,000 seeds took

  struct Picked {
    SeqId seq = 0;
    std::vector<TokenId> tokens = {};  // of the last known token's row, and of each guess's
  };

  std::uint64_t seed_;
  Random random_;
  SimulationConfig config_;
  PolicyPromises promises_;
  SimulationLog& log_;
  SimulatedLedger ledger_;
  SimulatedEngine engine_;
  SimulatedLoad load_;
  Invariants invariants_;
  SequenceQueue* queue_ = nullptr;
  TimePoint now_{};
  int to_come_, idle_ = 0, failed_ = 0;
  std::vector<Picked> picks_;  // of the current step
};

}  // namespace detail

/// Runs a policy through everything that `seed` draws. Returns an empty text, or the first broken invariant with the
/// seed, the step and the draws. It also checks the policy's own promises.
template <SchedulerPolicy P>
Violations simulate(const P& policy, std::uint64_t seed, const PolicyPromises& promises, SimulationLog& log) {
  detail::Simulation simulation(seed, promises, log);
  RequestQueue<detail::Witnessed<P>> queue({policy, &simulation.witness()}, simulation.keeps_tokens());
  return simulation.run(queue);
}
template <SchedulerPolicy P>
Violations simulate(const P& policy, std::uint64_t seed, const PolicyPromises& promises = {}) {
  SimulationLog log;
  return simulate(policy, seed, promises, log);
}

}  // namespace tenon::testing
