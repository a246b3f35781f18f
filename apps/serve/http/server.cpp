#include "serve/http/server.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <climits>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>

#include "serve/http/session.h"
#include "serve/threads.h"

namespace serve {
namespace {

using asio::ip::tcp;
using Unix = asio::local::stream_protocol;

// As long a line of connections that wait to be accepted as the system allows (net.core.somaxconn): what does not fit
// is tried again by the client's kernel after 1 s.
constexpr int kBacklog = asio::socket_base::max_listen_connections;
// No descriptors or no memory: that passes when connections close.
constexpr std::chrono::milliseconds kAcceptPause{10};

// A socket that connections come to.
template <class Protocol>
struct Door {
  std::optional<asio::basic_socket_acceptor<Protocol>> acceptor;
  std::optional<asio::steady_timer> pause;
  bool waits = false;  // for a connection, or for the end of the pause
};

// The file that a Unix socket is known by.
struct SocketFile {
  explicit SocketFile(std::filesystem::path name) : path(std::move(name)) {
    struct stat file {};
    if (::stat(path.c_str(), &file) == 0) device = file.st_dev, inode = file.st_ino;
  }
  // Not one that another server has put in its place.
  void remove() const {
    const SocketFile now(path);
    if (now.device == device && now.inode == inode) ::unlink(path.c_str());
  }

  std::filesystem::path path;
  dev_t device = 0;
  ino_t inode = 0;
};

// Connections that this process may hold, beside those that linger and the files it may need meanwhile.
int most_connections() {
  constexpr rlim_t kOthers = 384;
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == RLIM_INFINITY) return INT_MAX;
  const rlim_t most = std::max(files.rlim_cur / 2, files.rlim_cur - std::min(files.rlim_cur, kOthers));
  return static_cast<int>(std::clamp<rlim_t>(most, 1, INT_MAX));
}

HttpLimits checked(HttpLimits limits) {
  const auto require = [](bool holds, const char* what) {
    if (!holds) throw std::invalid_argument(std::string("HttpLimits: ") + what);
  };
  require(limits.threads >= 1, "threads must be 1 or more");
  require(limits.waiting >= 0, "waiting must be 0 or more");
  require(limits.requests_a_connection >= 1, "requests_a_connection must be 1 or more");
  require(limits.header_lines >= 1, "header_lines must be 1 or more");
  require(limits.connections >= 1, "connections must be 1 or more");
  limits.connections = std::min(limits.connections, most_connections());
  return limits;
}

std::string head_of(const HttpResponse& response) {
  std::string head = "HTTP/1.1 " + std::to_string(response.status) + " ";
  head.append(reason_phrase(response.status)).append("\r\n");
  for (const auto& [name, value] : response.headers) head.append(name).append(": ").append(value).append("\r\n");
  return head + "\r\n";
}

// HTTP/1.0 knows no chunks: there the end of the connection ends the answer.
class ChunkSink final : public HttpSink {
 public:
  ChunkSink(HttpSession& session, bool chunked) : session_(session), chunked_(chunked) {}

  bool write(std::string_view bytes) override {
    if (!chunked_) return session_.write(bytes);
    if (bytes.empty()) return !session_.broken();  // a chunk of no bytes would be the last
    std::array<char, 24> size{};
    std::string chunk(size.data(),
                      static_cast<std::size_t>(std::snprintf(size.data(), size.size(), "%zx\r\n", bytes.size())));
    return session_.write(chunk.append(bytes).append("\r\n"));
  }
  void finish() {
    if (chunked_) session_.put("0\r\n\r\n");
  }

 private:
  HttpSession& session_;
  const bool chunked_;
};

std::shared_ptr<asio::ssl::context> context_of(const std::filesystem::path& certificate,
                                               const std::filesystem::path& key) {
  using Context = asio::ssl::context;
  auto context = std::make_shared<Context>(Context::tls_server);
  context->set_options(Context::default_workarounds | Context::no_sslv2 | Context::no_sslv3 | Context::no_tlsv1 |
                       Context::no_tlsv1_1 | Context::no_compression);
  ::SSL_CTX_set_options(context->native_handle(), SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  ::SSL_CTX_set_mode(context->native_handle(), SSL_MODE_RELEASE_BUFFERS);  // idle connections keep none
  const auto load = [](const std::filesystem::path& file, const char* flag, auto&& read) {
    error_code error;
    read(error);
    if (error) throw tenon::Error(tenon::Error::Kind::io, std::string(flag) + " " + file.string(), error.message());
  };
  load(certificate, "--tls-cert", [&](error_code& e) { context->use_certificate_chain_file(certificate.string(), e); });
  context->set_password_callback([](auto...) { return std::string(); });  // never asks a terminal
  load(key, "--tls-key", [&](error_code& e) { context->use_private_key_file(key.string(), Context::pem, e); });
  if (::SSL_CTX_check_private_key(context->native_handle()) != 1)
    throw tenon::Error(tenon::Error::Kind::io, "--tls-key " + key.string(), "is not the key of --tls-cert");
  return context;
}

}  // namespace

class HttpServer::Impl {
 public:
  explicit Impl(const HttpLimits& limits) : shared(checked(limits)) {
    shared.admit = [this](const HttpRequest& head) { return admit(head); };
    shared.answer = [this](HttpSession& session, HttpRequest& request) { return answer(session, request); };
  }

  template <class Protocol>
  bool listen(Door<Protocol>& door, const typename Protocol::endpoint& at) {
    error_code error;
    auto& acceptor = door.acceptor.emplace(shared.io);
    door.pause.emplace(shared.io);
    acceptor.open(at.protocol(), error);
    if (!error && std::is_same_v<Protocol, tcp>) acceptor.set_option(asio::socket_base::reuse_address(true), error);
    if (!error) acceptor.bind(at, error);
    if (!error) acceptor.listen(kBacklog, error);
    if (error) door.acceptor.reset();
    return !error;
  }

  void start() {
    if (guard_ || ran_ || (!tcp_.acceptor && !unix_.acceptor)) return;
    guard_.emplace(shared.jobs.get_executor());
    handshakes_guard_.emplace(shared.handshakes.get_executor());
    const std::string body = error_body ? error_body({503, "too many connections"}, "") : "{\"error\":\"overloaded\"}";
    HttpResponse response{.status = 503, .headers = {{"Connection", "close"}, {"Retry-After", "1"}}};
    response.set_content(body, "application/json");
    response.set_header("Content-Length", std::to_string(body.size()));
    overloaded_ = head_of(response) + body;
    threads_.reserve(static_cast<std::size_t>(shared.limits.threads));
    try {
      for (int i = 1; i <= shared.limits.threads; ++i) {
        const std::string which = std::to_string(i) + " of " + std::to_string(shared.limits.threads);
        threads_.push_back(begin_thread("answers requests (" + which + ")", [this] { shared.jobs.run(); }));
      }
      if (tls_) threads_.push_back(begin_thread("does TLS handshakes", [this] { shake_hands(); }));
    } catch (...) {
      join();  // a thread that is not joined would end the process
      throw;
    }
  }

  void run() {
    std::lock_guard running(running_);
    start();
    if (!guard_) return;
    ran_ = true;
    const auto guard = asio::make_work_guard(shared.io);  // also while threads have all connections
    while (serve()) {
    }
    end();
  }

  // Waits for run(), or ends what start() began if run() was never called.
  void finish() {
    std::lock_guard running(running_);
    if (guard_) end();
  }

  // Both need no memory: serve() returns, and looks at the flags.
  void stop_accepting() {
    shared.draining = true;
    shared.io.stop();
  }
  void stop() {
    shared.stopping = true;
    stop_accepting();
  }

  HttpShared shared;
  HttpRoutes routes;
  ErrorBody error_body;
  HeadCheck head_check;
  AnswerHook answer_hook;
  std::mutex running_;  // held by run()
  Door<tcp> tcp_;
  Door<Unix> unix_;
  int port_ = 0;  // of tcp_, also once that has closed
  std::optional<SocketFile> unix_file_;
  std::mutex tls_mutex_;  // guards the next
  std::shared_ptr<asio::ssl::context> tls_;

 private:
  // ---- connections

  // Until something stops it. False: nothing is left to serve.
  bool serve() try {
    shared.io.restart();
    if (shared.stopping) return false;
    if (shared.draining) drain();
    if (shared.draining && shared.open == 0) return false;
    accept(tcp_);
    accept(unix_);
    shared.io.run();
    return true;
  } catch (const std::bad_alloc&) {
    std::this_thread::sleep_for(kAcceptPause);
    reopen(tcp_);
    reopen(unix_);
    return true;
  }

  void shake_hands() {
    for (bool over = false; !over;) try {
        shared.handshakes.run();
        over = true;
      } catch (const std::bad_alloc&) {  // that connection ends at its deadline
      }
  }

  // Asio registers an accepted socket before it calls the handler. Where there is no memory for that, no handler comes.
  template <class Protocol>
  void reopen(Door<Protocol>& door) {
    if (!door.acceptor) return;
    error_code ignored;
    door.acceptor->cancel(ignored);
    door.pause->cancel();
    door.waits = false;
  }

  template <class Protocol>
  void accept(Door<Protocol>& door) {
    if (door.waits || !door.acceptor || !door.acceptor->is_open()) return;
    door.acceptor->async_accept([this, &door](error_code error, typename Protocol::socket socket) {
      if (error == asio::error::operation_aborted) return;
      door.waits = false;
      if (!error) add(std::move(socket));
      if (!error || error == asio::error::connection_aborted || shared.shed_one()) return accept(door);
      door.pause->expires_after(kAcceptPause);
      door.pause->async_wait([this, &door](error_code cancelled) {
        if (cancelled) return;
        door.waits = false;
        accept(door);
      });
      door.waits = true;
    });
    door.waits = true;
  }

  template <class Accepted>
  void add(Accepted socket) try {
    error_code ignored;
    if constexpr (std::is_same_v<Accepted, tcp::socket>) socket.set_option(tcp::no_delay(true), ignored);
    const bool room = shared.open < shared.limits.connections || shared.shed_one();
    std::unique_ptr<HttpChannel> channel;
    std::shared_ptr<asio::ssl::context> tls;
    {
      std::lock_guard lock(tls_mutex_);
      tls = tls_;
    }
    if (tls) channel = std::make_unique<TlsChannel>(std::move(socket), tls, shared.handshakes);
    if (!tls) channel = std::make_unique<PlainChannel>(std::move(socket), shared.scratch);
    const auto session = *shared.sessions.insert(std::make_shared<HttpSession>(shared, std::move(channel))).first;
    room ? session->begin() : session->refuse_connection(tls ? "" : overloaded_);
  } catch (const std::exception&) {  // no memory, or no room in OpenSSL: it closes
  }

  // Removes the file while the socket still listens: another server may replace a file that nobody listens on.
  void drain() {
    if (unix_file_) unix_file_->remove();
    unix_file_.reset();
    error_code ignored;
    if (tcp_.acceptor) tcp_.acceptor->close(ignored);
    if (unix_.acceptor) unix_.acceptor->close(ignored);
    for_each_session([](HttpSession& session) { session.end_idle(); });
  }

  void end() {
    drain();
    for_each_session([](HttpSession& session) { session.stop(); });
    join();
    settle();  // answers that ended meanwhile, and what the sockets take of them
    for_each_session([](HttpSession& session) { session.close(); });
    settle();  // handshakes that this ended
  }

  // `act` may end the session that it gets, and no other.
  template <class Act>
  void for_each_session(Act act) {
    for (auto next = shared.sessions.begin(); next != shared.sessions.end();) {
      const std::shared_ptr<HttpSession> session = *next++;
      act(*session);
    }
  }

  // Runs whatever is ready, when all other threads have ended.
  void settle() {
    for (std::size_t ran = 1; ran > 0;) try {
        shared.io.restart();
        shared.handshakes.restart();
        ran = shared.io.poll() + shared.handshakes.poll();
      } catch (const std::bad_alloc&) {
      }
  }

  void join() {
    guard_.reset();
    handshakes_guard_.reset();
    shared.handshakes.stop();
    for (std::thread& each : threads_) each.join();
    threads_.clear();
  }

  // ---- requests

  HttpAdmission admit(const HttpRequest& head) const {
    const HttpRefusal refusal = head_check ? head_check(head) : HttpRefusal{};
    if (!refusal) return {};
    const auto match = routes.find(head.method, head.path);
    if (!match.route || !match.route->open) return {.refusal = refusal};
    return {.body_bytes = kOpenBody};
  }

  // Whether the answer went out, or is kept, whole.
  bool answer(HttpSession& session, HttpRequest& request) try {
    if (request.refusal || request.close || request.version_1_0) session.close_after_answer();
    HttpResponse response = respond(request);
    finish(session, request, response);
    const bool chunked = response.stream && !request.version_1_0;
    if (chunked) response.set_header("Transfer-Encoding", "chunked");
    if (!response.stream && response.status != 204)
      response.set_header("Content-Length", std::to_string(response.body.size()));
    std::string head = head_of(response);
    if (!response.stream || request.method == "HEAD") {
      session.put(request.method == "HEAD" ? head : head += response.body);
      return !session.broken();
    }
    if (!session.write(head)) return false;
    ChunkSink sink(session, chunked);
    while (!sink.ended()) {
      if (shared.stopping || !response.stream(sink)) return false;
    }
    sink.finish();
    return !session.broken();
  } catch (...) {
    // A stream threw in the middle of its answer. Cutting it is the only way left to tell the client.
    return false;
  }

  HttpResponse respond(HttpRequest& request) const {
    HttpRoutes::Match match = routes.find(request.method, request.path);
    request.route = std::move(match.path);
    request.rest = std::move(match.rest);
    request.open_route = match.route && match.route->open;
    HttpResponse response;
    try {
      if (request.refusal) {
        response.status = request.refusal.status;
        if (response.status == 503) response.set_header("Retry-After", "1");
      } else if (match.route) {
        match.route->handler(request, response);
      } else {
        response.status = match.allow.empty() ? 404 : 405;
        if (response.status == 405) response.set_header("Allow", match.allow);
      }
    } catch (...) {
      response = {.status = 500, .close = response.close};
    }
    if (response.status < 400 || !response.body.empty() || response.stream) return response;
    const HttpRefusal refusal{response.status, request.refusal.why};
    response.set_content(error_body ? error_body(refusal, request.target.empty() ? "" : request.path)
                                    : "{\"error\":\"HTTP " + std::to_string(response.status) + "\"}",
                         "application/json");
    return response;
  }

  void finish(HttpSession& session, const HttpRequest& request, HttpResponse& response) const {
    if (answer_hook) answer_hook(request, response);
    // In a crowd no connection is kept, so that clients that wait outside get in.
    const bool crowded = shared.open >= shared.limits.connections && shared.idle == 0;
    if (crowded || shared.draining || response.close) session.close_after_answer();
    const auto idle = std::chrono::duration_cast<std::chrono::seconds>(shared.limits.idle).count();
    if (session.closing())
      response.set_header("Connection", "close");
    else if (idle > 0)  // clients take 0 for "close"
      response.set_header("Keep-Alive", "timeout=" + std::to_string(idle) +
                                            ", max=" + std::to_string(shared.limits.requests_a_connection));
  }

  std::string overloaded_;  // the whole answer to connections beyond the limits
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>> guard_, handshakes_guard_;
  std::vector<std::thread> threads_;
  bool ran_ = false;
};

HttpServer::HttpServer(const HttpLimits& limits) : impl_(std::make_unique<Impl>(limits)) {}

HttpServer::~HttpServer() {
  stop();
  impl_->finish();
}

void HttpServer::route(std::string method, std::string path, HttpHandler handler, Access access) {
  impl_->routes.add({std::move(method), std::move(path), std::move(handler), access == Access::open});
}
const std::vector<HttpRoutes::Route>& HttpServer::routes() const { return impl_->routes.all(); }
void HttpServer::set_error_body(ErrorBody body) { impl_->error_body = std::move(body); }
void HttpServer::set_head_check(HeadCheck check) { impl_->head_check = std::move(check); }
void HttpServer::set_answer_hook(AnswerHook hook) { impl_->answer_hook = std::move(hook); }

bool HttpServer::bind(const std::string& host, int port) {
  if (impl_->tcp_.acceptor) return false;
  error_code error;
  tcp::resolver resolver(impl_->shared.io);
  const auto found = resolver.resolve(host, std::to_string(port), tcp::resolver::passive, error);
  const bool listens = !error && std::any_of(found.begin(), found.end(), [this](const auto& each) {
    return impl_->listen(impl_->tcp_, each.endpoint());
  });
  if (listens) impl_->port_ = impl_->tcp_.acceptor->local_endpoint(error).port();
  return listens;
}

bool HttpServer::bind_unix(const std::filesystem::path& path) {
  error_code error;
  if (path.string().size() >= 108) return false;  // sockaddr_un has room for 108 bytes with the NUL
  Unix::socket probe(impl_->shared.io);
  probe.open(Unix(), error);
  if (!error) probe.non_blocking(true, error);  // the queue of a busy server may be full
  if (!error) probe.connect(Unix::endpoint(path.string()), error);
  std::error_code ignored;
  if (error == asio::error::connection_refused && std::filesystem::is_socket(path, ignored)) ::unlink(path.c_str());
  if (!impl_->listen(impl_->unix_, Unix::endpoint(path.string()))) return false;
  impl_->unix_file_.emplace(path);
  return true;
}

int HttpServer::port() const { return impl_->port_; }

void HttpServer::use_tls(const std::filesystem::path& certificate, const std::filesystem::path& key) {
  auto context = context_of(certificate, key);
  std::lock_guard lock(impl_->tls_mutex_);
  impl_->tls_.swap(context);
}

void HttpServer::start() { impl_->start(); }
void HttpServer::run() { impl_->run(); }
void HttpServer::stop_accepting() { impl_->stop_accepting(); }
void HttpServer::stop() { impl_->stop(); }
int HttpServer::open_connections() const { return impl_->shared.open; }
int HttpServer::reading() const { return impl_->shared.reading; }
int HttpServer::idle() const { return impl_->shared.idle; }
std::uint64_t HttpServer::refused_connections() const { return impl_->shared.refused; }

}  // namespace serve
