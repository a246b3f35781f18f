// EngineOptions::on_step: what it is told is what the scheduler granted and what the counters count.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "tenon/tenon.h"

BOOST_AUTO_TEST_SUITE(engine_step_report)

using namespace tenon;

namespace {

const std::string kTales = std::string(TENON_SOURCE_DIR) + "/examples/models/tales";

const ModelFiles& tales_files() {
  static const ModelFiles files = load_checkpoint(kTales);
  return files;
}

struct Granted {
  SeqId seq;
  int adapter, tokens;
  friend bool operator==(const Granted&, const Granted&) = default;
};
using Trace = std::vector<std::vector<Granted>>;  // of each step

// First come, first served, in chunks of 5, and on record.
struct TracedPolicy {
  std::shared_ptr<Trace> trace = std::make_shared<Trace>();

  void plan(const QueueState& state, PlanWriter& out) {
    std::vector<Granted> step;
    for (const auto& line : {state.running, state.waiting}) {
      for (const Candidate& c : line) {
        if (const int tokens = out.take(c.seq, std::min(c.pending, 5)); tokens > 0)
          step.push_back({c.seq, c.adapter, tokens});
      }
    }
    if (!step.empty()) trace->push_back(std::move(step));
  }
};

struct Reported {
  Trace steps;
  std::vector<std::uint64_t> numbers;
  int prompt_tokens = 0, tokens = 0;
  bool times_are_in_order = true;
  TimePoint last{};

  void add(const StepReport& report) {
    numbers.push_back(report.step);
    times_are_in_order = times_are_in_order && last <= report.begin && report.begin <= report.end;
    last = report.end;
    std::vector<Granted>& step = steps.emplace_back();
    for (const StepRow& row : report.rows) {
      step.push_back({row.seq, row.adapter, row.tokens});
      prompt_tokens += row.prompt_tokens;
      tokens += row.tokens;
    }
  }
};

using Traced = Engine<Gpt2, Scheduler<TracedPolicy>>;

Request request(const std::string& prompt, const char* adapter, int new_tokens) {
  Request made{.prompt = prompt, .options = {.max_new_tokens = new_tokens, .ignore_eos = true}};
  if (*adapter) made.adapters = {{kTales + "/adapters/" + adapter}};
  return made;
}

}  // namespace

BOOST_AUTO_TEST_CASE(it_says_what_the_scheduler_granted) {
  Reported reported;
  TracedPolicy policy;
  Traced engine(tales_files(), policy,
                {.prefix_reuse = false, .draft_tokens = 0, .on_step = [&](const StepReport& r) { reported.add(r); }});
  int prompt_tokens = 0;
  const std::vector<Request> requests = {request("The king said to the weather and the wind that", "", 9),
                                         request("Once upon a time", "weather", 4), request("It", "shakespeare", 1),
                                         request("The old man of the sea and the wolf", "weather", 12)};
  engine.complete(requests);
  for (const Request& each : requests)
    prompt_tokens += static_cast<int>(tales_files().tokenizer->encode(each.prompt).size());

  BOOST_TEST((reported.steps == *policy.trace));
  BOOST_TEST(reported.steps.size() == engine.stats().steps);
  std::vector<std::uint64_t> numbers(reported.steps.size());
  std::iota(numbers.begin(), numbers.end(), 1);
  BOOST_TEST(reported.numbers == numbers);
  BOOST_TEST(static_cast<std::uint64_t>(reported.tokens) == engine.stats().rows);
  BOOST_TEST(reported.prompt_tokens == prompt_tokens);
  BOOST_TEST(reported.times_are_in_order);

  const int plain = reported.steps[0][0].adapter, weather = reported.steps[0][1].adapter;
  BOOST_TEST(plain == -1);
  BOOST_TEST(engine.adapters().name_of(plain).empty());
  BOOST_TEST(engine.adapters().name_of(weather) == kTales + "/adapters/weather");
  BOOST_TEST(engine.adapters().name_of(reported.steps[0][2].adapter) == kTales + "/adapters/shakespeare");
  BOOST_TEST(engine.adapters().name_of(1000).empty());
}

BOOST_AUTO_TEST_CASE(errors_of_the_observer_are_counted_and_change_nothing) {
  Engine<Gpt2> undisturbed(tales_files());
  const auto expected = undisturbed.complete(request("Once upon a time", "", 6));
  const auto throws_in = [](std::vector<int> steps) {
    return [steps, step = 0](const StepReport&) mutable {
      if (std::count(steps.begin(), steps.end(), ++step)) throw std::runtime_error("step " + std::to_string(step));
    };
  };
  Engine<Gpt2> engine(tales_files(), {.on_step = throws_in({2, 4})});
  BOOST_TEST(engine.complete(request("Once upon a time", "", 6)).ids == expected.ids);
  BOOST_TEST(engine.stats().observer_failures == 2u);
  BOOST_TEST(engine.stats().last_observer_failure == "step 4");

  Service<Engine<Gpt2>> service(tales_files(), EngineOptions{.on_step = throws_in({1, 2, 3})});
  BOOST_TEST(service.submit(request("Once upon a time", "", 6)).wait().ids == expected.ids);
  const ServiceStats stats = service.stats();
  BOOST_TEST(stats.failed_steps == 0u);
  BOOST_TEST(stats.engine.observer_failures == 3u);
  BOOST_TEST(stats.engine.last_observer_failure == "step 3");
}

BOOST_AUTO_TEST_CASE(braces_alone_mean_the_options_of_the_engine) {
  // ContinuousPolicy has a token_budget, too, and refuses none.
  BOOST_CHECK_EXCEPTION((Engine<Gpt2>{tales_files(), {.token_budget = 0}}), Error, [](const Error& error) {
    return error.what() == std::string("token_budget: must be 1 or more");
  });
  Engine<Gpt2> engine{tales_files(), {.token_budget = 24}};
  Engine<Gpt2> with_scheduler{tales_files(), {}, {.token_budget = 24}};
  Engine<Gpt2> by_default{tales_files(), {}};
  for (auto* each : {&engine, &with_scheduler, &by_default}) {
    each->submit({.input_ids = std::vector<TokenId>(60, 7), .options = {.max_new_tokens = 1}});
    each->step();
    BOOST_TEST(each->stats().rows == (each == &by_default ? 60u : 24u));
  }
}

BOOST_AUTO_TEST_SUITE_END()
