// A scheduler is shown the id, the tag and the deadline of each request.
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <tuple>

#include "tenon/tenon.h"
#include "tiny.h"

BOOST_AUTO_TEST_SUITE(engine_candidates)

using namespace tenon;
using namespace std::chrono_literals;

namespace {

using Shown = std::map<SeqId, std::tuple<RequestId, std::uint64_t, TimePoint>>;

// Remembers every candidate, waiting or running.
struct Notes {
  std::shared_ptr<Shown> shown = std::make_shared<Shown>();

  void plan(const QueueState& state, PlanWriter& out) {
    for (const auto line : {state.running, state.waiting})
      for (const Candidate& c : line) (*shown)[c.seq] = {c.request, c.tag, c.deadline};
    ContinuousPolicy{}.plan(state, out);
  }
};
using Noting = Engine<Gpt2, Scheduler<Notes>>;

Request request(std::uint64_t tag, TimePoint deadline, int n = 1) {
  Request r{.input_ids = {1, 2, 3}, .options = {.max_new_tokens = 3, .ignore_eos = true, .tag = tag}};
  r.options.deadline = deadline;
  r.options.n = n;
  return r;
}

}  // namespace

BOOST_AUTO_TEST_CASE(an_engine_shows_id_tag_and_deadline_of_every_choice) {
  const Notes notes;
  Noting engine(random_checkpoint(tiny_gpt2(), 5), notes, {.threads = 1});
  const TimePoint soon = Clock::now() - 1h;
  const RequestId first = engine.submit(request(7, soon, 2)), second = engine.submit(request(0, TimePoint::max()));
  while (!engine.idle()) {
    for (const Event& event : engine.step())  // a deadline ends no request of an engine
      BOOST_TEST((event.kind == Event::Kind::token || event.reason == FinishReason::length));
  }
  BOOST_TEST_REQUIRE(notes.shown->size() == 3u);
  BOOST_TEST((notes.shown->at(0) == std::tuple(first, 7u, soon)));
  BOOST_TEST((notes.shown->at(1) == std::tuple(first, 7u, soon)));
  BOOST_TEST((notes.shown->at(2) == std::tuple(second, 0u, TimePoint::max())));
}

BOOST_AUTO_TEST_CASE(a_service_shows_the_earliest_deadline) {
  const Notes notes;
  const TimePoint soon = Clock::now() + 1h, later = soon + 1h;
  {
    Service<Noting> service(random_checkpoint(tiny_gpt2(), 5), notes, EngineOptions{.threads = 1});
    service.submit(request(1, TimePoint::max()), {.deadline = soon}).wait();
    service.submit(request(2, soon), {.deadline = later}).wait();
    service.submit(request(3, later), {.deadline = soon, .timeout = 24h}).wait();
    service.submit(request(4, TimePoint::max())).wait();
    service.submit(request(5, later), {.timeout = 30min}).wait();
  }
  std::map<std::uint64_t, TimePoint> deadlines;
  for (const auto& [seq, shown] : *notes.shown) deadlines[std::get<1>(shown)] = std::get<2>(shown);
  BOOST_TEST_REQUIRE(deadlines.size() == 5u);
  for (const std::uint64_t tag : {1, 2, 3}) BOOST_TEST((deadlines[tag] == soon), tag);
  BOOST_TEST((deadlines[4] == TimePoint::max()));
  BOOST_TEST((deadlines[5] < soon));
}

BOOST_AUTO_TEST_SUITE_END()
