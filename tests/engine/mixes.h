// Random batch mixes. A seed draws an engine, 16 requests, and a schedule of arrivals, holds and cancellations. One mix
// of four submits each request twice: 32 requests. Each answer must equal the one that its request gets alone.
#pragma once
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "invariance.h"

namespace tenon::invariance {

// Requests, each with the answer that it gets alone, computed on first use. Mixes of kMixesOfOnePool neighbouring seeds
// share a pool if their numerics are equal. The reason is cost: a lone answer recomputes its whole text for each token,
// so it takes as long as a mix.
class Pool {
 public:
  static constexpr int kRequests = 48;

  // dress: adds to requests what this kind of engine takes; or null.
  Pool(std::uint64_t seed, const Setup& numerics, Factory factory, int vocab,
       void (*dress)(Random&, Request&) = nullptr)
      : requests_(random_requests(seed, kRequests, vocab)),
        answers_(kRequests),
        reference_(factory(alone_in(numerics))) {
    Random random(seed + 1);
    for (Request& request : requests_) {
      if (dress) dress(random, request);
    }
  }

  const Request& request(int i) const { return requests_[static_cast<std::size_t>(i)]; }
  const Completion& answer(int i) {
    auto& answer = answers_[static_cast<std::size_t>(i)];
    if (!answer) answer = alone(*reference_, request(i));
    return *answer;
  }

 private:
  std::vector<Request> requests_;
  std::vector<std::optional<Completion>> answers_;
  std::unique_ptr<AnyEngine> reference_;
};

struct Mix {
  std::uint64_t seed = 0, pool = 0;
  Setup setup;
  std::string scheduler;
  std::vector<int> members;    // of the pool, in order of submission
  int arrivals = 0;            // at most, before a step
  int holds = 0, cancels = 0;  // at most
  bool tight = false;          // the cache has room for few of them
};

inline constexpr int kMixesOfOnePool = 64;

inline std::pair<AnyScheduler, std::string> random_scheduler(Random& random) {
  const int most = pick(random, std::array{1, 2, 3, 5, 8, 16, 64});
  const std::string words = " of " + std::to_string(most);
  switch (random.between(0, 5)) {
    case 0:
      return {SequentialPolicy{}, "sequential"};
    // A wait of 24 hours never elapses. A batch starts when it is full or the last request has arrived.
    case 1:
      return {StaticPolicy{.n = most, .max_wait = std::chrono::hours(24)}, "static" + words};
    case 2:
      return {FairPolicy{.max_batch = most}, "fair" + words};
    case 3:
      return {ContinuousPolicy{.max_batch = most, .order = Order::longest_first}, "longest first" + words};
    case 4:
      return {ContinuousPolicy{.max_batch = most, .token_budget = random.between(1, 40)}, "small steps" + words};
    default:
      return {ContinuousPolicy{.max_batch = most}, "continuous" + words};
  }
}

// The values that a mix is drawn from, each entry with equal probability: a value listed twice is drawn twice as often.
struct Choices {
  int shapes;  // number of models, which pools take in turn
  int (*vocab)(int shape);
  std::span<const Keep> caches;
  std::span<const Kv> elements;
  std::span<const Attend> attends;
  void (*dress)(Random& random, Request& request) = nullptr;
  const char* again = "scripts/check-invariance --mixes 1 --seed";  // draws a mix once more
};

inline constexpr std::array kOftenPaged = {Keep::paged16,    Keep::paged16, Keep::paged16, Keep::paged32,
                                           Keep::paged32,    Keep::paged64, Keep::paged64, Keep::contiguous,
                                           Keep::contiguous, Keep::none};
inline constexpr Choices kGpt2Choices = {kShapes, [](int shape) { return tiny(shape).vocab; }, kOftenPaged, kAllKvs,
                                         kAttends};

inline Setup random_setup(Random& random, Setup s, const Choices& choices) {
  s.cache = pick(random, choices.caches);
  s.options.token_budget = pick(random, kSizes);
  s.options.prefix_reuse = !chance(random, 4);
  s.options.threads = pick(random, std::array{1, 1, 1, 2, 2, 3, 4});
  // Plain C++ calls a function for each fused multiply-add: one such mix takes as long as a hundred others.
  const Isa isa =
      pick(random, std::array{Isa::avx512, Isa::avx512, Isa::avx512, Isa::avx512, Isa::avx2, Isa::avx2, Isa::portable});
  s.isa = has_isa(isa) ? isa : best_isa();
  return s;
}

// A mix is a function of its seed alone.
inline Mix draw_mix(std::uint64_t seed, const Choices& choices) {
  Random random(mix64(seed));
  Mix mix;
  mix.seed = seed;
  mix.pool = seed / kMixesOfOnePool;
  mix.setup.shape = static_cast<int>(mix.pool % static_cast<std::uint64_t>(choices.shapes));
  mix.setup.weights = mix.pool;
  mix.setup.kv = pick(random, choices.elements);
  mix.setup.attend = pick(random, choices.attends);
  mix.setup = random_setup(random, mix.setup, choices);
  mix.setup.lora = std::array{AnyLoRA::Kind::segmented, AnyLoRA::Kind::gathered, AnyLoRA::Kind::looped}[seed % 3];
  std::tie(mix.setup.scheduler, mix.scheduler) = random_scheduler(random);
  for (int i = 0; i < 16; ++i) mix.members.push_back(random.between(0, Pool::kRequests - 1));
  if (chance(random, 4)) {  // and all of them once more
    for (int i = 15; i >= 0; --i) mix.members.push_back(mix.members[static_cast<std::size_t>(i)]);
  }
  mix.arrivals = pick(random, std::array{1, 1, 2, 5, 64});
  mix.holds = chance(random, 3) ? 8 : 0;
  mix.cancels = chance(random, 3) ? 3 : 0;
  mix.tight = !chance(random, 3);
  mix.setup.options.draft_tokens = pick(random, std::array{0, 1, 2, 3, 8});
  mix.setup.options.draft_gain = 0;                      // 0: verify every guess
  if (mix.setup.isa == Isa::portable) mix.tight = true;  // the slowest kernels need not compute the longest texts
  return mix;
}

inline std::string to_string(const Mix& mix) {
  return to_string(mix.setup) + " " + mix.scheduler + " arrivals " + std::to_string(mix.arrivals) + " holds " +
         std::to_string(mix.holds) + " cancels " + std::to_string(mix.cancels) + " requests " +
         std::to_string(mix.members.size()) + " tight " + std::to_string(mix.tight);
}

// Counts what happened in mixes, so that a test can require that it happened.
struct Totals {
  std::uint64_t mixes = 0, equal = 0, bits = 0;
  std::uint64_t answers = 0, tokens = 0, steps = 0, preemptions = 0, hit_tokens = 0, holds = 0, cancelled = 0,
                failed = 0, choices = 0, adapted = 0, constrained = 0, drafted = 0, accepted = 0;
  std::map<std::string, int> kinds;  // of caches, elements, schedulers, ...
};

// Holds, resumes or cancels random requests between two steps. It cancels no request with best_of, because best_of
// would choose among the answers as they were cut off.
class Disturber {
 public:
  explicit Disturber(const Mix& mix) : random_(mix.seed + 1), holds_(mix.holds), cancels_(mix.cancels) {}

  void act(AnyEngine& engine, const Run& run, const std::vector<Request>& requests) {
    if (run.submitted() == 0) return;
    held_.resize(run.submitted());
    const auto i = static_cast<std::size_t>(random_.between(0, static_cast<int>(run.submitted()) - 1));
    if (held_[i] && (holds_ == 0 || chance(random_, 3))) {
      engine.resume(run.id(i));
      held_[i] = false;
    } else if (!held_[i] && holds_ > 0 && chance(random_, 6) && run.open(i)) {
      held_[i] = engine.hold(run.id(i));
      held += held_[i];
      --holds_;
    } else if (cancels_ > 0 && chance(random_, 12) && run.open(i) && requests[i].options.best_of == 0) {
      engine.cancel(run.id(i));
      --cancels_;
    }
  }

  std::uint64_t held = 0;

 private:
  Random random_;
  int holds_, cancels_;
  std::vector<bool> held_;
};

inline void record(const Mix& mix, const EngineStats& stats, const std::vector<Completion>& answers, Totals& totals) {
  totals.tokens += stats.tokens;
  totals.steps += stats.steps;
  totals.preemptions += stats.preemptions;
  totals.hit_tokens += stats.prefix_hit_tokens;
  totals.drafted += stats.drafted;
  totals.accepted += stats.accepted;
  for (const Completion& answer : answers) {
    ++totals.answers;
    totals.failed += answer.reason == FinishReason::error;
    totals.cancelled += answer.reason == FinishReason::cancelled;
    totals.choices += answer.others.size();
  }
  for (const std::string& kind :
       {to_string(mix.setup.kv), to_string(mix.setup.attend), to_string(mix.setup.cache),
        mix.scheduler.substr(0, mix.scheduler.find(" of ")), std::string(tenon::to_string(mix.setup.isa)),
        "threads " + std::to_string(mix.setup.options.threads), "shape " + std::to_string(mix.setup.shape)}) {
    ++totals.kinds[kind];
  }
}

// The requests of the mix's members. A tight mix replaces each member that needs more than 48 tokens of cache by the
// next shorter request of the pool, so that several requests fit the cache at first. Sets the cache size of a tight
// mix.
inline std::vector<Request> requests_of(Mix& mix, const Pool& pool) {
  std::vector<Request> requests;
  for (int& member : mix.members) {
    for (int i = 0; mix.tight && i < Pool::kRequests && tokens_of(pool.request(member)) > 48; ++i) {
      member = (member + 1) % Pool::kRequests;
    }
    requests.push_back(pool.request(member));
  }
  if (mix.tight) mix.setup.options.cache_tokens = tight_cache(requests, block_of(mix.setup.cache));
  return requests;
}

// From now on KnownTexts guesses this answer.
inline void know(const Request& request, const Completion& answer) {
  const auto add = [&](const std::vector<TokenId>& ids) {
    KnownTexts::texts.push_back(request.input_ids);
    KnownTexts::texts.back().insert(KnownTexts::texts.back().end(), ids.begin(), ids.end());
  };
  add(answer.ids);
  for (const Choice& other : answer.others) add(other.ids);
}

// One request in three predicts its answer, with a wrong token somewhere.
inline void predict(Request& request, const Completion& answer, Random& random) {
  if (!chance(random, 3) || answer.ids.empty()) return;
  request.prediction = answer.ids;
  const int wrong = random.between(0, static_cast<int>(answer.ids.size()) - 1);
  request.prediction[static_cast<std::size_t>(wrong)] = request.input_ids.front();
}

inline Differences run_mix(Mix mix, Pool& pool, Factory factory, Totals& totals) {
  std::vector<Request> requests = requests_of(mix, pool);
  for (const Request& request : requests) {
    totals.adapted += !request.adapters.empty();
    totals.constrained += request.constraint != nullptr;
  }
  std::vector<Completion> expected;
  for (const int member : mix.members) expected.push_back(pool.answer(member));
  KnownTexts::texts.clear();
  for (std::size_t i = 0; i < requests.size(); ++i) know(requests[i], expected[i]);
  const auto engine = factory(mix.setup);
  Random random(mix.seed + 2);
  for (std::size_t i = 0; i < requests.size(); ++i) predict(requests[i], expected[i], random);
  Run run(*engine);
  Disturber disturber(mix);
  while (run.submitted() < requests.size() || !run.done()) {
    for (int n = random.between(mix.arrivals > 1, mix.arrivals); n > 0 && run.submitted() < requests.size(); --n) {
      run.submit(requests[run.submitted()]);
    }
    engine->set_draining(run.submitted() == requests.size());
    disturber.act(*engine, run, requests);
    run.step();
  }
  if (!engine->idle() || engine->cache_stats().used_tokens != 0)
    throw std::runtime_error("the engine still holds requests or cache");
  totals.holds += disturber.held;
  record(mix, engine->stats(), run.answers(), totals);
  return compare(expected, run.answers());
}

// Runs the mixes of the seeds first .. first + count - 1. For each mix that differs or fails it prints the first
// difference and the command that repeats the mix; `quiet` prints nothing.
inline Totals run_mixes(std::uint64_t first, std::uint64_t count, Factory factory, bool quiet = false,
                        const Choices& choices = kGpt2Choices) {
  Totals totals;
  std::map<std::tuple<Kv, Attend>, Pool> pools;
  std::uint64_t of = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const Mix mix = draw_mix(seed, choices);
    if (mix.pool != of) pools.clear();
    of = mix.pool;
    Pool& pool = pools
                     .try_emplace({mix.setup.kv, mix.setup.attend}, mix64(mix.pool), mix.setup, factory,
                                  choices.vocab(mix.setup.shape), choices.dress)
                     .first->second;
    ++totals.mixes;
    Differences differences;
    std::string failure;
    try {
      differences = run_mix(mix, pool, factory, totals);
    } catch (const std::exception& error) {
      failure = error.what();
    }
    totals.bits += differences.bits();
    totals.equal += failure.empty() && differences.bits() == 0;
    if (quiet || (failure.empty() && differences.bits() == 0)) continue;
    std::printf("mix %llu differs: %s%s\n  %s\n  again: %s %llu\n", static_cast<unsigned long long>(seed),
                differences.first().c_str(), failure.c_str(), to_string(mix).c_str(), choices.again,
                static_cast<unsigned long long>(seed));
    std::fflush(stdout);
  }
  return totals;
}

}  // namespace tenon::invariance
