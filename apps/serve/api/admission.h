// Who is served now. A request counts as one, as its sequences and as the tokens that they may compute. Beyond a limit
// a request is refused at once. A client that has nothing under way is let in beyond the limits of sequences and
// tokens, and to a few more places for requests. While others have requests under way, a client that has half of the
// places leaves the last quarter to them. So nobody can take all of them.
#pragma once
#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

namespace serve {

// Sequences (prompts x choices), and the tokens of their prompts and answers at most.
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

  explicit Admission(const Limits& limits) : limits_(limits) {}
  Admission(const Admission&) = delete;
  Admission& operator=(const Admission&) = delete;

  // A place, given back with its work when the ticket goes.
  class Ticket {
   public:
    Ticket(Admission& admission, int client, const Share& share)
        : admission_(&admission), client_(client), share_(share) {}
    Ticket(Ticket&& other) noexcept
        : admission_(std::exchange(other.admission_, nullptr)),
          client_(other.client_),
          share_(other.share_),
          work_(other.work_) {}
    Ticket& operator=(Ticket&&) = delete;
    ~Ticket() {
      if (admission_) admission_->leave(client_, work_);
    }

    // Once, when the request's work is known. False where it exceeds a limit, and the ticket stays as it is.
    bool take(const Work& work) {
      if (!admission_->add(client_, share_, work)) return false;
      work_ = work;
      return true;
    }

   private:
    Admission* admission_;
    int client_;
    Share share_;
    Work work_;
  };

  // None where all places are taken, or all of the client's share.
  std::optional<Ticket> enter(int client, const Share& share = {});

  int requests() const;  // under way, of all clients
  Work work() const;     // likewise

 private:
  struct Use {
    int requests = 0;
    Work work;
  };

  bool add(int client, const Share& share, const Work& work);
  void leave(int client, const Work& work) noexcept;

  const Limits limits_;
  mutable std::mutex mutex_;  // guards what follows
  Use all_;
  std::unordered_map<int, Use> clients_;  // those that have requests under way
};

}  // namespace serve
