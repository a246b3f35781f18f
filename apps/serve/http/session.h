// One connection: its requests, its deadlines, and what its reader has not taken yet. The event thread owns it. A
// thread of the pool answers a complete request, and may write meanwhile.
#pragma once
#include <array>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <unordered_set>
#include <utility>

#include "serve/http/channel.h"
#include "serve/http/parser.h"

namespace serve {

class HttpSession;

/// State that all sessions of a server share. Members without a comment belong to the event thread.
struct HttpShared {
  explicit HttpShared(const HttpLimits& all) : limits(all) {}

  const HttpLimits limits;
  std::function<HttpAdmission(const HttpRequest&)> admit;  ///< asked about heads that announce a body
  /// Answers on the calling thread. False: the answer was cut. Must not wait for a refusal with 503.
  std::function<bool(HttpSession&, HttpRequest&)> answer;
  std::atomic<int> open{0}, reading{0}, idle{0}, busy{0};  ///< any thread; busy: requests with a thread or waiting
  std::atomic<std::size_t> kept{0};                        ///< any thread; bytes of answers that wait for readers
  std::atomic<bool> draining{false}, stopping{false};      ///< any thread
  std::atomic<std::uint64_t> refused{0};                   ///< any thread
  /// Of the event thread, of the threads that answer, and of the one that does TLS handshakes.
  asio::io_context io{1}, jobs, handshakes{1};
  std::array<char, 64 << 10> scratch{};
  std::unordered_set<std::shared_ptr<HttpSession>> sessions;
  std::set<std::pair<HttpClock::time_point, HttpSession*>> idle_since;  ///< they make room for others
  std::size_t request_bytes = 0;
  int lingering = 0;

  bool shed_one();  ///< closes the connection that has been idle longest; false: none is idle
};

class HttpSession final : public HttpPeer, public std::enable_shared_from_this<HttpSession> {
 public:
  HttpSession(HttpShared& shared, std::unique_ptr<HttpChannel> channel);

  // ---- event thread. None throws: where there is no memory the connection ends.
  void begin();
  void expire();    ///< its deadline has passed
  void end_idle();  ///< the server drains
  void stop();      ///< the server stops; a thread may still answer
  void close();     ///< that thread has ended
  void refuse_connection(std::string_view answer);

  // ---- the thread that answers
  void put(std::string_view bytes);    ///< never waits: what the socket does not take is kept
  bool write(std::string_view bytes);  ///< waits for the reader; false: it is gone or too slow
  void close_after_answer() { closing_ = true; }
  bool closing() const { return closing_; }
  bool broken() const;
  bool gone() const override;
  std::string address() const override;

 private:
  enum class Phase { idle, head, body, answering, rest, lingering, closed };

  template <class Act>
  auto guarded(Act act);
  void expire_now();
  bool is_read() const { return phase_ == Phase::idle || phase_ == Phase::head || phase_ == Phase::body; }
  void enter(Phase phase, HttpClock::time_point deadline);
  void wait_until(HttpClock::time_point deadline);
  void read();
  void advance();
  HttpRefusal check();
  bool count_body();
  void send_continue();
  void hand_over(HttpRefusal refusal);
  void enter_answering();
  void answer_on_thread();
  void refuse(const char* why);
  void after_answer();
  void flush();
  void on_written(error_code error, std::size_t count);
  void on_drained();
  int in_flight() const;
  void break_off();
  void next_request();
  void linger();
  void discard(std::size_t left);
  void drop();

  HttpShared& shared_;
  std::unique_ptr<HttpChannel> channel_;
  asio::steady_timer timer_;
  Phase phase_ = Phase::rest;
  HttpClock::time_point deadline_{}, idle_from_{}, received_at_{}, arrival_{};
  std::string received_;
  std::unique_ptr<HttpParser> parser_;  // of the current request
  int requests_left_;
  std::size_t body_bytes_ = 0, counted_ = 0;  // that its head may have; of request_bytes
  bool reading_ = false;                      // a read is under way
  bool closing_ = false;
  bool away_ = false;                     // a thread answers, or waits to
  bool whole_ = false, unheard_ = false;  // the answer went out, or is kept; the server stopped first
  int in_flight_ = 0;                     // when there was progress last

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable room_;
  std::string kept_, sending_;  // waits for sending_, which is being written
  std::size_t sent_ = 0;        // of sending_
  bool flushing_ = false, broken_ = false;
  HttpClock::time_point write_end_{};
};

}  // namespace serve
