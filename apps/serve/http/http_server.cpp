#include "serve/http/http_server.h"

#include <fcntl.h>
#include <strings.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <stdexcept>
#include <utility>

#include "serve/http/http_loop.h"

namespace serve {
namespace {

constexpr int kBacklog = 512;

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

// Headers that httplib must not see in a request: it keeps the addresses under these names, and would wait for a body,
// cut an answer into ranges, or spend the engine's processor time on compressing it.
bool is_hidden(const std::string& name) {
  for (const char* hidden : {"REMOTE_ADDR", "REMOTE_PORT", "LOCAL_ADDR", "LOCAL_PORT", "Expect", "Range",
                             "Accept-Encoding", "Transfer-Encoding"}) {
    if (::strcasecmp(name.c_str(), hidden) == 0) return true;
  }
  return false;
}

void set_only(httplib::Response& response, const char* name, const std::string& value) {
  response.headers.erase(name);
  response.set_header(name, value);
}

void clear(httplib::Response& response, int status) {
  response.status = status;
  response.headers.clear();
  response.body.clear();
  response.content_provider_ = nullptr;
  response.content_length_ = 0;
  response.is_chunked_content_provider_ = false;
}

using Adopt = std::function<void(httplib::Request&)>;

// httplib::Server::process_request before 0.18, which asks the stream for the addresses of both ends, and since then,
// when they are arguments. The type of the member decides which of the two is called.
[[maybe_unused]] bool process(bool (httplib::Server::*process_request)(httplib::Stream&, bool, bool&, const Adopt&),
                              httplib::Server& server, Connection& connection, const Adopt& adopt) {
  bool unused = false;
  return (server.*process_request)(connection, connection.closing(), unused, adopt);
}

[[maybe_unused]] bool process(bool (httplib::Server::*process_request)(httplib::Stream&, const std::string&, int,
                                                                       const std::string&, int, bool, bool&,
                                                                       const Adopt&),
                              httplib::Server& server, Connection& connection, const Adopt& adopt) {
  std::string remote, local;
  int remote_port = 0, local_port = 0;
  connection.get_remote_ip_and_port(remote, remote_port);
  connection.get_local_ip_and_port(local, local_port);
  bool unused = false;
  return (server.*process_request)(connection, remote, remote_port, local, local_port, connection.closing(), unused,
                                   adopt);
}

}  // namespace

// What this thread is answering.
struct HttpServer::Exchange {
  Connection& connection;
  HttpRequest& request;
  const HttpRefusal refusal;
  bool adopted = false;  // httplib has understood its target, too
  HttpRoutes::Match match{};
};

thread_local HttpServer::Exchange* HttpServer::exchange_ = nullptr;

HttpServer::HttpServer(const HttpLimits& limits) : limits_(checked(limits)) {
  keep_alive_max_count_ = static_cast<std::size_t>(limits_.requests_a_connection);
  keep_alive_timeout_sec_ = std::chrono::duration_cast<std::chrono::seconds>(limits_.idle).count();
  set_tcp_nodelay(true);
  // Without httplib's SO_REUSEPORT, with which two servers would share a port and each get half of the requests.
  set_socket_options([](socket_t socket) {
    const int yes = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  install_callbacks();
}

HttpServer::~HttpServer() {
  stop();
  std::lock_guard ended(running_);
  loop_.reset();
  if (listener_ >= 0) ::close(listener_);
}

void HttpServer::install_callbacks() {
  set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
    answer(request, response);
    return HandlerResponse::Handled;
  });
  set_exception_handler(
      [](const httplib::Request&, httplib::Response& response, std::exception_ptr) { clear(response, 500); });
  set_error_handler(HandlerWithResponse([this](const httplib::Request& request, httplib::Response& response) {
    fill_error(request, response);
    return HandlerResponse::Handled;
  }));
  set_post_routing_handler(
      [this](const httplib::Request& request, httplib::Response& response) { finish(request, response); });
}

void HttpServer::route(std::string method, std::string path, Handler handler, Access access) {
  routes_.add(std::move(method), std::move(path), std::move(handler), access == Access::open);
}

// Of a head that announces a body.
HttpAdmission HttpServer::admit(const HttpHead& head) const {
  const HttpRefusal refusal = head_check_ ? head_check_(head) : HttpRefusal{};
  if (!refusal) return {};
  const std::string path = head.target.substr(0, head.target.find_first_of("?#"));
  httplib::Match matches;
  if (!routes_.find(head.method, path, matches).open) return {.refusal = refusal};
  return {.body_bytes = kOpenBody};
}

bool HttpServer::bind(const std::string& host, int port) {
  if (listener_ >= 0) return false;
  port_ = port == 0 ? bind_to_any_port(host) : bind_to_port(host, port) ? port : -1;
  if (port_ <= 0) return false;
  listener_ = svr_sock_;
  // httplib's backlog is 5. Its accept loop is not used, as it ends at the first error of accept(), even a passing one.
  return ::listen(listener_, kBacklog) == 0 && ::fcntl(listener_, F_SETFL, O_NONBLOCK) == 0;
}

void HttpServer::start() {
  if (listener_ < 0 || loop_) return;
  const std::string body = error_body_ ? error_body_({503, "too many connections"}, "") : "{\"error\":\"overloaded\"}";
  const std::string overloaded =
      "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\nContent-Type: application/json\r\n"
      "Content-Length: " +
      std::to_string(body.size()) + "\r\n\r\n" + body;
  HttpLoop::Callbacks callbacks{
      .answer = [this](Connection& connection, HttpRequest& request,
                       const HttpRefusal& refusal) { return serve(connection, request, refusal); },
      .admit = [this](const HttpHead& head) { return admit(head); }};
  loop_ = std::make_unique<HttpLoop>(listener_, limits_, state_, std::move(callbacks), overloaded, refused_);
  listener_ = -1;  // the loop's
}

void HttpServer::run() {
  std::lock_guard running(running_);
  start();
  if (!loop_) return;
  loop_->run();
  loop_.reset();
}

void HttpServer::stop_accepting() {
  state_.draining = true;
  state_.drain.signal();
}

void HttpServer::stop() {
  state_.stopping = true;
  state_.stop.signal();
  stop_accepting();
  svr_sock_ = INVALID_SOCKET;  // a content provider is not called again
}

// Whether the answer went out, or is kept, whole.
bool HttpServer::serve(Connection& connection, HttpRequest& request, const HttpRefusal& refusal) {
  Exchange exchange{connection, request, refusal};
  const HttpHead& head = request.head;
  if (refusal || head.close || head.version_1_0) connection.close_after_answer();
  const struct Current {
    explicit Current(Exchange& e) { exchange_ = &e; }
    ~Current() { exchange_ = nullptr; }
  } current(exchange);
  try {
    // httplib parses the target only; adopt() gives it the rest.
    connection.present("GET " + (head.target.empty() ? "/" : head.target) +
                       (head.version_1_0 ? " HTTP/1.0\r\n\r\n" : " HTTP/1.1\r\n\r\n"));
    const bool whole = process(&HttpServer::process_request, static_cast<httplib::Server&>(*this), connection,
                               [this](httplib::Request& parsed) { adopt(parsed); });
    return whole && !connection.broken();
  } catch (...) {
    // A content provider threw in the middle of its answer. Cutting it is the only way left to tell the client.
    return false;
  }
}

void HttpServer::adopt(httplib::Request& request) const {
  Exchange& exchange = *exchange_;
  HttpHead& head = exchange.request.head;
  request.method = head.method;
  if (head.target.empty()) request.path.clear();
  for (auto& [name, value] : head.headers) {
    if (!is_hidden(name)) request.headers.emplace(name, std::move(value));
  }
  request.body = std::move(exchange.request.body);
  exchange.adopted = true;
  exchange.match = routes_.find(request.method, request.path, request.matches);
}

void HttpServer::answer(const httplib::Request& request, httplib::Response& response) const {
  const Exchange& exchange = *exchange_;
  if (exchange.refusal) {
    response.status = exchange.refusal.status;
    if (response.status == 503) response.set_header("Retry-After", "1");
  } else if (exchange.match.handler) {
    (*exchange.match.handler)(request, response);
  } else {
    response.status = exchange.match.allow.empty() ? 404 : 405;
    if (response.status == 405) response.set_header("Allow", exchange.match.allow);
  }
}

void HttpServer::fill_error(const httplib::Request& request, httplib::Response& response) const {
  if (!exchange_->adopted) exchange_->connection.close_after_answer();  // httplib did not like the target
  if (!response.body.empty() || response.content_provider_) return;
  const std::string body = error_body_ ? error_body_({response.status, exchange_->refusal.why}, request.path)
                                       : "{\"error\":\"HTTP " + std::to_string(response.status) + "\"}";
  set_only(response, "Content-Type", "application/json");
  response.body = body;
}

// Further connections would be refused.
bool HttpServer::is_crowded() const { return state_.open >= limits_.connections && state_.idle == 0; }

void HttpServer::finish(const httplib::Request& request, httplib::Response& response) const {
  Connection& connection = exchange_->connection;
  if (answer_hook_) answer_hook_(request, response);
  if (request.version == "HTTP/1.0" && response.is_chunked_content_provider_) {
    response.is_chunked_content_provider_ = false;  // these clients know no chunks: the end is the connection's
    response.headers.erase("Transfer-Encoding");
  }
  if (request.method == "HEAD") response.headers.erase("Accept-Ranges");
  if (response.content_provider_) connection.stream();
  // In a crowd nobody is kept, so that those who wait outside get in.
  if (is_crowded() || state_.draining) connection.close_after_answer();
  // In whole seconds it would be 0, which clients take for "close".
  if (connection.closing() || limits_.idle < std::chrono::seconds(1)) response.headers.erase("Keep-Alive");
  if (connection.closing()) set_only(response, "Connection", "close");
}

bool HttpServer::client_gone() { return exchange_ && exchange_->connection.gone(); }

void HttpServer::close_connection() {
  if (exchange_) exchange_->connection.close_after_answer();
}

std::string HttpServer::peer() {
  std::string address;
  int port = 0;
  if (exchange_) exchange_->connection.get_remote_ip_and_port(address, port);
  return address;
}

std::string HttpServer::route() { return exchange_ && exchange_->match.path ? *exchange_->match.path : ""; }

bool HttpServer::is_open_route() { return exchange_ && exchange_->match.open; }

HttpRefusal HttpServer::refusal() { return exchange_ ? exchange_->refusal : HttpRefusal{}; }

HttpClock::time_point HttpServer::arrival() { return exchange_ ? exchange_->connection.arrival() : HttpClock::now(); }

}  // namespace serve
