// The service around an engine that is a fake: what comes, in which order, on which thread; limits, deadlines, slow
// readers, failures and ends. tests/engine/service_engine.cpp has a real one.
#define BOOST_TEST_MODULE engine_service
#include <sys/wait.h>
#include <tenon/engine/service.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <new>

#include "fake_engine.h"

using namespace tenon;
using namespace std::chrono_literals;
using fake::Strings;

// Counts what is alive, for the test that serves thousands of requests.
static std::atomic<long> live_allocations{0};
void* operator new(std::size_t bytes) {
  void* memory = std::malloc(bytes);
  if (!memory) throw std::bad_alloc();
  ++live_allocations;
  return memory;
}
void operator delete(void* memory) noexcept {
  if (memory) --live_allocations;
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept { operator delete(memory); }

namespace {

// A test that fails with the gate shut must still end.
struct FakeService : Service<fake::Engine> {
  FakeService(ServiceOptions options, Strings& s, int seats = 1 << 20, int cache_tokens = fake::kPositions)
      : Service(options, s, seats, cache_tokens), strings(s) {}
  explicit FakeService(Strings& s, int seats = 1 << 20) : FakeService(ServiceOptions{}, s, seats) {}
  ~FakeService() { strings.open(); }
  Strings& strings;
};

Request request(TokenId prompt, int new_tokens = 5, int n = 1) {
  return {.input_ids = {prompt, 7}, .options = {.max_new_tokens = new_tokens, .n = n}};
}

std::vector<TokenId> expected(TokenId prompt, int new_tokens = 5, int choice = 0) {
  return fake::answer({prompt, 7}, new_tokens, choice);
}

std::string text_of(const std::vector<TokenId>& ids) {
  std::string text;
  for (const TokenId id : ids) text += std::to_string(id) + " ";
  return text;
}

bool is_start_of(const std::vector<TokenId>& part, const std::vector<TokenId>& whole) {
  return part.size() <= whole.size() && std::equal(part.begin(), part.end(), whole.begin());
}

// Waits for what another thread will bring about; a test that fails here would have hung.
template <class Holds>
bool soon(Holds&& holds) {
  for (int i = 0; i < 10000; ++i) {
    if (holds()) return true;
    std::this_thread::sleep_for(1ms);
  }
  return false;
}

template <class Submit>
void require_refused(Submit&& submit, Error::Kind kind, const std::string& where) {
  try {
    submit();
  } catch (const Error& error) {
    BOOST_REQUIRE(error.kind() == kind);
    BOOST_REQUIRE_EQUAL(error.where(), where);
    return;
  }
  BOOST_FAIL("accepted in spite of " + where);
}

std::string reason_of(const Completion& answer) { return to_string(answer.reason); }

// All of its adapters are in use. The error's place says whether the service would have waited for them.
struct FullOfAdapters : fake::Engine {
  using fake::Engine::Engine;
  AdapterLease lease(std::span<const AdapterUse> uses, const Patience& patience) {
    if (uses.empty()) return {};
    throw Error(Error::Kind::overloaded, patience.until > Clock::now() ? "later" : "now", "no room");
  }
};

Request with_adapter(TokenId prompt) {
  Request r = request(prompt);
  r.adapters = {{.name = "a"}};
  return r;
}

}  // namespace

BOOST_AUTO_TEST_CASE(events_come_in_order_and_whole) {
  Strings strings;
  FakeService service(strings, 3);
  std::vector<AnswerStream> streams;
  for (int i = 0; i < 20; ++i) streams.push_back(service.submit(request(i)));
  for (int i = 0; i < 20; ++i) {
    std::vector<TokenId> ids;
    bool last = false;
    for (const Event& event : streams[static_cast<std::size_t>(i)].events()) {
      BOOST_REQUIRE(!last);
      BOOST_REQUIRE_EQUAL(event.request, streams[static_cast<std::size_t>(i)].id());
      if (event.kind == Event::Kind::token)
        ids.push_back(event.token);
      else
        BOOST_REQUIRE(event.reason == FinishReason::length);
      last = event.last;
    }
    BOOST_REQUIRE(last);
    BOOST_REQUIRE(ids == expected(i));
    BOOST_REQUIRE(!streams[static_cast<std::size_t>(i)].next());
  }
  BOOST_TEST(strings.strangers == 0);
}

BOOST_AUTO_TEST_CASE(iterating_polling_waiting_and_being_called_agree) {
  Strings strings;
  FakeService service(strings);
  std::vector<TokenId> iterated, polled, called;
  std::string text;
  auto stream = service.submit(request(1, 200));
  for (const auto& token : stream) {
    iterated.push_back(token.id);
    text += token.text;
  }
  BOOST_TEST(stream.ended());
  BOOST_TEST(to_string(stream.reason().value()) == "length");

  auto poll = service.submit(request(1, 200));
  while (!poll.ended()) {
    if (const auto event = poll.try_next(); event && event->kind == Event::Kind::token) polled.push_back(event->token);
  }
  std::thread::id caller;
  bool last = false;
  auto callback = service.submit(request(1, 200), {.on_event = [&](const Event& event) {
                                   caller = std::this_thread::get_id();
                                   if (event.kind == Event::Kind::token) called.push_back(event.token);
                                   last = event.last;
                                 }});
  const auto end_of_callback = callback.wait();
  const auto whole = service.submit(request(1, 200)).wait();
  BOOST_TEST(iterated == expected(1, 200));
  BOOST_TEST(polled == iterated);
  BOOST_TEST(called == iterated);
  BOOST_TEST(whole.ids == iterated);
  BOOST_TEST(whole.text == text);
  BOOST_TEST(text == text_of(iterated));
  BOOST_TEST(last);
  BOOST_TEST((caller != std::this_thread::get_id() && caller != std::thread::id()));
  BOOST_TEST(end_of_callback.ids.empty());
  BOOST_TEST(reason_of(end_of_callback) == "length");
}

BOOST_AUTO_TEST_CASE(nothing_new_is_an_answer_too) {
  Strings strings;
  FakeService service(strings);
  const auto answer = service.submit(request(1, 0)).wait();
  BOOST_TEST(answer.ids.empty());
  BOOST_TEST(reason_of(answer) == "length");
}

BOOST_AUTO_TEST_CASE(several_choices_share_a_stream) {
  Strings strings;
  FakeService service(strings);
  const auto answer = service.submit(request(3, 50, 3)).wait();
  BOOST_TEST(answer.ids == expected(3, 50, 0));
  BOOST_REQUIRE_EQUAL(answer.others.size(), 2u);
  BOOST_TEST(answer.others[0].ids == expected(3, 50, 1));
  BOOST_TEST(answer.others[1].ids == expected(3, 50, 2));
  auto stream = service.submit(request(3, 50, 3));
  BOOST_CHECK_THROW(stream.begin(), Error);
}

BOOST_AUTO_TEST_CASE(next_for_waits_so_long) {
  Strings strings;
  FakeService service(strings);
  strings.shut();
  auto stream = service.submit(request(1, 1));
  BOOST_TEST(!stream.next_for(20ms));
  BOOST_TEST(!stream.try_next());
  BOOST_TEST(!stream.ended());
  strings.open();
  BOOST_TEST(stream.next_for(Clock::duration::max()).value().token == expected(1, 1)[0]);
  BOOST_TEST(stream.next_for(10s).value().last);
  BOOST_TEST(!stream.next_for(10s));
}

BOOST_AUTO_TEST_CASE(next_for_waits_for_a_number_of_events) {
  Strings strings;
  strings.step_us = 2000;
  FakeService service(strings);
  auto stream = service.submit(request(1, 40));
  std::vector<TokenId> ids;
  while (!stream.ended()) {
    auto event = stream.next_for(10s, 16);
    BOOST_REQUIRE(event);
    int together = 0;
    for (; event; event = stream.try_next(), ++together) {
      BOOST_TEST((event->came != TimePoint{}));
      if (event->kind == Event::Kind::token) ids.push_back(event->token);
    }
    BOOST_TEST((together >= 16 || stream.ended()));
  }
  BOOST_TEST(ids == expected(1, 40));

  auto more_than_wait_at_most = service.submit(request(2, 200));
  BOOST_TEST(more_than_wait_at_most.next_for(10s, 1 << 20).value().token == expected(2, 1)[0]);
  auto out_of_time = service.submit(request(3, 1000));
  BOOST_TEST(out_of_time.next_for(30ms, 1 << 20).value().token == expected(3, 1)[0]);
}

// ---- cancelling

BOOST_AUTO_TEST_CASE(cancelled_in_every_state) {
  Strings strings;
  FakeService service(ServiceOptions{.buffer = 4}, strings, 2);
  auto held = service.submit(request(1, fake::kEndless));
  BOOST_REQUIRE(soon([&] { return service.stats().held == 1; }));
  std::atomic<int> tokens{0};
  const SubmitOptions heard{.on_event = [&](const Event& event) { tokens += event.kind == Event::Kind::token; }};
  auto running = service.submit(request(2, fake::kEndless), heard),
       neighbour = service.submit(request(3, fake::kEndless), heard);
  BOOST_REQUIRE(soon([&] { return tokens > 10; }));
  auto waits_in_engine = service.submit(request(4, 10));  // both seats are taken
  BOOST_REQUIRE(soon([&] { return service.stats().waiting == 1; }));
  std::this_thread::sleep_for(5ms);
  strings.shut();
  strings.wait_inside();
  auto in_inbox = service.submit(request(5, 10));
  for (auto* stream : {&held, &running, &waits_in_engine, &in_inbox}) stream->cancel();
  strings.open();

  const auto rest = held.wait();
  BOOST_TEST(reason_of(rest) == "cancelled");
  BOOST_TEST(rest.ids.size() == 4u);
  BOOST_TEST(is_start_of(rest.ids, expected(1, 4)));
  BOOST_TEST(reason_of(running.wait()) == "cancelled");
  for (auto* stream : {&waits_in_engine, &in_inbox}) {
    const auto answer = stream->wait();
    BOOST_TEST(reason_of(answer) == "cancelled");
    BOOST_TEST(answer.ids.empty());
    stream->cancel();  // of what has ended changes nothing
  }
  BOOST_TEST(service.stats().open == 1);
  BOOST_TEST(service.stats().cancelled == 4u);
  neighbour.cancel();
  BOOST_TEST(reason_of(neighbour.wait()) == "cancelled");
  BOOST_TEST(service.stats().held == 0);
  BOOST_TEST(service.stats().waiting_tokens == 0);
}

BOOST_AUTO_TEST_CASE(cancelled_from_another_thread_while_a_reader_waits) {
  Strings strings;
  FakeService service(strings);
  strings.shut();
  auto stream = service.submit(request(1, 10));
  std::thread other([&] {
    strings.wait_inside();
    stream.cancel();
    strings.open();
  });
  const auto answer = stream.wait();
  other.join();
  BOOST_TEST(reason_of(answer) == "cancelled");
  BOOST_TEST(answer.ids.size() == 1u);  // of the step that ran already
}

BOOST_AUTO_TEST_CASE(dropping_the_stream_cancels) {
  Strings strings;
  FakeService service(strings);
  { auto stream = service.submit(request(1, fake::kEndless)); }
  { service.submit(request(1, fake::kEndless)).next(); }
  auto replaced = service.submit(request(2, fake::kEndless));
  replaced = service.submit(request(3, 4));
  BOOST_TEST(replaced.wait().ids == expected(3, 4));
  BOOST_TEST(soon([&] { return service.stats().open == 0; }));
  BOOST_TEST(service.stats().cancelled == 3u);
}

// ---- callbacks

BOOST_AUTO_TEST_CASE(no_callback_runs_once_its_stream_is_gone) {
  Strings strings;
  FakeService service(strings);
  for (int i = 0; i < 20; ++i) {
    auto inside = std::make_unique<std::atomic<int>>(0);
    auto stream = service.submit(request(i, fake::kEndless), {.on_event = [at = inside.get()](const Event&) {
                                   *at = 1;
                                   std::this_thread::sleep_for(2ms);
                                   *at = 2;
                                 }});
    BOOST_REQUIRE(soon([&] { return *inside > 0; }));
    { auto gone = std::move(stream); }
    BOOST_REQUIRE_EQUAL(*inside, 2);
    inside.reset();  // a call from here on would write to what is freed
  }
  BOOST_TEST(soon([&] { return service.stats().open == 0; }));
}

BOOST_AUTO_TEST_CASE(captures_of_a_callback_are_freed_with_the_last_event) {
  Strings strings;
  FakeService service(strings);
  const auto captured = std::make_shared<int>(0);
  auto finished = service.submit(request(1, 3), {.on_event = [captured](const Event&) {}});
  auto dropped = service.submit(request(1, fake::kEndless), {.on_event = [captured](const Event&) {}});
  { auto gone = std::move(dropped); }
  finished.wait();
  BOOST_TEST(soon([&] { return captured.use_count() == 1; }));
}

BOOST_AUTO_TEST_CASE(a_callback_may_cancel_drop_and_submit) {
  Strings strings;
  FakeService service(strings);
  std::mutex mutex;
  std::optional<AnswerStream> dropped, cancelled, next;
  std::atomic<int> after_drop{0}, ends{0};
  {
    std::lock_guard lock(mutex);
    dropped = service.submit(request(1, fake::kEndless), {.on_event = [&](const Event&) {
                               std::lock_guard inner(mutex);
                               if (!dropped) ++after_drop;
                               dropped.reset();
                             }});
    cancelled = service.submit(request(2, fake::kEndless), {.on_event = [&](const Event& event) {
                                 std::lock_guard inner(mutex);
                                 cancelled->cancel();
                                 if (!next) next = service.submit(request(3, 3));
                                 ends += event.last;
                               }});
  }
  BOOST_TEST(soon([&] { return service.stats().cancelled == 2u; }));
  BOOST_TEST(soon([&] { return ends == 1; }));
  BOOST_TEST(next->wait().ids == expected(3, 3));
  BOOST_TEST(after_drop == 0);
}

BOOST_AUTO_TEST_CASE(an_error_of_a_callback_ends_only_its_own_request) {
  Strings strings;
  FakeService service(strings);
  auto neighbour = service.submit(request(1, 300));
  std::atomic<int> calls{0};
  auto stream = service.submit(request(2, fake::kEndless), {.on_event = [&](const Event&) {
                                 ++calls;
                                 throw Error(Error::Kind::capacity, "mine", "is full");
                               }});
  const Event end = stream.next().value();
  BOOST_TEST((end.kind == Event::Kind::error && end.last && end.error_kind == Error::Kind::capacity));
  BOOST_TEST(end.error == "mine: is full");
  BOOST_TEST(to_string(stream.reason().value()) == "error");
  BOOST_TEST(calls == 1);
  BOOST_TEST(neighbour.wait().ids == expected(1, 300));
  BOOST_TEST(service.stats().failed == 1u);
  // Also where it throws at the very end, of one choice or of several.
  for (const int choices : {1, 3}) {
    auto at_end = service.submit(request(2, 3, choices), {.on_event = [&](const Event& event) {
                                   if (event.kind == Event::Kind::finished) throw 7;
                                 }});
    const auto answer = at_end.wait();
    BOOST_TEST(reason_of(answer) == "error");
    BOOST_TEST(answer.error == "threw something that is no std::exception");
  }
  BOOST_TEST(service.submit(request(1)).wait().ids == expected(1));
  BOOST_TEST(service.stats().open == 0);
}

BOOST_AUTO_TEST_CASE(a_callback_that_would_wait_for_its_own_thread_is_told_so) {
  Strings strings;
  FakeService service(strings), other_service(strings);
  auto other = service.submit(request(1, 50));
  auto elsewhere = other_service.submit(request(3, 4));
  std::atomic<int> refused{0}, polled{0};
  auto stream = service.submit(request(2, 3), {.on_event = [&](const Event& event) {
                                 if (!event.last) return;
                                 const auto refuses = [&](auto&& wait) {
                                   try {
                                     wait();
                                   } catch (const Error& error) {
                                     refused += error.where() == "wait";
                                   }
                                 };
                                 refuses([&] { other.wait(); });
                                 refuses([&] { other.next(); });
                                 refuses([&] { other.next_for(1h); });
                                 refuses([&] { other.begin(); });
                                 while (other.try_next()) ++polled;
                                 while (elsewhere.next()) ++polled;  // another service's thread goes on
                               }});
  BOOST_TEST(reason_of(stream.wait()) == "length");
  BOOST_TEST(refused == 4);
  BOOST_TEST(polled >= 5);
  other.cancel();
  other.wait();
}

BOOST_AUTO_TEST_CASE(a_callback_does_not_wait_for_adapters) {
  Strings strings;
  Service<FullOfAdapters> service(strings);
  const auto refused_at = [&] {
    try {
      service.submit(with_adapter(2), {.adapter_wait = 1h});
    } catch (const Error& error) {
      return error.where();
    }
    return std::string();
  };
  std::string in_callback;
  service.submit(request(1, 1), {.on_event = [&](const Event&) { in_callback = refused_at(); }}).wait();
  BOOST_TEST(in_callback == "now");
  BOOST_TEST(refused_at() == "later");
}

BOOST_AUTO_TEST_CASE(a_detached_request_goes_on) {
  Strings strings;
  std::atomic<int> tokens{0}, ends{0};
  {
    FakeService service(strings);
    service
        .submit(request(1, 500), {.on_event =
                                      [&](const Event& event) {
                                        tokens += event.kind == Event::Kind::token;
                                        ends += event.last;
                                      }})
        .detach();
    auto unread = service.submit(request(2, 5));
    BOOST_CHECK_THROW(unread.detach(), Error);
    service.drain();
  }
  BOOST_TEST(tokens == 500);
  BOOST_TEST(ends == 1);
}

// ---- time

BOOST_AUTO_TEST_CASE(a_deadline_ends_the_answer_with_what_there_is) {
  Strings strings;
  strings.step_us = 1000;
  FakeService service(strings);
  const auto begin = Clock::now();
  const auto answer = service.submit(request(1, 50000), {.timeout = 60ms}).wait();
  BOOST_TEST(reason_of(answer) == "deadline");
  BOOST_TEST((Clock::now() - begin >= 60ms));
  BOOST_TEST(!answer.ids.empty());
  BOOST_TEST(is_start_of(answer.ids, expected(1, 50000)));
  BOOST_TEST(reason_of(service.submit(request(1, 50000), {.deadline = Clock::now() + 10ms, .timeout = 1h}).wait()) ==
             "deadline");
  BOOST_TEST(reason_of(service.submit(request(1, 3), {.timeout = Clock::duration::max()}).wait()) == "length");
  BOOST_TEST(service.stats().expired == 2u);
}

BOOST_AUTO_TEST_CASE(a_deadline_that_has_passed_costs_no_step) {
  Strings strings;
  FakeService service(strings);
  const auto answer = service.submit(request(1, 5, 2), {.deadline = Clock::now() - 1s}).wait();
  BOOST_TEST(reason_of(answer) == "deadline");
  BOOST_REQUIRE_EQUAL(answer.others.size(), 1u);
  BOOST_TEST(to_string(answer.others[0].reason) == "deadline");
  Request late = request(1);
  late.options.deadline = Clock::now() - 1s;
  BOOST_TEST(reason_of(service.submit(late, {.timeout = 1h}).wait()) == "deadline");
  BOOST_TEST(strings.calls == 0);
  require_refused([&] { service.submit(request(1), {.timeout = -1s}); }, Error::Kind::invalid_request, "timeout");
}

BOOST_AUTO_TEST_CASE(a_deadline_holds_for_who_is_held) {
  Strings strings;
  FakeService service(ServiceOptions{.buffer = 4}, strings);
  auto stream = service.submit(request(1, 50000), {.timeout = 100ms});
  BOOST_REQUIRE(soon([&] { return service.stats().held == 1; }));
  BOOST_TEST(soon([&] { return service.stats().expired == 1u; }));
  const auto answer = stream.wait();
  BOOST_TEST(reason_of(answer) == "deadline");
  BOOST_TEST(answer.ids.size() == 4u);
}

// ---- slow readers

BOOST_AUTO_TEST_CASE(a_slow_reader_is_held_and_misses_nothing) {
  Strings strings;
  FakeService service(ServiceOptions{.buffer = 8}, strings);
  auto slow = service.submit(request(1, 500));
  BOOST_TEST(service.submit(request(2, 5000)).wait().ids == expected(2, 5000));  // others never wait
  BOOST_TEST(service.stats().held == 1);
  BOOST_TEST(strings.generated == 5000 + 8);
  std::vector<TokenId> ids;
  while (const auto event = slow.next()) {
    if (event->kind == Event::Kind::token) ids.push_back(event->token);
    if (ids.size() % 100 == 0) std::this_thread::sleep_for(2ms);
  }
  BOOST_TEST(ids == expected(1, 500));
  BOOST_TEST(strings.holds >= 2);
  BOOST_TEST(strings.resumes == strings.holds);
  BOOST_TEST(service.stats().held == 0);
  BOOST_TEST(service.stats().holds == static_cast<std::uint64_t>(strings.holds));
}

BOOST_AUTO_TEST_CASE(a_buffer_of_one_works) {
  Strings strings;
  FakeService service(ServiceOptions{.buffer = 1}, strings);
  BOOST_TEST(service.submit(request(1, 300)).wait().ids == expected(1, 300));
  const auto several = service.submit(request(1, 100, 4)).wait();
  BOOST_TEST(several.others[2].ids == expected(1, 100, 3));
}

BOOST_AUTO_TEST_CASE(a_stalled_reader_is_cancelled_and_a_slow_one_is_not) {
  Strings strings;
  FakeService service(ServiceOptions{.buffer = 16, .stall_timeout = 500ms}, strings);
  auto never = service.submit(request(1, 1000));
  auto slow = service.submit(request(2, 40));
  std::vector<TokenId> ids;
  // Eight reads bring the buffer to half: longer than the timeout.
  while (const auto event = slow.next()) {
    if (event->kind == Event::Kind::token) ids.push_back(event->token);
    if (ids.size() < 12) std::this_thread::sleep_for(80ms);
  }
  BOOST_TEST(ids == expected(2, 40));
  BOOST_TEST(service.stats().stalled == 1u);
  const auto answer = never.wait();
  BOOST_TEST(reason_of(answer) == "cancelled");
  BOOST_TEST(answer.ids.size() == 16u);
  BOOST_TEST(is_start_of(answer.ids, expected(1, 1000)));
}

// ---- limits

BOOST_AUTO_TEST_CASE(overload_is_answered_at_once_and_who_is_in_gets_its_answer) {
  Strings strings;
  FakeService service(ServiceOptions{.max_waiting = 12}, strings, 4);
  strings.shut();
  auto first = service.submit(request(0));
  strings.wait_inside();  // a step runs, and does not end
  const int steps = strings.calls;
  std::vector<std::pair<TokenId, AnswerStream>> accepted;
  int refused = 0;
  std::mutex mutex;
  std::vector<std::thread> clients;
  for (int client = 0; client < 4; ++client) {
    clients.emplace_back([&, client] {
      for (TokenId i = 0; i < 30; ++i) {
        const TokenId prompt = client * 100 + i;
        try {
          auto stream = service.submit(request(prompt, 20));
          std::lock_guard lock(mutex);
          accepted.emplace_back(prompt, std::move(stream));
        } catch (const Error& error) {
          std::lock_guard lock(mutex);
          refused += error.kind() == Error::Kind::overloaded && error.where() == "max_waiting";
        }
      }
    });
  }
  for (auto& client : clients) client.join();
  BOOST_TEST(strings.calls == steps);  // no client waited for a step
  BOOST_TEST(accepted.size() == 11u);
  BOOST_TEST(refused == 109);
  strings.open();
  for (auto& [prompt, stream] : accepted) BOOST_TEST(stream.wait().ids == expected(prompt, 20));
  BOOST_TEST(first.wait().ids == expected(0));
  const ServiceStats stats = service.stats();
  BOOST_TEST(stats.accepted == 12u);
  BOOST_TEST(stats.refused == 109u);
  BOOST_TEST(stats.finished == 12u);
  BOOST_TEST(stats.waiting == 0);
  BOOST_TEST(stats.open == 0);
  BOOST_TEST(service.submit(request(5)).wait().ids == expected(5));
}

BOOST_AUTO_TEST_CASE(limits_are_named) {
  Strings strings;
  FakeService service(ServiceOptions{.max_open = 3, .max_waiting_tokens = 100}, strings);
  const auto of_length = [](std::size_t n) {
    return Request{.input_ids = std::vector<TokenId>(n, 1), .options = {.max_new_tokens = 2}};
  };
  strings.shut();
  auto longer_than_the_limit = service.submit(of_length(500));  // no other request waits
  strings.wait_inside();
  require_refused([&] { service.submit(of_length(1)); }, Error::Kind::overloaded, "max_waiting_tokens");
  strings.open();
  BOOST_TEST(longer_than_the_limit.wait().ids.size() == 2u);
  strings.shut();
  auto a = service.submit(of_length(60)), b = service.submit(of_length(39));
  require_refused([&] { service.submit(of_length(2)); }, Error::Kind::overloaded, "max_waiting_tokens");
  auto c = service.submit(of_length(1));
  require_refused([&] { service.submit(of_length(1)); }, Error::Kind::overloaded, "max_open");
  BOOST_TEST(service.stats().waiting_tokens == 100);
  strings.open();
  a.wait(), b.wait(), c.wait();
  // The place is free as soon as the end has been read.
  for (int i = 0; i < 200; ++i) {
    auto x = service.submit(of_length(1)), y = service.submit(of_length(1)), z = service.submit(of_length(1));
    x.wait(), y.wait(), z.wait();
  }
  BOOST_TEST(service.stats().waiting_tokens == 0);
}

BOOST_AUTO_TEST_CASE(requests_that_can_never_run_are_refused_at_once) {
  Strings strings;
  FakeService service(ServiceOptions{}, strings, 4, 100);
  strings.shut();
  auto busy = service.submit(request(1));
  strings.wait_inside();
  require_refused([&] { service.submit({.input_ids = {1}, .options = {.temperature = -1}}); },
                  Error::Kind::invalid_request, "temperature");
  require_refused([&] { service.submit({.prompt = "text"}); }, Error::Kind::invalid_request, "prompt");
  require_refused([&] { service.submit({.input_ids = {fake::kVocabulary}}); }, Error::Kind::invalid_request,
                  "input_ids");
  require_refused([&] { service.submit({.input_ids = {1}, .options = {.max_new_tokens = fake::kPositions + 1}}); },
                  Error::Kind::invalid_request, "max_new_tokens");
  require_refused(
      [&] {
        service.submit({.input_ids = {1, 2}, .options = {.max_new_tokens = 100}});
      },
      Error::Kind::capacity, "prompt");
  auto fits = service.submit({.input_ids = {1, 2}, .options = {.max_new_tokens = 99}});
  strings.open();
  BOOST_TEST(fits.wait().ids.size() == 99u);
  BOOST_TEST(service.stats().invalid == 5u);
  BOOST_TEST(service.stats().refused == 0u);
}

BOOST_AUTO_TEST_CASE(options_out_of_range_are_named) {
  Strings strings;
  const auto refused = [&](ServiceOptions options, const char* field) {
    require_refused([&] { FakeService(options, strings); }, Error::Kind::invalid_request, field);
  };
  refused({.max_open = 0}, "max_open");
  refused({.max_waiting = 0}, "max_waiting");
  refused({.max_waiting_tokens = 0}, "max_waiting_tokens");
  refused({.buffer = 0}, "buffer");
  refused({.stall_timeout = -1s}, "stall_timeout");
  require_refused([] { Service(std::unique_ptr<fake::Engine>()); }, Error::Kind::invalid_request, "engine");
}

BOOST_AUTO_TEST_CASE(a_refusal_is_counted_by_its_kind) {
  Strings strings;
  Service<FullOfAdapters> service(strings);
  require_refused([&] { service.submit(with_adapter(1)); }, Error::Kind::overloaded, "now");
  require_refused([&] { service.submit(request(-1)); }, Error::Kind::invalid_request, "input_ids");
  BOOST_TEST(service.stats().refused == 1u);
  BOOST_TEST(service.stats().invalid == 1u);
}

// ---- the end

BOOST_AUTO_TEST_CASE(drain_finishes_what_was_accepted_while_others_submit) {
  Strings strings;
  FakeService service(ServiceOptions{.max_open = 100000, .max_waiting = 100000}, strings, 8);
  std::atomic<int> wrong{0}, finished{0}, closed{0}, accepted{0};
  std::vector<std::thread> clients;
  for (int client = 0; client < 4; ++client) {
    clients.emplace_back([&, client] {
      std::vector<std::pair<TokenId, AnswerStream>> streams;
      for (TokenId i = 0;; ++i) {
        try {
          const TokenId prompt = (client * 250 + i) % fake::kVocabulary;
          streams.emplace_back(prompt, service.submit(request(prompt, 10)));
          ++accepted;
        } catch (const Error& error) {
          closed += error.kind() == Error::Kind::overloaded && error.where() == "service";
          break;
        }
        if (i % 16 == 0) std::this_thread::yield();
      }
      for (auto& [prompt, stream] : streams) {
        const auto answer = stream.wait();
        wrong += answer.ids != expected(prompt, 10) || answer.reason != FinishReason::length;
        ++finished;
      }
    });
  }
  std::this_thread::sleep_for(20ms);
  service.drain();
  for (auto& client : clients) client.join();
  BOOST_TEST(closed == 4);
  BOOST_TEST(wrong == 0);
  BOOST_TEST(finished == accepted);
  BOOST_TEST(service.stats().finished == static_cast<std::uint64_t>(accepted));
  BOOST_TEST(service.stats().stopped);
}

BOOST_AUTO_TEST_CASE(drain_for_gives_up_after_the_grace) {
  Strings strings;
  FakeService service(ServiceOptions{.buffer = 2, .stall_timeout = 0s}, strings);
  auto unread = service.submit(request(1, 100));
  BOOST_TEST(!service.drain_for(30ms));
  require_refused([&] { service.submit(request(1)); }, Error::Kind::overloaded, "service");
  BOOST_TEST(service.stats().draining);
  BOOST_TEST(!service.stats().stopped);
  service.stop();
  BOOST_TEST(service.stats().stopped);
  BOOST_TEST(reason_of(unread.wait()) == "cancelled");
  BOOST_TEST(service.drain_for(0s));  // it has stopped
}

BOOST_AUTO_TEST_CASE(nothing_is_taken_after_stop_and_stopping_twice_is_fine) {
  Strings strings;
  FakeService service(strings);
  auto stream = service.submit(request(1, fake::kEndless));
  stream.next();
  service.stop();
  service.stop();
  service.drain();
  require_refused([&] { service.submit(request(1)); }, Error::Kind::overloaded, "service");
  BOOST_TEST(reason_of(stream.wait()) == "cancelled");
}

BOOST_AUTO_TEST_CASE(stop_ends_what_the_engine_has_not_seen_yet) {
  Strings strings;
  FakeService service(strings);
  strings.shut();
  auto running = service.submit(request(1, fake::kEndless));
  strings.wait_inside();
  auto in_inbox = service.submit(request(2, 5, 2));
  std::thread stopper([&] { service.stop(); });
  BOOST_REQUIRE(soon([&] { return service.stats().draining; }));
  strings.open();
  const auto answer = in_inbox.wait();
  stopper.join();
  BOOST_TEST(reason_of(answer) == "cancelled");
  BOOST_TEST(answer.ids.empty());
  BOOST_TEST(answer.others.size() == 1u);
  BOOST_TEST(reason_of(running.wait()) == "cancelled");
  BOOST_TEST(service.stats().cancelled == 2u);
}

BOOST_AUTO_TEST_CASE(a_callback_may_close_and_stop_but_not_drain) {
  Strings strings;
  FakeService service(strings);
  std::atomic<bool> refused{false};
  auto stream = service.submit(request(1, fake::kEndless), {.on_event = [&](const Event&) {
                                 try {
                                   service.drain();
                                 } catch (const Error& error) {
                                   refused = error.where() == "drain";
                                 }
                                 service.stop();
                               }});
  BOOST_TEST(reason_of(stream.wait()) == "cancelled");
  BOOST_TEST(refused);
}

BOOST_AUTO_TEST_CASE(streams_outlive_their_service) {
  Strings strings;
  std::vector<AnswerStream> streams;
  std::atomic<int> ends{0};
  {
    FakeService service(ServiceOptions{.buffer = 8}, strings, 2);
    for (int i = 0; i < 6; ++i) streams.push_back(service.submit(request(i, fake::kEndless)));
    streams.push_back(
        service.submit(request(9, fake::kEndless), {.on_event = [&](const Event& event) { ends += event.last; }}));
    BOOST_REQUIRE(streams[0].next());
    BOOST_REQUIRE(soon([&] { return service.stats().held >= 1; }));
  }
  BOOST_TEST(ends == 1);
  streams[1].cancel();
  for (auto& stream : streams) BOOST_TEST(reason_of(stream.wait()) == "cancelled");
}

// ---- fork()

namespace {

// Runs in a child of fork(); returns its exit status, or -1 where it hangs.
template <class Child>
int status_of_child(Child&& child) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(child());
  int status = 0;
  const bool ended = soon([&] { return ::waitpid(pid, &status, WNOHANG) == pid; });
  if (!ended) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, &status, 0);
    return -1;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_child_of_fork_is_told_that_the_service_is_its_parents) {
  Strings strings;
  auto service = std::make_unique<FakeService>(strings);
  AnswerStream ended = service->submit(request(3));
  ended.wait();
  strings.shut();
  auto stream = std::make_unique<AnswerStream>(service->submit(request(1, 20)));
  AnswerStream called = service->submit(request(4, 1), {.on_event = [](const Event&) {}});
  strings.wait_inside();
  const int status = status_of_child([&] {
    int refused = 0;
    const auto refuses = [&](auto&& use) {
      try {
        use();
      } catch (const Error& error) {
        refused += error.where() == "service" && std::string(error.what()).find("fork()") != std::string::npos;
      }
    };
    refuses([&] { service->submit(request(2)); });
    refuses([&] { service->close(); });
    refuses([&] { service->drain(); });
    refuses([&] { service->drain_for(1ms); });
    refuses([&] { service->stop(); });
    refuses([&] { service->stats(); });
    refuses([&] { stream->next(); });
    refuses([&] { stream->try_next(); });
    refuses([&] { stream->cancel(); });
    refuses([&] { stream->begin(); });
    refuses([&] { ended.wait(); });
    refuses([&] { called.detach(); });
    if (service->config().vocab != fake::kVocabulary) refused = 0;
    stream.reset();  // neither waits for a thread that is not there
    service.reset();
    return refused;
  });
  BOOST_TEST(status == 12);
  strings.open();
  BOOST_TEST(stream->wait().ids == expected(1, 20));  // the parent's goes on
  BOOST_TEST(service->submit(request(2)).wait().ids == expected(2));
}

// ---- failures

BOOST_AUTO_TEST_CASE(a_step_that_throws_ends_what_is_open_and_no_more) {
  Strings strings;
  FakeService service(ServiceOptions{.buffer = 4}, strings, 2);
  auto held = service.submit(request(1, 100));
  BOOST_REQUIRE(soon([&] { return service.stats().held == 1; }));
  strings.shut();
  auto running = service.submit(request(2, 5, 2));
  strings.wait_inside();
  auto in_inbox = service.submit(request(3, 5));  // the engine has not seen it yet
  strings.throws = 1;
  strings.open();
  const auto failed = running.wait();
  BOOST_TEST(reason_of(failed) == "error");
  BOOST_TEST(failed.error == "the fake step throws");
  BOOST_CHECK_THROW(for (const auto& token : held) static_cast<void>(token), Error);
  BOOST_TEST(to_string(held.reason().value()) == "error");
  BOOST_TEST(in_inbox.wait().ids == expected(3, 5));
  const ServiceStats stats = service.stats();
  BOOST_TEST(stats.healthy);
  BOOST_TEST(stats.failed_steps == 1u);
  BOOST_TEST(stats.failed == 2u);
  BOOST_TEST(stats.last_failure == "the fake step throws");
  BOOST_TEST(stats.open == 0);
}

BOOST_AUTO_TEST_CASE(two_in_a_row_are_unhealthy_until_one_succeeds) {
  Strings strings;
  FakeService service(strings);
  strings.throws = 2;
  BOOST_TEST(reason_of(service.submit(request(1)).wait()) == "error");
  BOOST_TEST(service.stats().healthy);
  BOOST_TEST(reason_of(service.submit(request(1)).wait()) == "error");
  BOOST_TEST(!service.stats().healthy);
  BOOST_TEST(service.submit(request(1)).wait().ids == expected(1));
  BOOST_TEST(service.stats().healthy);
  strings.throws = 1;  // also where it is the end
  auto stream = service.submit(request(1, fake::kEndless));
  service.stop();
  BOOST_TEST((reason_of(stream.wait()) != "length"));
}

BOOST_AUTO_TEST_CASE(a_late_refusal_by_the_engine_is_an_event) {
  Strings strings;
  FakeService service(strings);
  strings.refuses = 1;
  auto stream = service.submit(request(1));
  const Event event = stream.next().value();
  BOOST_TEST((event.kind == Event::Kind::error && event.last && event.error_kind == Error::Kind::capacity));
  BOOST_TEST(event.error == "fake: refuses");
  BOOST_TEST(service.submit(request(1)).wait().ids == expected(1));
  BOOST_TEST(service.stats().failed_steps == 0u);
}

BOOST_AUTO_TEST_CASE(an_engine_that_forgets_does_not_hang_its_readers) {
  Strings strings;
  FakeService service(strings);
  strings.forgets = true;
  const auto answer = service.submit(request(1)).wait();
  BOOST_TEST(reason_of(answer) == "error");
  BOOST_TEST(answer.error.find("lost") != std::string::npos);
}

// ---- waiting

BOOST_AUTO_TEST_CASE(an_idle_service_uses_no_processor) {
  Strings strings;
  FakeService service(ServiceOptions{.buffer = 2, .stall_timeout = 0s}, strings);
  auto held = service.submit(request(1, 100));
  BOOST_REQUIRE(soon([&] { return service.stats().held == 1; }));
  std::this_thread::sleep_for(20ms);
  const int calls = strings.calls;
  std::this_thread::sleep_for(100ms);
  BOOST_TEST(strings.calls == calls);  // everybody is held
  held.wait();
  const int idle = strings.calls;
  const std::clock_t before = std::clock();
  std::this_thread::sleep_for(200ms);
  BOOST_TEST(strings.calls == idle);
  BOOST_TEST(std::clock() - before < CLOCKS_PER_SEC / 20);
}

BOOST_AUTO_TEST_CASE(a_scheduler_that_waits_for_company_is_asked_now_and_then) {
  Strings strings;
  strings.lazy = true;
  FakeService service(strings);
  auto stream = service.submit(request(1));
  std::this_thread::sleep_for(200ms);
  BOOST_TEST(strings.calls > 5);
  BOOST_TEST(strings.calls <= 220);
  BOOST_TEST(!stream.try_next());
  service.close();  // no more requests come: it stops waiting
  BOOST_TEST(stream.wait().ids == expected(1));
}

// ---- numbers

BOOST_AUTO_TEST_CASE(stats_say_what_happens_now) {
  Strings strings;
  FakeService service(strings, 1);
  BOOST_TEST(soon([&] { return service.stats().in_step == 0s; }));
  strings.shut();
  auto a = service.submit(request(1)), b = service.submit(request(2, 5, 3));
  strings.wait_inside();
  std::this_thread::sleep_for(5ms);
  ServiceStats stats = service.stats();
  BOOST_TEST((stats.in_step >= 5ms));
  BOOST_TEST(stats.open == 2);
  BOOST_TEST(stats.waiting == 2);
  BOOST_TEST(stats.waiting_tokens == 4);
  strings.open();
  a.wait(), b.wait();
  stats = service.stats();
  BOOST_TEST(stats.open == 0);
  BOOST_TEST(stats.finished == 2u);
  BOOST_TEST(stats.engine.tokens == 20u);
  BOOST_TEST(stats.cache.capacity_tokens == fake::kPositions);
  BOOST_TEST(!stats.draining);
}

BOOST_AUTO_TEST_CASE(a_callback_that_blocks_is_in_step) {
  Strings strings;
  FakeService service(strings);
  Clock::duration in_step{};
  const auto block = [&](const Event&) {
    std::this_thread::sleep_for(5ms);
    in_step = service.stats().in_step;
  };
  service.submit(request(1, 1), {.on_event = block}).wait();
  BOOST_TEST((in_step >= 5ms));
  BOOST_TEST(soon([&] { return service.stats().in_step == 0s; }));
}

// Neither a callback that throws at the last event, nor one that threw earlier in the same step, has finished.
BOOST_AUTO_TEST_CASE(a_callback_that_throws_fails_its_request_in_the_stats) {
  Strings strings;
  FakeService service(ServiceOptions{.max_open = 1}, strings);
  for (const auto kind : {Event::Kind::token, Event::Kind::finished}) {
    const auto throws = [&](const Event& event) {
      if (event.kind == kind) throw 7;
    };
    const ServiceStats before = service.stats();
    BOOST_TEST(reason_of(service.submit(request(1, 1, 2), {.on_event = throws}).wait()) == "error");
    const ServiceStats after = service.stats();
    BOOST_TEST(after.failed == before.failed + 1);
    BOOST_TEST(after.finished == 0u);
    BOOST_TEST(after.open == 0);
  }
  auto late = service.submit(request(1), {.timeout = 1ns, .on_event = [](const Event&) { throw 7; }});
  BOOST_TEST(reason_of(late.wait()) == "error");
  BOOST_TEST(service.stats().failed == 3u);
  BOOST_TEST(service.stats().expired == 0u);

  std::optional<AnswerStream> next;  // the place of a request is free in its last call
  service
      .submit(request(1), {.on_event =
                               [&](const Event& event) {
                                 if (event.last) next = service.submit(request(2));
                               }})
      .wait();
  BOOST_REQUIRE(next);
  BOOST_TEST(next->wait().ids == expected(2));
  BOOST_TEST(service.stats().finished == 2u);
}

BOOST_AUTO_TEST_CASE(thousands_of_requests_leave_nothing_behind) {
  Strings strings;
  FakeService service(ServiceOptions{.buffer = 4}, strings, 4);
  const auto serve = [&](int count) {
    for (int i = 0; i < count; i += 8) {
      auto a = service.submit(request(i % 997, 6)), b = service.submit(request(i % 991, 12, 2));
      auto c = service.submit(request(1, fake::kEndless)),
           d = service.submit(request(2, fake::kEndless), {.timeout = 1ms});
      auto e = service.submit(request(i % 97, 3), {.on_event = [](const Event&) {}});
      auto f = service.submit(request(1, 0));
      service.submit(request(3, 1), {.on_event = [](const Event&) {}}).detach();
      { auto dropped = service.submit(request(i % 13, 50)); }
      c.cancel();
      a.wait(), b.wait(), c.wait(), d.wait(), e.wait(), f.wait();
    }
    BOOST_TEST(soon([&] { return service.stats().open == 0; }));
  };
  serve(2000);
  std::this_thread::sleep_for(50ms);  // the service's thread lets go of the last ones
  const long before = live_allocations;
  serve(10000);
  BOOST_TEST(soon([&] { return live_allocations == before; }));
  const ServiceStats stats = service.stats();
  BOOST_TEST(stats.accepted == 12000u);
  BOOST_TEST(stats.finished + stats.cancelled + stats.expired + stats.failed == stats.accepted);
}

// Everybody does everything at once; run under ThreadSanitizer.
BOOST_AUTO_TEST_CASE(a_crowd) {
  Strings strings;
  FakeService service(ServiceOptions{.max_waiting = 20, .buffer = 4, .stall_timeout = 50ms}, strings, 4);
  std::atomic<int> wrong{0}, served{0};
  std::vector<std::thread> clients;
  for (unsigned client = 0; client < 6; ++client) {
    clients.emplace_back([&, client] {
      unsigned state = client;
      for (int i = 0; i < 200; ++i) {
        state = state * 1664525 + 1013904223;
        const unsigned what = (state >> 16) % 8;
        const TokenId prompt = static_cast<TokenId>(state >> 24);
        std::atomic<int> called{0};
        try {
          SubmitOptions options;
          if (what == 1) options.timeout = 2ms;
          if (what == 2) options.on_event = [&](const Event&) { ++called; };
          auto stream = service.submit(request(prompt, 30), options);
          if (what == 3) stream.cancel();
          if (what == 4) stream.next();
          if (what == 4) continue;  // dropped half read
          if (what == 5) std::this_thread::sleep_for(3ms);
          const auto answer = stream.wait();
          if (what != 2) wrong += !is_start_of(answer.ids, expected(prompt, 30));
          if (answer.reason == FinishReason::length) {
            wrong += what == 2 ? called != 31 : answer.ids.size() != 30;
            ++served;
          }
          wrong += answer.reason == FinishReason::error;
        } catch (const Error& error) {
          wrong += error.kind() != Error::Kind::overloaded;
        }
        if (what == 6) wrong += service.stats().open < 0;
      }
    });
  }
  for (auto& client : clients) client.join();
  service.drain();
  const ServiceStats stats = service.stats();
  BOOST_TEST(wrong == 0);
  BOOST_TEST(served > 0);
  BOOST_TEST(stats.open == 0);
  BOOST_TEST(stats.waiting == 0);
  BOOST_TEST(stats.held == 0);
  BOOST_TEST(stats.waiting_tokens == 0);
  BOOST_TEST(stats.finished + stats.cancelled + stats.expired == stats.accepted);
  BOOST_TEST(strings.strangers == 0);
}

BOOST_AUTO_TEST_CASE(never_is_never) {
  BOOST_CHECK(detail::after(Clock::duration::max()) == TimePoint::max());
  BOOST_CHECK(detail::after(Clock::duration::max(), TimePoint{} + std::chrono::hours(1)) == TimePoint::max());
  BOOST_CHECK(detail::after(std::chrono::seconds(1), TimePoint{}) == TimePoint{} + std::chrono::seconds(1));
}
