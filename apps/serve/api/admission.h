// Admission control of requests. Three limits apply: on requests, on their sequences, and on the tokens that they may
// compute. A request beyond a limit is refused at once. A client without an active request may exceed the limits of
// sequences and tokens, and may use `guests` further places. While others have active requests, a client that holds
// half of the places gets none of the last quarter. So no client can take all of them.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

#include "tenon/core/request.h"

namespace serve {

// The number of sequences (prompts x choices), and the most tokens of their prompts and answers.
struct Work {
  int sequences = 0;
  std::int64_t tokens = 0;
};

// The most that one client may have under way; 0: any number.
struct Share {
  std::int64_t requests = 0, tokens = 0;
};

class Admission {
 public:
  struct Limits {
    int requests = 64;
    int guests = 0;  // further requests, of clients that have none under way
    int sequences = 2048;
    std::int64_t tokens = 1 << 20;
  };

  using Now = std::function<tenon::TimePoint()>;

  explicit Admission(
      const Limits& limits, Now now = [] { return tenon::Clock::now(); })
      : limits_(limits), now_(std::move(now)) {}
  Admission(const Admission&) = delete;
  Admission& operator=(const Admission&) = delete;

  // A place, given back with its work when the ticket goes.
  class Ticket {
   public:
    Ticket(Admission& admission, int client, const Share& share, std::list<tenon::TimePoint>::iterator begin)
        : admission_(&admission), client_(client), share_(share), begin_(begin) {}
    Ticket(Ticket&& other) noexcept
        : admission_(std::exchange(other.admission_, nullptr)),
          client_(other.client_),
          share_(other.share_),
          begin_(other.begin_),
          work_(other.work_) {}
    Ticket& operator=(Ticket&&) = delete;
    ~Ticket() {
      if (admission_) admission_->leave(client_, work_, begin_);
    }

    // Call once, when the request's work is known. Returns false and changes nothing if it exceeds a limit.
    bool take(const Work& work) {
      if (!admission_->add(client_, share_, work)) return false;
      work_ = work;
      return true;
    }

   private:
    Admission* admission_;
    int client_;
    Share share_;
    std::list<tenon::TimePoint>::iterator begin_;
    Work work_;
  };

  // Empty if all places, or all of the client's share, are taken.
  std::optional<Ticket> enter(int client, const Share& share = {});

  // Call after a refusal: seconds, from 1 to 60, after which a place is expected to be free for this client. Clients
  // that are refused together get different places, and so different times.
  int retry_after();

  int requests() const;  // under way, of all clients
  Work work() const;     // likewise

 private:
  struct Use {
    int requests = 0;
    Work work;
  };

  bool add(int client, const Share& share, const Work& work);
  void leave(int client, const Work& work, std::list<tenon::TimePoint>::iterator begin) noexcept;

  const Limits limits_;
  const Now now_;
  mutable std::mutex mutex_;  // guards what follows
  Use all_;
  std::unordered_map<int, Use> clients_;         // those that have requests under way
  std::list<tenon::TimePoint> begins_;           // of the requests under way, in order
  std::chrono::duration<double> begins_sum_{0};  // since epoch_
  const tenon::TimePoint epoch_ = now_();
  std::chrono::duration<double> duration_ = kUnknownDuration;  // moving average of the requests that ended
  bool is_measured_ = false;
  tenon::TimePoint last_end_ = tenon::TimePoint::min();  // of a request
  tenon::TimePoint promised_{};  // when the place is free that the latest refused client was told

  static constexpr std::chrono::duration<double> kUnknownDuration{10};
};

}  // namespace serve
