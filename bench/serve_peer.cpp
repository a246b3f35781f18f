// The engine of tenon-serve without HTTP. bench/serve compares the server with it. Threads submit to a tenon::Service
// and read their streams. Requests and answers are lines of JSON in the format of serve_load.cpp.
//   serve_peer [MODEL [WEIGHTS]]
#include <atomic>
#include <deque>
#include <filesystem>
#include <iostream>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "options.h"
#include "serve_work.h"
#include "tenon/engine/any_engine.h"
#include "tenon/engine/service.h"

namespace {

using namespace bench;
using Service = tenon::Service<tenon::AnyEngine>;

class Peer {
 public:
  // Makes the engine and the service with the defaults of tenon-serve.
  explicit Peer(const program::ModelOptions& options)
      : service_(program::make_engine(options, tenon::load_checkpoint(program::model_folder(options))),
                 tenon::ServiceOptions{.max_open = 8192, .max_waiting = 8192}) {}

  Json answer(Json ask) {
    const std::string kind = ask.at("case");
    const double cpu = cpu_seconds();
    Json result = kind == "closed" ? closed(ask) : open(ask);
    ask.update(result);
    ask["source"] = "in process", ask["cpu_s"] = cpu_seconds() - cpu;
    return ask;
  }

 private:
  static tenon::Request request(const Asked& asked, bool stream) {
    tenon::Request request{.prompt = asked.prompt};
    if (!asked.adapter.empty()) request.adapters = {{asked.adapter}};
    request.options.max_new_tokens = asked.new_tokens;
    request.options.ignore_eos = true;
    if (stream) request.options.top_logprobs = 0;  // LoRAX's stream events have the token's log-probability
    return request;
  }

  // The closed loop: a fixed number of clients. Each sends its next request when it has the answer to the last one,
  // until the time window ends.
  Json closed(const Json& ask) {
    const Work work(ask);
    const int clients = ask.at("clients");
    const bool stream = ask.value("stream", true);
    const Time begin = Clock::now() + seconds(ask.value("warmup", 0.5));
    Tally all(ask, begin, begin + seconds(ask.at("seconds")));
    std::mutex mutex;
    const auto client = [&](int c) {
      Tally tally(ask, begin, all.end());
      for (int i = 0; Clock::now() < tally.end(); ++i) {
        Course course{.asked = Clock::now()};
        auto events = service_.submit(request(work.request(static_cast<std::uint64_t>(i * clients + c)), stream),
                                      {.adapter_wait = std::chrono::seconds(30)});
        while (const auto event = events.next()) {
          if (event->kind != tenon::Event::Kind::token) continue;
          const Time before = course.last, now = Clock::now();
          course.token(now);
          if (stream) tally.token(before, now);
          if (now >= tally.end()) break;  // cancels the request
        }
        if (!stream) tally.token({}, course.last, course.tokens), course.first = course.last;
        if (events.ended() && events.reason() == tenon::FinishReason::length)
          tally.request(course);
        else
          tally.failed(course.last);
      }
      std::lock_guard lock(mutex);
      all.add(tally);
    };
    std::vector<std::thread> threads;
    for (int c = 0; c < clients; ++c) threads.emplace_back(client, c);
    for (auto& thread : threads) thread.join();
    while (service_.stats().open > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return all.row();
  }

  // The open loop: one thread submits at random times, and callbacks on the service's thread receive the tokens.
  Json open(const Json& ask) {
    const Work work(ask);
    const double rate = ask.at("rate");
    const auto seed = ask.value("seed", std::uint64_t{1});
    const Time start = Clock::now(), begin = start + seconds(ask.value("warmup", 0.5));
    Tally tally(ask, begin, begin + seconds(ask.at("seconds")));
    std::deque<Course> courses;
    std::atomic<int> open = 0;
    Time due = start;
    for (std::uint64_t i = 0;; ++i) {
      due += seconds(-std::log(1 - draw_unit(seed, i)) / rate);
      if (due >= tally.end()) break;
      const Asked asked = work.request(i);
      std::this_thread::sleep_until(due);
      Course& course = courses.emplace_back(Course{.asked = due});
      ++open;
      auto events = service_.submit(
          request(asked, true), {.adapter_wait = std::chrono::seconds(30), .on_event = [&](const tenon::Event& event) {
                                   const Time before = course.last, now = Clock::now();
                                   if (event.kind == tenon::Event::Kind::token) {
                                     course.token(now);
                                     tally.token(before, now);
                                   }
                                   if (!event.last) return;
                                   if (event.reason == tenon::FinishReason::length)
                                     tally.request(course);
                                   else
                                     tally.failed(now);
                                   --open;
                                 }});
      events.detach();
    }
    while (open > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return tally.row();
  }

  Service service_;
};

}  // namespace

int main(int argc, char** argv) try {
  program::ModelOptions options;
  if (argc > 1) options.model = argv[1];
  if (argc > 2) options.weights = argv[2], options.weights_given = true;
  const auto adapters = std::filesystem::absolute(program::model_folder(options)) / "adapters";
  if (std::filesystem::is_directory(adapters)) options.adapter_root = adapters.string();
  Peer peer(options);
  std::cout << R"({"ready": true})" << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << peer.answer(Json::parse(line)).dump() << std::endl;
  }
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
