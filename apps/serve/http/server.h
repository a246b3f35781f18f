// An HTTP/1.1 server for a few JSON routes, over TCP or a Unix socket, with TLS or without. One thread reads and writes
// all connections (Boost.Asio); a pool answers complete requests. So a slow client holds a descriptor and no thread.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "serve/http/limits.h"
#include "serve/http/message.h"
#include "serve/http/routes.h"

namespace serve {

class HttpServer {
 public:
  /// JSON body of an answer of 4xx or 5xx that no handler made. The path is empty if none was understood. Like the
  /// hook, it is called on the event thread too, where it must not wait.
  using ErrorBody = std::function<std::string(const HttpRefusal& refusal, const std::string& path)>;
  /// Asked about a head that announces a body, before that is read. A refused body is never read, and its connection
  /// closes after the answer. On the event thread: must not wait.
  using HeadCheck = std::function<HttpRefusal(const HttpRequest& head)>;
  /// Sees each answer last, just before its head is sent, and may add headers. The request of a refused connection has
  /// what was understood of it by then, which may be nothing.
  using AnswerHook = std::function<void(const HttpRequest&, HttpResponse&)>;

  explicit HttpServer(const HttpLimits& limits = {});  ///< std::invalid_argument if a limit makes no sense
  ~HttpServer();                                       ///< stops, and waits for run() to return
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // ---- before run()

  /// A handler may throw: 500, without a word of what it said. An open route also serves clients that the head check
  /// refuses, with bodies of at most kOpenBody bytes.
  enum class Access { checked, open };
  static constexpr std::size_t kOpenBody = 4096;
  void route(std::string method, std::string path, HttpHandler handler, Access access = Access::checked);
  const std::vector<HttpRoutes::Route>& routes() const;
  void set_error_body(ErrorBody body);
  void set_head_check(HeadCheck check);
  void set_answer_hook(AnswerHook hook);
  bool bind(const std::string& host, int port);  ///< 0: any port. False: taken, or no address of this machine
  /// Replaces a socket file that no server listens on any more. False: taken, or the file cannot be made.
  bool bind_unix(const std::filesystem::path& path);
  int port() const;
  /// Serves TLS 1.2 and 1.3 with a certificate chain and a key, both PEM. First before start(). Again, from any thread,
  /// while it runs: for new connections; after an error the previous certificate stays. tenon::Error io, naming the
  /// file.
  void use_tls(const std::filesystem::path& certificate, const std::filesystem::path& key);
  /// Starts the threads: tenon::Error capacity if the system refuses one. run() calls it if the caller has not.
  void start();

  // ---- then

  /// Serves until stop(), or until stop_accepting() and the end of all connections; joins all threads.
  void run();
  /// Neither waits. After the first, each connection closes after its current answer; the second also ends what is
  /// being read or written. For good: there is no second run().
  void stop_accepting();
  void stop();
  int open_connections() const;
  int reading() const;  ///< of them, connections in the middle of a request
  int idle() const;     ///< of them, connections between two requests
  std::uint64_t refused_connections() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace serve
