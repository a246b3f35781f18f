// The event thread: it owns all connections, and reads them, keeps them between requests and finishes answers whose
// readers are slow, without ever waiting for one of them. Only whole requests get a thread of the pool. So a client
// that sends or reads slowly costs a descriptor and what it has sent, and no thread.
#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "serve/http/connection.h"
#include "serve/http/http_lingering.h"
#include "serve/http/http_refusal.h"
#include "serve/http/http_request.h"
#include "serve/http/http_workers.h"

namespace serve {

class HttpLoop {
 public:
  struct Callbacks {
    // False: the answer was cut. Refusals with 503 are written on the event thread, where nothing may wait; all else on
    // a thread of the pool.
    std::function<bool(Connection&, HttpRequest&, const HttpRefusal&)> answer;
    // Asked on the event thread about heads that announce a body, of which a refused one is not read.
    std::function<HttpAdmission(const HttpHead&)> admit;
  };

  // Starts all threads: tenon::Error capacity where the system refuses one. `overloaded`: the whole answer to
  // connections beyond the limits. Once constructed, it owns the listener.
  HttpLoop(int listener, const HttpLimits& limits, HttpState& state, Callbacks callbacks, std::string overloaded,
           std::atomic<std::uint64_t>& refused);
  ~HttpLoop();
  HttpLoop(const HttpLoop&) = delete;
  HttpLoop& operator=(const HttpLoop&) = delete;

  void run();  // until stop, or drain and the end of all connections; all answers have ended then

 private:
  enum class Phase { idle, head, body, answering, rest };
  struct Client {
    Client(int socket, const HttpLimits& limits, HttpState& state)
        : fd(socket), connection(socket, limits, state), requests_left(limits.requests_a_connection) {}
    const int fd;
    Connection connection;
    std::optional<HttpRequestReader> reader;  // of the current request
    Phase phase = Phase::idle;
    HttpClock::time_point deadline = HttpClock::time_point::max();  // max: not in deadlines_
    HttpClock::time_point idle_from{};                              // may make room for others since then
    HttpClock::time_point rest_end{};
    int in_flight = 0;  // of the rest, when there was progress last
    int requests_left;
    std::size_t body_bytes = 0;  // that its head may have
    std::size_t counted = 0;     // of request_bytes_
    bool whole = false;          // the answer went out, or is kept
    bool unheard = false;        // the server stopped first

    bool is_read() const { return phase == Phase::idle || phase == Phase::head || phase == Phase::body; }
  };
  using Moments = std::set<std::pair<HttpClock::time_point, int>>;

  bool watch(int fd);
  bool arm(Client& client, unsigned events, int operation);
  void step();
  void close_listener();
  void accept_waiting();
  bool add(int socket);
  bool shed_one();

  void on_event(Client& client);
  void on_readable(Client& client);
  void advance(Client& client);
  HttpRefusal check(Client& client) const;
  bool count_body(Client& client);
  void invite(Client& client);
  void hand_over(Client& client, HttpRefusal refusal);
  void answer_on_thread(Client& client, HttpRefusal refusal);
  void take_back();
  void after_answer(Client& client);
  void go_on_with_rest(Client& client);
  void wait_for_reader(Client& client);
  void next_request(Client& client);

  void enter(Client& client, Phase phase, HttpClock::time_point deadline);
  void leave(Client& client);
  void expire();
  void expire(Client& client);
  void expire_rest(Client& client);
  void close_idle();
  void end();
  void refuse(Client& client, const char* why);
  void refuse(int socket);
  void linger(Client& client);
  void drop(Client& client);
  int timeout() const;

  int listener_;  // -1: closed
  const HttpLimits& limits_;
  HttpState& state_;
  const Callbacks callbacks_;
  const std::string overloaded_;
  std::atomic<std::uint64_t>& refused_;

  int epoll_;
  HttpEvent bell_;  // rung when returned_ has some
  std::mutex mutex_;
  std::vector<int> returned_;  // guarded; clients whose answers ended

  // The event thread's own; clients whose phase is `answering` are the pool's.
  std::unordered_map<int, Client> clients_;
  Moments deadlines_;
  Moments idle_;  // by idle_from
  std::size_t request_bytes_ = 0;
  std::vector<int> taken_;                                             // was returned_
  HttpClock::time_point accept_again_ = HttpClock::time_point::max();  // max: no pause
  HttpClock::time_point now_{};
  HttpLingering lingering_;
  HttpWorkers workers_;  // last: its jobs use all of the above
};

}  // namespace serve
