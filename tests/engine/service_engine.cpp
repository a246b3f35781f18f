// The service around real engines: answers are those of the same request alone, however fast readers read and whatever
// else goes on. The case memory_is_flat is a ctest of its own, engine.service_memory, and scripts/check-memory.
#define BOOST_TEST_MODULE engine_service_engine
#include <tenon/tenon.h>

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <random>
#include <thread>

#include "tenon/testing/process_memory.h"
#include "tiny.h"

using namespace tenon;
using namespace std::chrono_literals;

namespace {

const char* const kTales = TENON_SOURCE_DIR "/examples/models/tales";

std::vector<Request> mixed_requests(int count, std::uint32_t seed) {
  std::mt19937 random(seed);
  const auto draw = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  std::vector<Request> requests;
  for (int i = 0; i < count; ++i) {
    Request r;
    for (int j = draw(60); j >= 0; --j) r.input_ids.push_back(draw(301));
    r.options.max_new_tokens = 1 + draw(40);
    r.options.temperature = draw(2) ? 0.0f : 0.9f;
    r.options.seed = random();
    r.options.top_logprobs = draw(2) ? 2 : -1;
    r.options.nll = draw(4) == 0;
    r.options.n = draw(4) == 0 ? 3 : 1;
    r.options.logits_hash = true;
    requests.push_back(std::move(r));
  }
  return requests;
}

bool same_answer(const Choice& a, const Choice& b) {
  return a.ids == b.ids && a.text == b.text && a.reason == b.reason && a.logprobs == b.logprobs &&
         a.logits_hash == b.logits_hash;
}

bool same(const Completion& a, const Completion& b) {
  bool equal = same_answer(a, b) && a.error == b.error && a.others.size() == b.others.size() && !a.scores == !b.scores;
  for (std::size_t i = 0; equal && i < a.others.size(); ++i) equal = same_answer(a.others[i], b.others[i]);
  return equal && (!a.scores || a.scores->nll_mean == b.scores->nll_mean);
}

std::vector<Completion> each_alone(const std::vector<Request>& requests) {
  Engine<Gpt2> engine(random_checkpoint(tiny_gpt2(), 5), EngineOptions{.threads = 1});
  std::vector<Completion> alone;
  for (const auto& request : requests) alone.push_back(engine.complete(request));
  return alone;
}

template <class Holds>
bool soon(Holds&& holds) {
  for (int i = 0; i < 10000; ++i) {
    if (holds()) return true;
    std::this_thread::sleep_for(1ms);
  }
  return false;
}

// Some read at once, some slowly, some by events, some not to the end.
template <class S>
void serve_a_crowd(S& service) {
  const auto requests = mixed_requests(48, 21);
  const auto alone = each_alone(requests);
  std::atomic<int> wrong{0};
  std::vector<std::thread> clients;
  for (std::size_t client = 0; client < 4; ++client) {
    clients.emplace_back([&, client] {
      for (std::size_t i = client; i < requests.size(); i += 4) {
        auto stream = service.submit(requests[i]);
        if (i % 7 == 6) continue;
        Completion answer;
        for (const auto& event : stream.events()) {
          answer.add(event, requests[i].options.top_logprobs >= 0);
          if (i % 5 == 4 && answer.ids.size() % 8 == 0) std::this_thread::sleep_for(1ms);
        }
        wrong += !same(answer, alone[i]);
      }
    });
  }
  for (auto& client : clients) client.join();
  BOOST_TEST(wrong == 0);
  BOOST_TEST(soon([&] { return service.stats().open == 0; }));
  service.stop();
  BOOST_TEST(service.stats().cache.used_tokens == 0);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_crowd_gets_the_answers_of_each_alone) {
  Service<Engine<Gpt2>> service(ServiceOptions{.buffer = 4}, random_checkpoint(tiny_gpt2(), 5),
                                EngineOptions{.threads = 2});
  serve_a_crowd(service);
}

BOOST_AUTO_TEST_CASE(so_does_one_of_a_small_cache) {
  Service<Engine<Gpt2>> service(ServiceOptions{.buffer = 8}, random_checkpoint(tiny_gpt2(), 5),
                                EngineOptions{.token_budget = 48, .cache_tokens = 400, .threads = 2});
  serve_a_crowd(service);
}

BOOST_AUTO_TEST_CASE(an_engine_chosen_at_run_time_serves_too) {
  std::unique_ptr<AnyEngine> engine =
      std::make_unique<EngineBox<Engine<Gpt2, Cache<ContiguousKV>, Scheduler<StaticPolicy>>>>(
          random_checkpoint(tiny_gpt2(), 5), StaticPolicy{.n = 4, .max_wait = 2ms}, EngineOptions{.threads = 2});
  Service service(std::move(engine), {.buffer = 16});
  serve_a_crowd(service);
}

BOOST_AUTO_TEST_CASE(a_slow_readers_answer_is_the_same_and_others_pass) {
  Service<Engine<Gpt2>> service(ServiceOptions{.buffer = 8}, random_checkpoint(tiny_gpt2(), 5),
                                EngineOptions{.cache_tokens = 320, .threads = 1});
  Request request{.input_ids = {1, 2, 3, 4, 5},
                  .options = {.max_new_tokens = 200, .temperature = 0.8f, .seed = 3, .ignore_eos = true}};
  auto slow = service.submit(request);
  BOOST_TEST(soon([&] { return service.stats().held == 1; }));
  const auto quick = service.submit(request).wait();
  BOOST_TEST(service.stats().held == 1);
  BOOST_TEST(quick.ids.size() == 200u);
  std::vector<TokenId> ids;
  for (const auto& token : slow) {
    ids.push_back(token.id);
    if (ids.size() % 32 == 0) std::this_thread::sleep_for(5ms);
  }
  BOOST_TEST(ids == quick.ids);
}

// Ten times what fits is offered while nothing is read: the limits answer at once, and the accepted get their answers.
BOOST_AUTO_TEST_CASE(overload) {
  const auto requests = mixed_requests(40, 22);
  const auto alone = each_alone(requests);
  Service<Engine<Gpt2>> service(ServiceOptions{.max_waiting = 8, .buffer = 1000}, random_checkpoint(tiny_gpt2(), 5),
                                ContinuousPolicy{.max_batch = 4}, EngineOptions{.threads = 2});
  std::atomic<int> refused{0}, wrong{0}, served{0};
  std::vector<std::thread> clients;
  for (std::size_t client = 0; client < 4; ++client) {
    clients.emplace_back([&, client] {
      std::vector<std::pair<std::size_t, AnswerStream>> streams;
      for (std::size_t i = client; i < 400; i += 4) {
        try {
          streams.emplace_back(i % 40, service.submit(requests[i % 40]));
        } catch (const Error& error) {
          refused += error.kind() == Error::Kind::overloaded;
        }
      }
      for (auto& [i, stream] : streams) wrong += !same(stream.wait(), alone[i]), ++served;
    });
  }
  for (auto& client : clients) client.join();
  BOOST_TEST(wrong == 0);
  BOOST_TEST(refused > 0);
  BOOST_TEST(served + refused == 400);
}

BOOST_AUTO_TEST_CASE(text_is_read_in_the_callers_thread_and_comes_whole) {
  Service<Engine<Gpt2>> service(load_checkpoint(kTales));
  const std::string expected = " in the air, and the sun was a great cloud of the sun.";
  std::atomic<int> wrong{0};
  std::vector<std::thread> clients;
  for (int client = 0; client < 4; ++client) {
    clients.emplace_back([&] {
      std::string text;
      for (const auto& token : service.submit({.prompt = "The rain in Spain falls", .options = {.max_new_tokens = 15}}))
        text += token.text;
      wrong += text != expected;
    });
  }
  for (auto& client : clients) client.join();
  BOOST_TEST(wrong == 0);
  const auto stopped =
      service.submit({.prompt = "The rain in Spain falls", .options = {.max_new_tokens = 40, .stop = {" sun was"}}})
          .wait();
  BOOST_TEST(stopped.text == " in the air, and the");
  BOOST_TEST(to_string(stopped.reason) == "stop");
  // Text held back for a stop string comes with the end: here that is all of it.
  Request request{.prompt = "The rain in Spain falls", .options = {.max_new_tokens = 200, .ignore_eos = true}};
  const std::string whole = service.submit(request).wait().text;
  request.options.stop = {whole + "never"};
  auto stream = service.submit(request);
  std::string text;
  TokenId last = 0;
  int seen = 0;
  for (const auto& token : stream) {
    if (++seen == 5) stream.cancel();
    last = token.id;
    text += token.text;
  }
  BOOST_TEST(to_string(stream.reason().value()) == "cancelled");
  BOOST_TEST(last == -1);
  BOOST_TEST(!text.empty());
  BOOST_TEST(whole.substr(0, text.size()) == text);
  BOOST_TEST(service.tokenizer() != nullptr);
}

BOOST_AUTO_TEST_CASE(the_cache_is_free_once_nobody_wants_the_answers) {
  Service<Engine<Gpt2>> service(ServiceOptions{}, random_checkpoint(tiny_gpt2(), 5), EngineOptions{.threads = 1});
  const Request endless{.input_ids = {1, 2, 3}, .options = {.max_new_tokens = 300, .ignore_eos = true}};
  auto cancelled = service.submit(endless);
  { service.submit(endless).next(); }
  cancelled.cancel();
  auto late = service.submit(endless, {.timeout = 1ms});
  BOOST_TEST(to_string(cancelled.wait().reason) == "cancelled");
  BOOST_TEST(to_string(late.wait().reason) == "deadline");
  BOOST_TEST(soon([&] { return service.stats().open == 0; }));
  service.drain();
  BOOST_TEST(service.stats().cache.used_tokens == 0);
}

BOOST_AUTO_TEST_CASE(memory_is_flat, *boost::unit_test::disabled()) {
  const auto& arguments = boost::unit_test::framework::master_test_suite();
  const int last = arguments.argc > 1 ? std::stoi(arguments.argv[1]) : 100000;
  constexpr int first = 1000, clients = 4;
  Service<Engine<Gpt2>> service(ServiceOptions{.buffer = 4}, random_checkpoint(tiny_gpt2(), 5),
                                EngineOptions{.cache_tokens = 2048, .threads = 1});
  const auto serve = [&](int from, int to) {
    std::vector<std::thread> threads;
    for (int client = 0; client < clients; ++client) {
      threads.emplace_back([&, client] {
        for (int i = from + client; i < to; i += clients) {
          const TokenId prompt = i % 300;
          Request request{.input_ids = {prompt, i / 300 % 300, 5}, .options = {.max_new_tokens = 1 + i % 8}};
          request.options.n = i % 16 == 0 ? 2 : 1;
          request.options.cache_salt = i % 8 == 0 ? std::to_string(i) : "";
          SubmitOptions how;
          if (i % 32 == 1) how.timeout = 1ms;
          if (i % 32 == 2) how.on_event = [](const Event&) {};
          auto stream = service.submit(request, how);
          if (i % 32 == 3) stream.cancel();
          if (i % 32 != 4) stream.wait();
        }
      });
    }
    for (auto& thread : threads) thread.join();
    return testing::resident_megabytes();
  };
  const double early = serve(0, first), late = serve(first, last);
  const ServiceStats stats = service.stats();
  BOOST_TEST_MESSAGE("after " << first << " requests " << early << " MB, after " << last << " " << late
                              << " MB, difference " << late - early << " (at most 4)");
  BOOST_TEST(stats.accepted == static_cast<std::uint64_t>(last));
  BOOST_TEST(stats.failed == 0u);
  BOOST_TEST(late - early <= 4.0);
}
