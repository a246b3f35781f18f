// tenon-serve: a model over HTTP. Exit status 0: asked to end, and ended; 1: a file, the address or the model failed; 2: wrong usage.
#include <pthread.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <new>
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

sigset_t end_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

// The second request to end is obeyed at once.
[[noreturn]] void exit_at_once(int signal) { std::_Exit(128 + signal); }

HttpLimits limits_of(const Settings& s) {
  // Each request that is served holds a thread; so many more answer those that look, and those that are refused.
  return {.body_bytes = s.payload_limit,
          .header_read = s.header_timeout,
          .body_read = s.body_timeout,
          .idle = s.idle_timeout,
          .write = s.write_timeout,
          .threads = s.max_concurrent_requests + 32,
          .waiting = 1024};
}

ApiKeys keys_of(const Settings& settings) {
  ApiKeys keys(settings.api_keys);
  if (!settings.api_key_file.empty()) keys.add_file(settings.api_key_file);
  return keys;
}

// Those that are being answered end first, or are cut short with an error when their time is over.
void drain(HttpServer& http, Serving& serving, const Settings& settings) {
  serving.drain();
  const auto ended_within = [&](std::chrono::milliseconds time) {
    const auto until = std::chrono::steady_clock::now() + time;
    while (serving.gate.taken() > 0 && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(10ms);
    return serving.gate.taken() == 0;
  };
  program::say("ending: new requests are refused, " + std::to_string(serving.gate.taken()) + " are being answered");
  if (!ended_within(settings.shutdown_timeout)) {
    if (Model* const model = serving.loaded()) model->service().stop();
    ended_within(2s);
  }
  http.stop();
}

int run(int argc, char** argv) {
  Settings settings = parse_settings(argc, argv);
  RequestLog log(STDERR_FILENO, settings.log_requests);
  Serving serving(settings, keys_of(settings), log);
  const sigset_t signals = end_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // in every thread from here on: main waits for them
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
  auto model = std::make_unique<Model>(settings);
  for (const std::string& line : model->settings().describe()) program::say(line);
  serving.open(std::move(model));
  program::say("listening on http://" + settings.host + ":" + std::to_string(http.port()));
  int signal = 0;
  sigwait(&signals, &signal);
  std::signal(SIGTERM, exit_at_once);
  std::signal(SIGINT, exit_at_once);
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  drain(http, serving, settings);
  return 0;
}

}  // namespace
}  // namespace serve

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  try {
    return serve::run(argc, argv);
  } catch (const serve::InformationAsked& asked) {
    std::cout << asked.what();
    return 0;
  } catch (const program::UsageError& error) {
    program::say(error.what());
    return 2;
  } catch (const std::bad_alloc&) {
    program::say("out of memory");
  } catch (const std::filesystem::filesystem_error& error) {
    program::say(error.code().message());
  } catch (const std::exception& error) {
    program::say(error.what());
  }
  return 1;
}
