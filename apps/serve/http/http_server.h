// An HTTP/1.1 server for a handful of JSON routes: httplib parses targets, keeps headers and writes answers, but the
// connections, their deadlines and budgets, and all that clients send are handled here.
//
// For httplib 0.11 (Debian 12) to 0.18 (Debian 13), whose own reading has no total deadlines, no limit for chunked
// bodies, and the CVEs of 2025 and 2026.
#pragma once
#include <httplib.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "serve/http/connection.h"
#include "serve/http/http_limits.h"
#include "serve/http/http_refusal.h"
#include "serve/http/http_request.h"
#include "serve/http/http_routes.h"
#include "serve/http/http_state.h"

#if !defined(CPPHTTPLIB_OPENSSL_SUPPORT) || !defined(CPPHTTPLIB_ZLIB_SUPPORT) || !defined(CPPHTTPLIB_BROTLI_SUPPORT)
#error "compile with `pkg-config --cflags cpp-httplib`: Debian's library has other classes without these macros"
#endif

namespace serve {

// "0.18.7" is 18; 0 where it is no version of the form 0.MINOR.
constexpr int httplib_minor(std::string_view version) {
  if (!version.starts_with("0.")) return 0;
  int minor = 0;
  for (const char c : version.substr(2)) {
    if (c < '0' || c > '9') break;
    minor = 10 * minor + (c - '0');
  }
  return minor;
}
static_assert(httplib_minor(CPPHTTPLIB_VERSION) >= 11 && httplib_minor(CPPHTTPLIB_VERSION) <= 18,
              "server/ needs cpp-httplib 0.11 to 0.18 (Debian 12 and 13: libcpp-httplib-dev); later ones change what "
              "it builds on");

class HttpLoop;

class HttpServer : private httplib::Server {
 public:
  using Handler = HttpHandler;
  // The JSON body of an answer of 4xx or 5xx that no handler made. The path is empty where none was understood. Like
  // the hook, it is called on the event thread too, where it must not wait.
  using ErrorBody = std::function<std::string(const HttpRefusal& refusal, const std::string& path)>;
  // Asked where a head announces a body, before that is read; a refused one never is, and its connection closes behind
  // the answer. On the event thread: must not wait.
  using HeadCheck = std::function<HttpRefusal(const HttpHead& head)>;
  // Sees each answer last, just before its head goes out, and may add headers. The request of a refused connection has
  // what was understood of it by then, which may be nothing.
  using AnswerHook = std::function<void(const httplib::Request&, httplib::Response&)>;

  explicit HttpServer(const HttpLimits& limits = {});  // std::invalid_argument where a limit makes no sense
  ~HttpServer() override;                              // stops, and waits for run() to return

  // ---- before run()

  // The body has been read into request.body. A handler may throw: 500, without a word of what it said. An open route
  // is for those as well whom the head check refuses, with kOpenBody bytes at most.
  enum class Access { checked, open };
  static constexpr std::size_t kOpenBody = 4096;
  void route(std::string method, std::string path, Handler handler, Access access = Access::checked);
  void set_error_body(ErrorBody body) { error_body_ = std::move(body); }
  void set_head_check(HeadCheck check) { head_check_ = std::move(check); }
  void set_answer_hook(AnswerHook hook) { answer_hook_ = std::move(hook); }
  bool bind(const std::string& host, int port);  // 0: any port
  int port() const { return port_; }
  // Starts the threads: tenon::Error capacity where the system refuses one. run() does it where nobody has.
  void start();

  // ---- then

  // Serves until stop(), or until stop_accepting() and the end of all connections; joins all threads.
  void run();
  // Both never wait, and are safe in a signal handler. After the first, each connection closes behind its current
  // answer; the second also ends what is being read or written. For good: there is no second run().
  void stop_accepting();
  void stop();
  int open_connections() const { return state_.open; }
  int reading() const { return state_.reading; }  // of them, those in the middle of a request
  std::uint64_t refused_connections() const { return refused_; }

  // ---- in a handler or a content provider, about the request that this thread is answering

  // Whether the answer would reach nobody: the client closed (half of it counts) or reset, or stop() was called.
  // One poll.
  static bool client_gone();
  static void close_connection();          // after this answer
  static HttpClock::time_point arrival();  // of the request's first byte
  static std::string peer();               // the client's address, without its port; empty where it is unknown
  static std::string route();              // as it was added; empty: none fits
  static bool is_open_route();
  static HttpRefusal refusal();  // why no handler has it; 0: one has, or there is none

 private:
  struct Exchange;
  static thread_local Exchange* exchange_;

  void install_callbacks();
  HttpAdmission admit(const HttpHead& head) const;
  bool serve(Connection& connection, HttpRequest& request, const HttpRefusal& refusal);
  void adopt(httplib::Request& request) const;
  void answer(const httplib::Request& request, httplib::Response& response) const;
  void fill_error(const httplib::Request& request, httplib::Response& response) const;
  bool is_crowded() const;
  void finish(const httplib::Request& request, httplib::Response& response) const;

  const HttpLimits limits_;
  HttpRoutes routes_;
  ErrorBody error_body_;
  HeadCheck head_check_;
  AnswerHook answer_hook_;
  int port_ = 0;
  int listener_ = -1;
  std::atomic<std::uint64_t> refused_{0};
  HttpState state_;
  std::unique_ptr<HttpLoop> loop_;  // from start() to the end of run()
  std::mutex running_;              // held by run()
};

}  // namespace serve
