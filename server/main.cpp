// tenon-serve: a model over HTTP. Exit status 0: asked to end, and ended; 1: a file, the address or the model failed; 2: wrong usage.
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <future>
#include <iostream>
#include <memory>
#include <thread>

#include "exits.h"
#include "output.h"
#include "server/http_server.h"
#include "server/routes.h"
#include "server/serving.h"
#include "tenon/core/error.h"

namespace serve {
namespace {

using namespace std::chrono_literals;

// SIGTERM and SIGINT, taken by a thread of their own for as long as the process lives. The second is obeyed at once, and the
// first where the model is still being read: there is nothing to bring to its end.
class EndSignals {
 public:
  EndSignals() {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGTERM);
    sigaddset(&signals_, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals_, nullptr);  // in every thread that begins from here on
    std::thread([this] {
      take();
      if (loading_) std::_Exit(0);
      asked_.set_value();
      std::_Exit(128 + take());
    }).detach();
  }

  void model_is_read() { loading_ = false; }
  void wait() { asked_.get_future().wait(); }

 private:
  int take() {
    int signal = 0;
    sigwait(&signals_, &signal);
    return signal;
  }

  sigset_t signals_;
  std::atomic<bool> loading_{true};
  std::promise<void> asked_;
};

HttpLimits limits_of(const Settings& s) {
  // Each request that is being answered holds a thread; so many more are for those that look, and those that are refused.
  return {.body_bytes = s.payload_limit,
          .header_read = s.header_timeout,
          .body_read = s.body_timeout,
          .idle = s.idle_timeout,
          .write = s.write_timeout,
          .threads = s.max_concurrent_requests + 32,
          .waiting = 1024,
          .write_total = std::max(HttpLimits{}.write_total, s.write_timeout)};
}

ApiKeys keys_of(const Settings& settings) {
  ApiKeys keys(settings.api_keys);
  if (settings.api_key_file.empty()) return keys;
  try {
    keys.add_file(settings.api_key_file);
  } catch (const tenon::Error& error) {
    if (error.kind() != tenon::Error::Kind::io) throw;
    throw tenon::Error(error.kind(), "--api-key-file " + settings.api_key_file.string(), error.what());
  }
  return keys;
}

template <class Condition>
bool comes_true(const Condition& condition, std::chrono::steady_clock::time_point until) {
  while (!condition() && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(10ms);
  return condition();
}

// Those that are being answered end first, or are cut short with an error when their time is over.
void drain(HttpServer& http, Serving& serving, const Settings& settings) {
  serving.drain();
  program::say("ending: new requests are refused, " + std::to_string(serving.gate.taken()) + " are being answered");
  const auto answered = [&] { return serving.gate.taken() == 0; };
  const auto written = [&] { return http.open_connections() == 0; };
  const auto until = std::chrono::steady_clock::now() + settings.shutdown_timeout;
  if (!comes_true(answered, until)) {
    serving.model().service().stop();
    comes_true(answered, std::chrono::steady_clock::now() + 2s);
  }
  http.stop_accepting();
  comes_true(written, std::max(until, std::chrono::steady_clock::now() + 2s));
  http.stop();
}

// As many as this process may have: each connection is one.
void allow_most_descriptors() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
}

// The engine's threads, which are begun here, yield to those of HTTP: these need little time, and need it soon.
std::unique_ptr<Model> model_of(const Settings& settings) {
  constexpr int kNicer = 5;
  return std::async(std::launch::async, [&] {
    setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + kNicer);  // of this thread, and of those that it begins
    return std::make_unique<Model>(settings);
  }).get();
}

int serve_with(Settings settings) {
  RequestLog log(STDERR_FILENO, settings.log_requests);
  Serving serving(settings, keys_of(settings), log);
  auto& signals = *new EndSignals;  // until the process ends
  allow_most_descriptors();
  HttpServer http(limits_of(settings));
  add_routes(http, serving, settings);
  if (!http.bind(settings.host, settings.port)) {
    throw tenon::Error(tenon::Error::Kind::io, "--port", settings.host + ":" + std::to_string(settings.port) + " is taken, or no address of this machine");
  }
  std::thread listening([&] { http.run(); });
  struct Join {
    HttpServer& http;
    std::thread& thread;
    ~Join() {
      http.stop();
      thread.join();
    }
  } join{http, listening};
  program::say_which_model(settings.model);
  std::unique_ptr<Model> model = model_of(settings);
  for (const std::string& line : model->settings().describe()) program::say(line);
  serving.open(std::move(model));
  program::say("listening on http://" + settings.host + ":" + std::to_string(http.port()));
  signals.model_is_read();
  signals.wait();
  drain(http, serving, settings);
  return 0;
}

int run(int argc, char** argv) try {
  return serve_with(parse_settings(argc, argv));
} catch (const InformationAsked& asked) {
  std::cout << asked.what();
  return 0;
}

}  // namespace
}  // namespace serve

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  return program::exit_status(serve::run, argc, argv);
}
