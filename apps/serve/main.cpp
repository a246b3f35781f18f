// tenon-serve: a model over HTTP. Exit status 0: asked to end, and ended; 1: a file, the address or the model failed,
// or the system refused memory or threads; 2: wrong usage.
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <future>
#include <iostream>
#include <memory>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>

#include "exits.h"
#include "messages.h"
#include "output.h"
#include "serve/api/origin.h"
#include "serve/api/routes.h"
#include "serve/http/server.h"
#include "serve/ops/log_writer.h"
#include "serve/ops/memory_reserve.h"
#include "serve/serving.h"
#include "serve/threads.h"
#include "tenon/core/error.h"

namespace serve {
namespace {

using namespace std::chrono_literals;

// SIGTERM, SIGINT, (unless a terminal that closes sends it, and nothing is to be read again) SIGHUP and (with a folder
// for streams) SIGUSR2, taken by a thread of their own for as long as the process lives. The second SIGTERM or SIGINT
// ends the process at once. So does the first while the model is being read: nothing has to be finished then. SIGUSR2
// ends it, too, once.
class EndSignals {
 public:
  EndSignals(bool with_hangup, bool with_handover) {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGTERM);
    sigaddset(&signals_, SIGINT);
    if (with_hangup) sigaddset(&signals_, SIGHUP);
    if (with_handover) sigaddset(&signals_, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &signals_, nullptr);  // in every thread that begins from here on
    begin_thread("takes signals", [this] {
      const int first = take();
      if (loading_) std::_Exit(0);
      asked_.set_value(first);
      int next = take();
      while (next == SIGUSR2) next = take();
      std::_Exit(128 + next);
    }).detach();
  }

  void model_is_read() { loading_ = false; }
  // The first signal that asks for the end.
  int wait() { return asked_.get_future().get(); }

  // What SIGHUP does, until it is replaced; it must not throw.
  void on_hangup(std::function<void()> act) {
    std::lock_guard lock(mutex_);
    hangup_ = std::move(act);
  }

 private:
  // The next signal that asks for the end.
  int take() {
    for (int signal = 0;;) {
      sigwait(&signals_, &signal);
      if (signal != SIGHUP) return signal;
      std::lock_guard lock(mutex_);
      if (hangup_) hangup_();
    }
  }

  sigset_t signals_;
  std::mutex mutex_;  // guards the next
  std::function<void()> hangup_;
  std::atomic<bool> loading_{true};
  std::promise<int> asked_;
};

HttpLimits limits_of(const Settings& s) {
  // Each request that is being answered holds a thread; so many more are for those that look, and those that are
  // refused.
  return {.body_bytes = s.payload_limit,
          .header_read = s.header_timeout,
          .body_read = s.body_timeout,
          .idle = s.idle_timeout,
          .write = s.write_timeout,
          .threads = s.max_concurrent_requests + s.guests() + 32,
          .waiting = 1024,
          .connections = s.connections,
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

// Those that are being answered end first, or are cut short with an error when their time is over. Streams that are
// handed over end at once, and the address is free for the next server.
void drain(HttpServer& http, Serving& serving, const Settings& settings, bool hands_over) {
  serving.drain();
  if (hands_over) {
    http.stop_accepting();
    const std::size_t streams = serving.handover.hand_over(serving.model().service());
    program::say("handed over " + std::to_string(streams) + " streams to " + settings.handover.string());
  } else {
    serving.handover.hand_back(serving.model().service());
  }
  program::say("ending: new requests are refused, " + std::to_string(serving.admission.requests()) +
               " are being answered");
  const auto answered = [&] { return serving.admission.requests() == 0; };
  const auto written = [&] { return http.open_connections() == 0; };
  const auto until = std::chrono::steady_clock::now() + settings.shutdown_timeout;
  if (!comes_true(answered, until)) {
    serving.model().adapters().stop_fetching();
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

constexpr const char* kLessMemory =
    "lower --cache-tokens, --batch or --adapter-slots, name smaller --weights or --kv, or raise the limit of address "
    "space (ulimit -v)";

// The engine's threads, which are started here, yield to those of HTTP: these need little time, and need it soon. A
// refusal of memory or threads names the flags that lower the need.
std::unique_ptr<Model> model_of(const Settings& settings) try {
  constexpr int kNicer = 5;
  std::unique_ptr<Model> model;
  std::exception_ptr failure;
  begin_thread("reads the model", [&] {
    setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + kNicer);  // of this thread, and of those that it starts
    try {
      model = std::make_unique<Model>(settings);
    } catch (...) {
      failure = std::current_exception();
    }
  }).join();
  if (failure) std::rethrow_exception(failure);
  return model;
} catch (const std::bad_alloc&) {
  throw tenon::Error(tenon::Error::Kind::capacity, "memory",
                     std::string("there is not enough for the model; ") + kLessMemory);
} catch (const tenon::Error& error) {
  if (error.kind() != tenon::Error::Kind::capacity) throw;
  const bool by_system = error.where() == "threads" || error.where() == "memory";
  if (!by_system || std::string_view(error.what()).ends_with(kFewerThreads)) throw;
  throw tenon::Error(error.kind(), "",
                     std::string(error.what()) + "; " + (error.where() == "threads" ? kFewerThreads : kLessMemory));
}

// program::say() through the log's queue for as long as this lives. Before and after, a line waits for its reader a
// second at most.
class Messages {
 public:
  explicit Messages(LogWriter& log) {
    program::say_by([&log](std::string_view line) { log.put(line); });
  }
  ~Messages() { say_in_time(); }
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;

  static void say_in_time() {
    program::say_by([](std::string_view line) { write_in_time(STDERR_FILENO, line, 1s); });
  }
};

void listen(HttpServer& http, const Settings& settings) {
  if (!settings.tls_cert.empty()) http.use_tls(settings.tls_cert, settings.tls_key);
  if (!settings.unix_socket.empty()) {
    if (http.bind_unix(settings.unix_socket)) return;
    throw tenon::Error(tenon::Error::Kind::io, "--unix-socket",
                       settings.unix_socket + " is taken, or cannot be made there");
  }
  if (http.bind(settings.host, settings.port)) return;
  throw tenon::Error(tenon::Error::Kind::io, "--port",
                     host_and_port(settings.host, settings.port) + " is taken, or no address of this machine");
}

// After an error all stays as it was.
void reload(const std::string& what, const std::function<void()>& read) try {
  read();
  program::say(what + " read again");
} catch (const std::exception& error) {
  program::say(what + " not read again, and nothing changes: " + error.what());
}

// New connections get the new certificate, and new requests the new keys of clients and of receipts.
bool has_files_to_reload(const Settings& settings) {
  return !settings.tls_cert.empty() || !settings.api_key_file.empty() || !settings.receipt_key_file.empty();
}

void reload_files(HttpServer& http, Serving& serving, const Settings& settings) {
  if (!has_files_to_reload(settings)) program::say("SIGHUP: there is no file to read again");
  if (!settings.tls_cert.empty())
    reload("the TLS certificate was", [&] { http.use_tls(settings.tls_cert, settings.tls_key); });
  if (!settings.api_key_file.empty()) reload("the keys were", [&] { serving.keys.replace(keys_of(settings)); });
  if (!settings.receipt_key_file.empty()) reload("the receipt key was", [&] { serving.receipt_signer.read_again(); });
}

// The first of them by name: a root may have thousands.
void say_unusable_adapters(const AdapterNames& adapters) {
  constexpr std::size_t kMost = 20;
  const std::vector<std::string> lines = adapters.unusable();
  for (std::size_t i = 0; i < std::min(kMost, lines.size()); ++i) program::say("warning: " + lines[i]);
  if (lines.size() > kMost)
    program::say("warning: " + std::to_string(lines.size() - kMost) + " more adapter folders cannot be used");
}

int serve_with(Settings settings) {
  // Until the process ends; before other threads, for which it blocks the signals.
  const bool takes_hangup = has_files_to_reload(settings) || ::isatty(STDERR_FILENO) == 0;
  auto& signals = *new EndSignals(takes_hangup, !settings.handover.empty());
  LogWriter writer(STDERR_FILENO);
  const Messages messages(writer);
  RequestLog log(writer, settings.log_requests);
  Serving serving(settings, keys_of(settings), log);
  allow_most_descriptors();
  HttpServer http(limits_of(settings));
  add_routes(http, serving, settings);
  listen(http, settings);
  http.start();
  std::thread listening = begin_thread("reads connections", [&] { http.run(); });
  struct Join {
    EndSignals& signals;
    HttpServer& http;
    std::thread& thread;
    ~Join() {
      signals.on_hangup({});
      http.stop();
      thread.join();
    }
  } join{signals, http, listening};
  signals.on_hangup([&] { reload_files(http, serving, settings); });
  for (const std::string& name : settings.unknown_variables)
    program::say("warning: the variable " + name + " names no setting and is ignored; --help lists the settings");
  program::say_which_model(settings.model);
  std::unique_ptr<Model> model = model_of(settings);
  for (const std::string& line : model->settings().describe()) program::say(line);
  if (model->chat_error())
    program::say(std::string("warning: chat requests are refused: ") + model->chat_error()->what());
  say_unusable_adapters(model->adapters());
  signals.model_is_read();  // from here on streams may be in memory that are in no file any more
  serving.open(std::move(model), [&](Model& loaded) { serving.handover.take_up_all(serving, loaded); });
  const char* const scheme = settings.tls_cert.empty() ? "http" : "https";
  program::say("listening on " + (settings.unix_socket.empty()
                                      ? std::string(scheme) + "://" + host_and_port(settings.host, http.port())
                                      : std::string(scheme) + "+unix:" + settings.unix_socket));
  drain(http, serving, settings, signals.wait() == SIGUSR2);
  return 0;
}

int run(int argc, char** argv) try {
  Messages::say_in_time();
  hold_memory_reserve();
  return serve_with(parse_settings(argc, argv));
} catch (const std::bad_alloc&) {
  throw tenon::Error(tenon::Error::Kind::capacity, "memory", std::string("there is not enough; ") + kFewerThreads);
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
