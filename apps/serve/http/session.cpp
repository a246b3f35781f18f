#include "serve/http/session.h"

#include <arpa/inet.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <thread>

namespace serve {
namespace {

using namespace std::chrono_literals;

// A connection that was just accepted is not idle: its request is on its way, at least for this long.
constexpr auto kFirstRequest = 250ms;
constexpr auto kNever = HttpClock::time_point::max();
constexpr std::size_t kAhead = 64 << 10;          // bytes of a stream that may wait for the event thread
constexpr std::size_t kPiece = 1 << 20;           // of an answer, then it is another connection's turn
constexpr auto kLook = 50ms;                      // how often a writer that waits looks whether its client is there
constexpr int kMostLingering = 256;               // more are closed at once
constexpr auto kLongestLinger = 2s;               // reads on, since a reset can overtake the answer
constexpr std::size_t kMostDiscarded = 16 << 20;  // a client that sends a few MB without reading still gets its 413

constexpr const char* kManyRequests = "too many requests at once";
constexpr const char* kManyBytes = "the bodies of all requests together are larger than this server holds";
constexpr const char* kEnding = "the server is going down";

}  // namespace

bool HttpShared::shed_one() {
  while (!idle_since.empty() && idle_since.begin()->first <= HttpClock::now()) {
    const auto session = idle_since.begin()->second->shared_from_this();
    const int before = open;
    session->expire();
    if (open < before) return true;
  }
  return false;
}

HttpSession::HttpSession(HttpShared& shared, std::unique_ptr<HttpChannel> channel)
    : shared_(shared),
      channel_(std::move(channel)),
      timer_(shared.io),
      requests_left_(shared.limits.requests_a_connection) {}

// A handler that keeps the session alive, and ends it where memory runs out.
template <class Act>
auto HttpSession::guarded(Act act) {
  return [self = shared_from_this(), act = std::move(act)](auto&&... arguments) mutable {
    if (self->phase_ == Phase::closed) return;
    try {
      act(std::forward<decltype(arguments)>(arguments)...);
    } catch (const std::exception&) {
      self->away_ ? self->break_off() : self->drop();
    }
  };
}

void HttpSession::begin() {
  guarded([this] {
    const auto now = HttpClock::now();
    idle_from_ = now + kFirstRequest;
    shared_.open = static_cast<int>(shared_.sessions.size()) - shared_.lingering;
    enter(Phase::idle, now + shared_.limits.header_read);
    channel_->handshake(guarded([this](error_code error) { error ? drop() : read(); }));
  })();
}

// The one place where a phase changes.
void HttpSession::enter(Phase phase, HttpClock::time_point deadline) {
  if (phase_ == Phase::head || phase_ == Phase::body) --shared_.reading;
  if (phase_ == Phase::idle) shared_.idle -= static_cast<int>(shared_.idle_since.erase({idle_from_, this}));
  phase_ = phase;
  if (phase == Phase::head || phase == Phase::body) ++shared_.reading;
  if (phase == Phase::idle) shared_.idle += shared_.idle_since.insert({idle_from_, this}).second;
  wait_until(deadline);
}

void HttpSession::wait_until(HttpClock::time_point deadline) {
  deadline_ = deadline;
  timer_.expires_at(deadline);
  if (deadline == kNever) return;
  timer_.async_wait(guarded([this](error_code error) {
    if (!error && HttpClock::now() >= deadline_) expire_now();
  }));
}

void HttpSession::read() {
  if (reading_) return;
  reading_ = true;
  channel_->read_some(guarded([this](error_code error, std::string_view bytes) {
    reading_ = false;
    if (!error) {
      received_ += bytes;
      received_at_ = HttpClock::now();
    }
    if (!is_read()) return;  // the deadline came first
    if (error) return drop();
    advance();
    if (is_read()) read();
  }));
}

// Looks at what was received.
void HttpSession::advance() {
  const HttpLimits& limits = shared_.limits;
  const auto now = HttpClock::now();
  if (phase_ == Phase::idle) {
    arrival_ = received_at_;
    parser_ = std::make_unique<HttpParser>(limits);
    enter(Phase::head, now + limits.header_read);
  }
  const int status = parser_->feed(received_);
  if (const HttpRefusal refusal = check()) return hand_over(refusal);
  if (status) return hand_over({status});
  if (!count_body()) return refuse(kManyBytes);
  if (parser_->complete()) return hand_over({});
  if (phase_ == Phase::head && parser_->has_head()) {
    enter(Phase::body, now + limits.body_read);
    send_continue();
  }
}

// Whether its head may have the body that it announces, and what has come of that.
HttpRefusal HttpSession::check() {
  const HttpRequest& request = parser_->request();
  if (!parser_->has_head() || !request.announces_body()) return {};
  if (phase_ == Phase::head) {  // only now is it there
    const HttpAdmission admission = shared_.admit(request);
    if (admission.refusal) return admission.refusal;
    body_bytes_ = std::min(admission.body_bytes, shared_.limits.body_bytes);
    parser_->limit_body(body_bytes_);
  }
  return std::max(request.length, request.body.size()) > body_bytes_ ? HttpRefusal{413} : HttpRefusal{};
}

// False: all clients together have sent more than the server holds.
bool HttpSession::count_body() {
  constexpr std::size_t kNothing = 64;  // a string keeps this number of bytes in itself
  std::size_t bytes = parser_ ? parser_->request().body.capacity() : 0;
  if (bytes < kNothing) bytes = 0;
  const bool more = bytes > counted_;
  shared_.request_bytes += bytes - counted_;
  counted_ = bytes;
  return !more || shared_.request_bytes <= shared_.limits.request_bytes;
}

// A client that has begun needs no invitation; nor does one whose socket is full, as it may begin without.
void HttpSession::send_continue() {
  const HttpRequest& request = parser_->request();
  if (!request.expects_continue || !received_.empty() || !request.body.empty()) return;
  put("HTTP/1.1 100 Continue\r\n\r\n");
  flushing_ = true;
  flush();
}

// ---------------------------------------------------------------- answering

void HttpSession::hand_over(HttpRefusal refusal) {
  parser_->request().refusal = refusal;
  parser_->request().arrival = arrival_;
  parser_->request().peer = shared_from_this();
  if (shared_.busy >= shared_.limits.threads + shared_.limits.waiting) return refuse(kManyRequests);
  if (received_.empty()) std::string().swap(received_);
  if (--requests_left_ == 0) closing_ = true;
  enter_answering();
  ++shared_.busy;
  try {
    asio::post(shared_.jobs, [self = shared_from_this()] { self->answer_on_thread(); });
    away_ = true;
  } catch (const std::bad_alloc&) {
    --shared_.busy;
    refuse(kManyRequests);
  }
}

// A client that does not take `100 Continue` does not wait for ever.
void HttpSession::enter_answering() {
  std::unique_lock lock(mutex_);
  const bool flushes = flushing_;
  lock.unlock();
  enter(Phase::answering, flushes ? HttpClock::now() + shared_.limits.write : kNever);
}

void HttpSession::answer_on_thread() {
  unheard_ = shared_.stopping;
  whole_ = !unheard_ && shared_.answer(*this, parser_->request());
  --shared_.busy;
  for (;; std::this_thread::sleep_for(10ms)) {
    try {
      return asio::post(shared_.io, guarded([this] { after_answer(); }));
    } catch (const std::bad_alloc&) {  // others give some back
    }
  }
}

// On this thread, as there is no other for it. It does not wait either.
void HttpSession::refuse(const char* why) {
  ++shared_.refused;
  HttpRequest& request = parser_->request();
  request.refusal = {503, why};
  request.arrival = arrival_;
  request.peer = shared_from_this();
  enter_answering();
  whole_ = shared_.answer(*this, request);
  after_answer();
}

void HttpSession::after_answer() {
  away_ = false;
  if (std::exchange(unheard_, false)) return refuse(kEnding);
  parser_.reset();
  count_body();
  bool flushes = false;
  {
    std::lock_guard lock(mutex_);
    whole_ = whole_ && !broken_;
    flushes = !std::exchange(flushing_, true);
  }
  if (!whole_) return drop();
  enter(Phase::rest, deadline_);
  if (flushes) flush();
}

// ---------------------------------------------------------------- writing

void HttpSession::put(std::string_view bytes) {
  std::lock_guard lock(mutex_);
  write_end_ = std::max(write_end_, HttpClock::now() + shared_.limits.write_total_of(bytes.size()));
  error_code error;
  if (!broken_ && !flushing_ && kept_.empty()) bytes.remove_prefix(channel_->write_now(bytes, error));
  broken_ = broken_ || error;
  if (broken_ || bytes.empty()) return;
  broken_ = (shared_.kept += bytes.size()) > shared_.limits.answer_bytes;
  try {
    if (!broken_) kept_ += bytes;
  } catch (const std::bad_alloc&) {
    broken_ = true;
  }
  if (broken_) shared_.kept -= bytes.size();
}

bool HttpSession::write(std::string_view bytes) {
  put(bytes);
  std::unique_lock lock(mutex_);
  if (!broken_ && !kept_.empty() && !std::exchange(flushing_, true))
    asio::post(shared_.io, guarded([this] { flush(); }));
  const auto goes_on = [this] {
    return broken_ || shared_.stopping || kept_.size() + sending_.size() - sent_ <= kAhead;
  };
  while (!room_.wait_for(lock, kLook, goes_on)) {
    lock.unlock();
    if (gone()) break_off();
    lock.lock();
  }
  broken_ = broken_ || (shared_.stopping && !kept_.empty());
  return !broken_;
}

// Writes until nothing is kept. flushing_ is true.
void HttpSession::flush() {
  std::unique_lock lock(mutex_);
  if (sent_ == sending_.size()) {
    shared_.kept -= sending_.size();
    sent_ = 0;
    std::string().swap(sending_);
    sending_.swap(kept_);
  }
  // A writer may set flushing_ again, and post another flush(), as soon as the lock is gone.
  const bool flushes = flushing_ = !sending_.empty() && !broken_;
  room_.notify_all();
  const auto end = write_end_;
  lock.unlock();
  if (!flushes) return on_drained();
  in_flight_ = in_flight();
  if (!is_read()) wait_until(std::min(HttpClock::now() + shared_.limits.write, end));
  channel_->write_some(std::string_view(sending_).substr(sent_, kPiece),
                       guarded([this](error_code error, std::size_t count) { on_written(error, count); }));
}

void HttpSession::on_written(error_code error, std::size_t count) {
  {
    std::lock_guard lock(mutex_);
    sent_ += count;
    broken_ = broken_ || error;
  }
  flush();
}

void HttpSession::on_drained() {
  if (phase_ == Phase::answering) wait_until(kNever);
  if (phase_ != Phase::rest) return;
  broken() ? drop() : next_request();
}

bool HttpSession::broken() const {
  std::lock_guard lock(mutex_);
  return broken_;
}

// Bytes that the socket took and the client's did not.
int HttpSession::in_flight() const {
  int bytes = 0;
  return ::ioctl(channel_->socket().native_handle(), SIOCOUTQ, &bytes) == 0 ? bytes : 0;
}

// No byte follows. A write that waits on the socket ends with an error.
void HttpSession::break_off() {
  {
    std::lock_guard lock(mutex_);
    broken_ = true;
    room_.notify_all();
  }
  ::shutdown(channel_->socket().native_handle(), SHUT_RDWR);
}

bool HttpSession::gone() const {
  if (shared_.stopping || broken()) return true;
  // Unlike a read of 0 bytes, POLLRDHUP shows while unread bytes come first.
  pollfd fd{channel_->socket().native_handle(), POLLRDHUP, 0};
  return ::poll(&fd, 1, 0) > 0 && (fd.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) != 0;
}

std::string HttpSession::address() const {
  error_code error;
  const auto end = channel_->socket().remote_endpoint(error);
  std::array<char, INET6_ADDRSTRLEN> text{};
  const auto* const name = reinterpret_cast<const sockaddr*>(end.data());
  if (error || (name->sa_family != AF_INET && name->sa_family != AF_INET6)) return {};
  const void* const bytes = name->sa_family == AF_INET
                                ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in*>(name)->sin_addr)
                                : &reinterpret_cast<const sockaddr_in6*>(name)->sin6_addr;
  return ::inet_ntop(name->sa_family, bytes, text.data(), text.size()) ? text.data() : "";
}

// ---------------------------------------------------------------- ends

void HttpSession::next_request() {
  if (closing_ || shared_.draining) return linger();
  idle_from_ = HttpClock::now();
  enter(Phase::idle, idle_from_ + shared_.limits.idle);
  if (!received_.empty()) advance();
  if (is_read()) read();
}

void HttpSession::expire() {
  guarded([this] { expire_now(); })();
}

void HttpSession::expire_now() {
  const auto now = HttpClock::now();
  if (phase_ == Phase::head || phase_ == Phase::body) return hand_over({408});
  if (phase_ == Phase::answering || phase_ == Phase::rest) {
    // A socket is not writable before a third of its buffer is free, which may be more than a slow reader takes in
    // time.
    const int before = std::exchange(in_flight_, in_flight());
    std::unique_lock lock(mutex_);
    const auto end = write_end_;
    lock.unlock();
    if (now < end && in_flight_ < before) return wait_until(std::min(now + shared_.limits.write, end));
    break_off();
    if (phase_ == Phase::answering) return;
  }
  error_code error;
  if (phase_ != Phase::idle || channel_->socket().available(error) == 0) return drop();
  enter(Phase::rest, kNever);  // its request came just now: as idle as a new connection
  idle_from_ = now + kFirstRequest;
  enter(Phase::idle, idle_from_);
}

void HttpSession::end_idle() {
  if (phase_ != Phase::idle) return;
  if (idle_from_ <= HttpClock::now()) return expire();
  guarded([this] { wait_until(std::min(idle_from_, deadline_)); })();
}

void HttpSession::stop() {
  {
    std::lock_guard lock(mutex_);
    room_.notify_all();
  }
  if (phase_ == Phase::head || phase_ == Phase::body) return guarded([this] { refuse(kEnding); })();
  if (phase_ == Phase::rest) break_off();
  if (phase_ != Phase::answering) drop();
}

void HttpSession::close() {
  if (std::exchange(unheard_, false)) guarded([this] { refuse(kEnding); })();
  if (phase_ != Phase::closed && whole_) channel_->end_sending();
  drop();
}

void HttpSession::refuse_connection(std::string_view answer) {
  ++shared_.refused;
  guarded([this, answer] {
    phase_ = Phase::answering;
    put(answer);
    linger();
  })();
}

// Closes softly: the rest of what comes is discarded for a moment.
void HttpSession::linger() {
  if (shared_.lingering >= kMostLingering) return drop();
  ++shared_.lingering;
  enter(Phase::lingering, HttpClock::now() + kLongestLinger);
  shared_.open = static_cast<int>(shared_.sessions.size()) - shared_.lingering;
  channel_->say_end(guarded([this](error_code) { discard(kMostDiscarded); }));
}

void HttpSession::discard(std::size_t left) {
  channel_->socket().async_wait(HttpChannel::Socket::wait_read, guarded([this, left](error_code error) {
                                  std::size_t count = 0;
                                  if (!error)
                                    count = channel_->socket().read_some(asio::buffer(shared_.scratch), error);
                                  if (error == asio::error::would_block) return discard(left);
                                  if (error || count > left) return drop();
                                  discard(left - count);
                                }));
}

void HttpSession::drop() {
  if (phase_ == Phase::closed) return;
  const auto self = shared_from_this();
  if (phase_ == Phase::lingering) --shared_.lingering;
  enter(Phase::closed, kNever);
  parser_.reset();
  count_body();
  shared_.kept -= std::exchange(kept_, {}).size() + std::exchange(sending_, {}).size();
  error_code ignored;
  // Without a reset, bytes for a stalled client would stay in the kernel for minutes.
  if (broken()) channel_->socket().set_option(asio::socket_base::linger(true, 0), ignored);
  channel_->close();
  timer_.cancel();
  shared_.sessions.erase(self);
  shared_.open = static_cast<int>(shared_.sessions.size()) - shared_.lingering;
  if (shared_.draining && shared_.open == 0) shared_.io.stop();
}

}  // namespace serve
