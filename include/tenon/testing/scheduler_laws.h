/// The laws of SchedulerPolicy: laws of one decision on any state, and of many steps through the real queue.
#pragma once
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tenon/core/concepts.h"
#include "tenon/schedule/queue.h"
#include "tenon/testing/fits.h"
#include "tenon/testing/random.h"

namespace tenon::testing {

// A cache without storage that counts tokens, to run schedulers alone.
class CountingLedger {
 public:
  explicit CountingLedger(int tokens) : capacity_(tokens), free_(tokens) {}
  int free_tokens() const { return free_; }
  int capacity_tokens() const { return capacity_; }
  bool grow(SeqId seq, int tokens) {
    if (tokens > free_) return false;
    free_ -= tokens;
    held_[seq] += tokens;
    return true;
  }
  void release(SeqId seq) {
    const auto found = held_.find(seq);
    if (found == held_.end()) return;
    free_ += found->second;
    held_.erase(found);
  }

 private:
  int capacity_, free_;
  std::map<SeqId, int> held_;
};

// A model without weights: the next token depends on all tokens before it, and on nothing else.
inline TokenId fake_next_token(std::span<const TokenId> text) {
  std::uint32_t hash = 2166136261U;
  for (const TokenId token : text) hash = (hash ^ static_cast<std::uint32_t>(token)) * 16777619U;
  return static_cast<TokenId>(hash & 0xffff);
}

// Runs and commits a plan with the fake model. Calls `ended` with each complete Sequence before it is removed.
template <class Queue, class Ledger, class Ended>
void fake_step(Queue& queue, Ledger& ledger, const Plan& plan, Ended&& ended) {
  std::vector<SeqId> picks;
  for (const Plan::Slice& slice : plan.slices) {
    if (queue.ends_known_tokens(slice)) picks.push_back(slice.seq);
  }
  queue.commit(plan, ledger);
  for (const SeqId seq : picks) {
    if (queue.sequence(seq).remaining() > 0) queue.append(seq, fake_next_token(queue.sequence(seq).tokens));
    if (queue.sequence(seq).remaining() > 0) continue;
    ended(queue.sequence(seq));
    queue.finish(seq, ledger);
  }
}

namespace detail {

// A state, perhaps unreachable, and a cache that grants from one pool.
struct Scene {
  std::vector<Candidate> running, waiting;
  int free_tokens = 0;
  bool took_stranger = false;
  std::map<SeqId, int> granted;

  explicit Scene(Random& random) {
    SeqId seq = 0;
    for (int i = random.between(0, 6); i > 0; --i) running.push_back(candidate(seq++, random));
    for (int i = random.between(0, 12); i > 0; --i) waiting.push_back(candidate(seq++, random));
    free_tokens = random.between(0, 400);
  }
  static Candidate candidate(SeqId seq, Random& random) {
    const TimePoint arrival = TimePoint{} + std::chrono::milliseconds(seq);
    return {.seq = seq,
            .cached = random.between(0, 50),
            .pending = random.between(0, 1) ? 1 : random.between(1, 90),
            .remaining = random.between(1, 99),
            .arrival = arrival,
            .adapter = random.between(-1, 3),
            .priority = random.between(-1, 1),
            .client = random.between(0, 2),
            .ordinal = random.between(0, 3),
            .request = seq / 2,
            .tag = seq % 5,
            .deadline = seq % 3 == 0 ? TimePoint::max() : arrival + std::chrono::milliseconds(seq * 7 % 40)};
  }
  QueueState state() const {
    return {running, waiting, free_tokens, TimePoint{} + std::chrono::milliseconds(60), false};
  }
  static int grant(void* self, SeqId seq, int tokens, int budget) {
    auto& scene = *static_cast<Scene*>(self);
    const Candidate* found = nullptr;
    for (const auto* line : {&scene.running, &scene.waiting}) {
      for (const Candidate& c : *line) found = c.seq == seq ? &c : found;
    }
    if (!found) scene.took_stranger = true;
    if (!found || scene.granted.contains(seq)) return 0;
    const int room = std::min({tokens, budget, found->pending, scene.free_tokens});
    if (room <= 0) return 0;
    scene.free_tokens -= room;
    return scene.granted[seq] = room;
  }
  static int need(void* self, SeqId seq) {
    auto& scene = *static_cast<Scene*>(self);
    for (const auto* line : {&scene.running, &scene.waiting}) {
      for (const Candidate& c : *line) {
        if (c.seq == seq) return c.pending;
      }
    }
    scene.took_stranger = true;
    return 0;
  }
};

// Returns what the policy grants on a copy of the scene.
template <class P>
std::map<SeqId, int> decide(P& policy, Scene scene, int budget, Violations& broken) {
  Plan plan;
  PlanWriter out(plan, budget, {&scene, &Scene::grant, &Scene::need});
  const QueueState state = scene.state();
  policy.plan(state, out);
  note(broken, !scene.took_stranger, "scheduler: takes only sequences that the state shows");
  note(broken, plan.rows <= budget, "scheduler: never takes more tokens than the budget");
  return std::move(scene.granted);
}

// Laws of one decision.
template <class P>
void decision_laws(const P& policy, Violations& broken) {
  Random random(1);
  for (int round = 0; round < 400; ++round) {
    const Scene scene(random);
    const int budget = random.between(1, 200);
    P one = policy, other = policy;
    const std::map<SeqId, int> granted = decide(one, scene, budget, broken);
    note(broken, decide(other, scene, budget, broken) == granted,
         "scheduler: equal copies decide alike on the same state");
    if constexpr (!KeepsAccounts<P>)
      note(broken, decide(one, scene, budget, broken) == granted,
           "scheduler: decides alike on the same state again, if it has no `served`");
    if constexpr (ChoosesVictim<P>) {
      if (scene.running.empty()) continue;
      P twin = policy;
      const SeqId victim = twin.victim(scene.state());
      note(broken, std::any_of(scene.running.begin(), scene.running.end(), [&](auto& c) { return c.seq == victim; }),
           "scheduler: the victim is a running sequence");
    }
  }
}

struct Workload {
  int budget = 512, cache_tokens = 1 << 20;
  bool keeps_tokens = true;
  bool drains = true;  // false: only the clock says that no other request comes
  std::uint64_t seed = 1;
};

// Laws of many steps, through the real queue.
template <class P>
void running_laws(const P& policy, const Workload& load, Violations& broken) {
  Random random(load.seed);
  CountingLedger ledger(load.cache_tokens);
  RequestQueue<P> queue(policy, load.keeps_tokens);
  std::map<SeqId, std::vector<TokenId>> expected;
  TimePoint now{};
  int idle = 0, to_come = 41;
  for (long step = 0; step < 60000 && (to_come > 0 || !queue.empty()); ++step) {
    for (int n = random.between(0, 3); n > 0 && to_come > 0; --n, --to_come) {
      std::vector<TokenId> text(static_cast<std::size_t>(random.between(1, 60)));
      for (TokenId& token : text) token = random.between(0, 999);
      const int fresh = random.between(1, 40);
      const SeqId seq = queue.add({.tokens = text,
                                   .max_new_tokens = fresh,
                                   .arrival = now,
                                   .adapter = random.between(-1, 3),
                                   .priority = random.between(0, 1),
                                   .client = random.between(0, 2),
                                   .ordinal = random.between(0, 3),
                                   .tag = static_cast<std::uint64_t>(fresh % 5),
                                   .deadline = now + std::chrono::milliseconds(fresh * 7 % 40)},
                                  ledger);
      for (int i = 0; i < fresh; ++i) text.push_back(fake_next_token(text));
      expected[seq] = std::move(text);
    }
    if (to_come == 0 && load.drains) queue.set_draining(true);
    std::map<SeqId, bool> decodes;  // for each sequence that runs already: was it served?
    for (const auto& [seq, text] : expected) {
      if (!queue.contains(seq)) continue;
      const Sequence& s = queue.sequence(seq);
      if (s.state == Sequence::State::running && s.pending() == 1) decodes[seq] = false;
    }
    const Plan& plan = queue.plan(ledger, load.budget, now);
    for (const Plan::Slice& slice : plan.slices) decodes[slice.seq] = true;
    const bool ample = load.budget >= 1 << 16 && load.cache_tokens >= 1 << 16;
    note(broken, !ample || std::all_of(decodes.begin(), decodes.end(), [](auto& d) { return d.second; }),
         "scheduler: serves every running sequence in every step while budget and cache are ample");
    note(broken, !plan.slices.empty() || queue.running() == 0, "scheduler: never idles while a sequence runs");
    note(broken, !plan.slices.empty() || queue.empty() || !queue.draining(), "scheduler: never idles while draining");
    idle = plan.slices.empty() ? idle + 1 : 0;
    now += idle > 100 ? std::chrono::hours(1) : std::chrono::milliseconds(1);
    if (idle > 200 && !queue.empty()) break;
    fake_step(queue, ledger, plan, [&](const Sequence& s) {
      note(broken, s.tokens == expected[s.seq], "scheduler: every token is computed once, in order");
    });
  }
  note(broken, queue.empty(), "scheduler: everyone finishes, and nobody waits for ever");
  note(broken, !queue.empty() || ledger.free_tokens() == load.cache_tokens, "scheduler: the cache is free in the end");
}

}  // namespace detail

/// Runs a scheduler on random states, and through the real queue under ample and tight budgets and caches.
template <class P>
Violations scheduler_laws(const P& policy) {
  using detail::Workload;
  detail::must_fit<Scheduler<P>>();
  Violations broken;
  if constexpr (detail::fits<Scheduler<P>>) {
    try {
      detail::decision_laws(policy, broken);
      for (std::uint64_t seed = 1; seed <= 3; ++seed) {
        for (const int budget : {1, 7, 64, 1 << 20})
          detail::running_laws(policy, Workload{.budget = budget, .seed = seed}, broken);
        detail::running_laws(policy, Workload{.budget = 1 << 20, .drains = false, .seed = seed}, broken);
        detail::running_laws(policy, Workload{.budget = 48, .cache_tokens = 130, .seed = seed}, broken);
        detail::running_laws(policy, Workload{.cache_tokens = 250, .keeps_tokens = false, .seed = seed}, broken);
      }
    } catch (const std::exception& e) {
      broken.push_back(std::string("scheduler: throws nothing, but threw: ") + e.what());
    }
  }
  return broken;
}

}  // namespace tenon::testing
