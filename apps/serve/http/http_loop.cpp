#include "serve/http/http_loop.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <system_error>
#include <utility>

namespace serve {
namespace {

constexpr int kAcceptsAtOnce = 64;  // then the others' turn
constexpr int kReadsAtOnce = 4;
constexpr unsigned kRead = EPOLLIN | EPOLLONESHOT;  // oneshot: silent while a thread of the pool owns the connection
constexpr unsigned kWrite = EPOLLOUT | EPOLLONESHOT;
// A connection that was just accepted is not idle: its request is on its way, at least for so long.
constexpr std::chrono::milliseconds kFirstRequest{250};
// No descriptors or no memory: that passes when connections close.
constexpr std::chrono::milliseconds kAcceptPause{10};
constexpr auto kNever = HttpClock::time_point::max();

constexpr const char* kManyRequests = "too many requests at once";
constexpr const char* kManyBytes = "the bodies of all requests together are larger than this server holds";
constexpr const char* kEnding = "the server is going down";

}  // namespace

HttpLoop::HttpLoop(int listener, const HttpLimits& limits, HttpState& state, Callbacks callbacks,
                   std::string overloaded, std::atomic<std::uint64_t>& refused)
    : listener_(listener),
      limits_(limits),
      state_(state),
      callbacks_(std::move(callbacks)),
      overloaded_(std::move(overloaded)),
      refused_(refused),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      workers_(limits.threads) {
  const auto most = static_cast<std::size_t>(limits.connections);
  returned_.reserve(most);  // giving a client back then never throws
  taken_.reserve(most);
  clients_.reserve(most);
  for (const int fd : {listener_, bell_.fd(), state_.drain.fd(), state_.stop.fd()}) {
    if (!watch(fd)) throw std::system_error(errno, std::generic_category(), "epoll");
  }
}

HttpLoop::~HttpLoop() {
  ::close(epoll_);
  if (listener_ >= 0) ::close(listener_);
}

bool HttpLoop::watch(int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  return ::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) == 0;
}

bool HttpLoop::arm(Client& client, unsigned events, int operation) {
  epoll_event event{};
  event.events = events;
  event.data.fd = client.fd;
  return ::epoll_ctl(epoll_, operation, client.fd, &event) == 0;
}

void HttpLoop::run() {
  now_ = HttpClock::now();
  while (!state_.stopping && (!state_.draining || !clients_.empty())) {
    if (state_.draining && listener_ >= 0) close_listener();
    if (!state_.draining || !clients_.empty()) step();
  }
  end();
}

void HttpLoop::step() {
  std::array<epoll_event, 256> events;
  const int count = ::epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), timeout());
  now_ = HttpClock::now();
  bool knocked = false, rung = false;
  for (int i = 0; i < count; ++i) {
    const int fd = events[static_cast<std::size_t>(i)].data.fd;
    knocked |= fd == listener_;
    rung |= fd == bell_.fd();
    const auto found = clients_.find(fd);
    if (found != clients_.end()) on_event(found->second);
  }
  if (rung) take_back();
  expire();
  // Last, so that a number that is free again is not a new connection among the events.
  if (knocked && !state_.draining) accept_waiting();
}

int HttpLoop::timeout() const {
  auto first = deadlines_.empty() ? kNever : deadlines_.begin()->first;
  first = std::min(first, accept_again_);
  if (first == kNever) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(first - HttpClock::now()).count();
  return static_cast<int>(std::clamp<decltype(left)>(left, 0, 1'000'000));
}

void HttpLoop::close_listener() {
  ::close(std::exchange(listener_, -1));
  ::epoll_ctl(epoll_, EPOLL_CTL_DEL, state_.drain.fd(), nullptr);  // it would wake us for good
  accept_again_ = kNever;
  close_idle();
}

void HttpLoop::accept_waiting() {
  for (int i = 0; i < kAcceptsAtOnce; ++i) {
    const int socket = ::accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (socket >= 0) {
      if (!add(socket)) refuse(socket);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return;
    } else if (errno != EINTR && errno != ECONNABORTED && !shed_one()) {
      ::epoll_ctl(epoll_, EPOLL_CTL_DEL, listener_, nullptr);
      accept_again_ = now_ + kAcceptPause;
      return;
    }
  }
}

bool HttpLoop::add(int socket) {
  if (clients_.size() >= static_cast<std::size_t>(limits_.connections) && !shed_one()) return false;
  Client* client = nullptr;
  try {
    client = &clients_.try_emplace(socket, socket, limits_, state_).first->second;
    client->idle_from = now_ + kFirstRequest;
    enter(*client, Phase::idle, now_ + limits_.header_read);
  } catch (const std::bad_alloc&) {
    if (client) drop(*client);
    return client;
  }
  state_.open = static_cast<int>(clients_.size());
  if (!arm(*client, kRead, EPOLL_CTL_ADD)) drop(*client);
  return true;
}

// The connection that has been idle longest makes room, unless its request came just now. False: none is idle.
bool HttpLoop::shed_one() {
  while (!idle_.empty() && idle_.begin()->first <= now_) {
    Client& client = clients_.at(idle_.begin()->second);
    const std::size_t before = clients_.size();
    expire(client);
    if (clients_.size() < before) return true;
  }
  return false;
}

void HttpLoop::on_event(Client& client) {
  try {
    if (client.phase == Phase::rest)
      go_on_with_rest(client);
    else if (client.phase != Phase::answering)
      on_readable(client);
  } catch (const std::bad_alloc&) {
    drop(client);
  }
}

void HttpLoop::on_readable(Client& client) {
  const int fd = client.fd;
  for (int i = 0; i < kReadsAtOnce; ++i) {
    const auto fill = client.connection.fill();
    if (fill == Connection::Fill::ended) return drop(client);
    if (fill == Connection::Fill::nothing) break;
    advance(client);
    const auto found = clients_.find(fd);
    if (found == clients_.end() || !found->second.is_read()) return;
  }
  if (!arm(client, kRead, EPOLL_CTL_MOD)) drop(client);
}

// Looks at what was received. The client may be gone afterwards, or the pool's, or one that reads an answer.
void HttpLoop::advance(Client& client) {
  if (client.phase == Phase::idle) {
    client.connection.begin_request();
    client.reader.emplace(limits_);
    enter(client, Phase::head, now_ + limits_.header_read);
  }
  const int status = client.reader->feed(client.connection.received());
  if (const HttpRefusal refusal = check(client)) return hand_over(client, refusal);
  if (status) return hand_over(client, {status});
  if (!count_body(client)) return refuse(client, kManyBytes);
  if (client.reader->complete()) return hand_over(client, {});
  if (client.phase == Phase::head && client.reader->has_head()) {
    enter(client, Phase::body, now_ + limits_.body_read);
    invite(client);
  }
}

// Whether its head may have the body that it announces, and what has come of that.
HttpRefusal HttpLoop::check(Client& client) const {
  const HttpRequest& request = client.reader->request();
  if (!client.reader->has_head() || !request.head.announces_body()) return {};
  if (client.phase == Phase::head) {  // only now is it there
    const HttpAdmission admission = callbacks_.admit(request.head);
    if (admission.refusal) return admission.refusal;
    client.body_bytes = admission.body_bytes;
  }
  return std::max(request.head.length, request.body.size()) > client.body_bytes ? HttpRefusal{413} : HttpRefusal{};
}

// False: all clients together have sent more than the server holds.
bool HttpLoop::count_body(Client& client) {
  constexpr std::size_t kNothing = 64;  // a string keeps so many in itself
  std::size_t bytes = client.reader ? client.reader->request().body.capacity() : 0;
  if (bytes < kNothing) bytes = 0;
  const bool more = bytes > client.counted;
  request_bytes_ += bytes - client.counted;
  client.counted = bytes;
  return !more || request_bytes_ <= limits_.request_bytes;
}

void HttpLoop::invite(Client& client) {
  // A client that has begun needs no invitation; nor does one whose socket is full, as it may begin without.
  if (!client.reader->request().head.expects_continue || !client.connection.received().empty()) return;
  if (!client.reader->request().body.empty()) return;
  client.connection.send_at_once("HTTP/1.1 100 Continue\r\n\r\n");
}

// ---------------------------------------------------------------- answering

void HttpLoop::hand_over(Client& client, HttpRefusal refusal) {
  if (state_.busy >= limits_.threads + limits_.waiting) return refuse(client, kManyRequests);
  std::string& received = client.connection.received();
  if (received.empty()) std::string().swap(received);
  if (--client.requests_left == 0) client.connection.close_after_answer();
  enter(client, Phase::answering, kNever);
  ++state_.busy;
  try {
    workers_.enqueue([this, &client, refusal] { answer_on_thread(client, refusal); });
  } catch (const std::bad_alloc&) {
    --state_.busy;
    refuse(client, kManyRequests);
  }
}

void HttpLoop::answer_on_thread(Client& client, HttpRefusal refusal) {
  client.unheard = state_.stopping;
  client.whole = !client.unheard && callbacks_.answer(client.connection, client.reader->request(), refusal);
  --state_.busy;
  bool first = false;
  {
    std::lock_guard lock(mutex_);
    first = returned_.empty();
    returned_.push_back(client.fd);
  }
  if (first) bell_.signal();
}

void HttpLoop::take_back() {
  while (bell_.take()) {
  }
  taken_.clear();
  {
    std::lock_guard lock(mutex_);
    taken_.swap(returned_);
  }
  for (const int fd : taken_) {
    Client& client = clients_.at(fd);
    try {
      after_answer(client);
    } catch (const std::bad_alloc&) {
      drop(client);
    }
  }
}

void HttpLoop::after_answer(Client& client) {
  if (std::exchange(client.unheard, false)) return refuse(client, kEnding);
  client.reader.reset();
  count_body(client);
  if (!client.whole || client.connection.broken()) return drop(client);
  if (!client.connection.has_rest()) return next_request(client);
  client.rest_end = now_ + limits_.write_total_of(client.connection.rest_size());
  wait_for_reader(client);
  if (!arm(client, kWrite, EPOLL_CTL_MOD)) drop(client);
}

void HttpLoop::wait_for_reader(Client& client) {
  client.in_flight = client.connection.in_flight();
  enter(client, Phase::rest, std::min(now_ + limits_.write, client.rest_end));
}

void HttpLoop::go_on_with_rest(Client& client) {
  const bool progress = client.connection.send_rest();
  if (client.connection.broken()) return drop(client);
  if (!client.connection.has_rest()) return next_request(client);
  if (progress) wait_for_reader(client);
  if (!arm(client, kWrite, EPOLL_CTL_MOD)) drop(client);
}

void HttpLoop::next_request(Client& client) {
  if (client.connection.closing() || state_.draining) return linger(client);
  client.idle_from = now_;
  enter(client, Phase::idle, now_ + limits_.idle);
  const int fd = client.fd;
  if (!client.connection.received().empty()) {
    advance(client);
    const auto found = clients_.find(fd);
    if (found == clients_.end() || !client.is_read()) return;
  }
  if (!arm(client, kRead, EPOLL_CTL_MOD)) drop(client);
}

// ---------------------------------------------------------------- ends

// The one place where a phase or a deadline changes.
void HttpLoop::enter(Client& client, Phase phase, HttpClock::time_point deadline) {
  leave(client);
  client.phase = phase;
  if (phase == Phase::head || phase == Phase::body) ++state_.reading;
  if (phase == Phase::idle) state_.idle += idle_.insert({client.idle_from, client.fd}).second;
  if (deadline == kNever) return;
  deadlines_.insert({deadline, client.fd});
  client.deadline = deadline;
}

void HttpLoop::leave(Client& client) {
  if (client.phase == Phase::head || client.phase == Phase::body) --state_.reading;
  if (client.phase == Phase::idle) state_.idle -= static_cast<int>(idle_.erase({client.idle_from, client.fd}));
  if (client.deadline != kNever) deadlines_.erase({std::exchange(client.deadline, kNever), client.fd});
}

void HttpLoop::expire() {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now_) {
    Client& client = clients_.at(deadlines_.begin()->second);
    try {
      expire(client);
    } catch (const std::bad_alloc&) {
      drop(client);
    }
  }
  if (accept_again_ > now_) return;
  accept_again_ = watch(listener_) ? kNever : now_ + kAcceptPause;
}

void HttpLoop::expire(Client& client) {
  if (client.phase == Phase::rest) return expire_rest(client);
  if (client.phase != Phase::idle) return hand_over(client, {408});
  const int fd = client.fd;
  on_event(client);  // its request may be there since a moment
  const auto found = clients_.find(fd);
  if (found != clients_.end() && found->second.phase == Phase::idle) drop(found->second);
}

// A socket is not writable before a third of its buffer is free, which may be more than a slow reader takes in time.
void HttpLoop::expire_rest(Client& client) {
  if (now_ < client.rest_end && client.connection.in_flight() < client.in_flight) return wait_for_reader(client);
  client.connection.cut();
  drop(client);
}

// Where there is no memory for it, they close by themselves.
void HttpLoop::close_idle() try {
  for (const auto& [since, fd] : Moments(idle_)) {
    Client& client = clients_.at(fd);
    if (since <= now_)
      expire(client);
    else
      enter(client, Phase::idle, std::min(since, client.deadline));
  }
} catch (const std::bad_alloc&) {
}

void HttpLoop::end() {
  if (listener_ >= 0) close_listener();
  const auto each = [this](auto&& act) {
    for (auto next = clients_.begin(); next != clients_.end();) {
      Client& client = (next++)->second;
      try {
        act(client);
      } catch (const std::bad_alloc&) {
        drop(client);
      }
    }
  };
  each([this](Client& client) {
    if (client.phase == Phase::answering) return;
    if (client.phase == Phase::head || client.phase == Phase::body) return refuse(client, kEnding);
    if (client.phase == Phase::rest) client.connection.cut();
    drop(client);
  });
  workers_.finish();
  each([this](Client& client) {
    if (std::exchange(client.unheard, false)) return refuse(client, kEnding);
    if (client.connection.has_rest()) client.connection.cut();
    if (client.whole) return linger(client);
    drop(client);
  });
}

// Never waits. A new socket's buffer takes the answer whole.
void HttpLoop::refuse(int socket) {
  ++refused_;
  [[maybe_unused]] const auto sent =
      ::send(socket, overloaded_.data(), overloaded_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  lingering_.close_softly(socket);
}

// On this thread, as there is no other for it. It does not wait either.
void HttpLoop::refuse(Client& client, const char* why) {
  ++refused_;
  client.whole = callbacks_.answer(client.connection, client.reader->request(), {503, why});
  after_answer(client);
}

void HttpLoop::linger(Client& client) {
  ::epoll_ctl(epoll_, EPOLL_CTL_DEL, client.fd, nullptr);
  if (!client.connection.broken()) lingering_.close_softly(client.connection.release());
  drop(client);
}

void HttpLoop::drop(Client& client) {
  leave(client);
  request_bytes_ -= client.counted;
  clients_.erase(clients_.find(client.fd));
  state_.open = static_cast<int>(clients_.size());
}

}  // namespace serve
