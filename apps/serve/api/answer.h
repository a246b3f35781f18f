// What the engine writes to one request of HTTP: the events of all its prompts and choices, in the order they come.
#pragma once
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "tenon/core/request.h"
#include "tenon/engine/any_engine.h"
#include "tenon/engine/service.h"

namespace serve {

using Service = tenon::Service<tenon::AnyEngine>;

// One reader. Dropping it cancels what has not ended. Its events wait here, at most max_new_tokens for each choice: the
// engine never waits for a client.
class Answer {
 public:
  explicit Answer(Service& service) : service_(service), inbox_(std::make_shared<Inbox>()) {}

  // One more prompt, whose choices are numbered behind those of the prompts before it. Errors as Service::submit; what
  // was submitted before is cancelled with the answer.
  void submit(tenon::Request request, tenon::SubmitOptions options);

  // What a reader sleeps for: so many events, of which one came at that moment or later. Being woken takes time from
  // the engine's threads.
  struct Wish {
    std::size_t events = 1;
    tenon::TimePoint not_before{};
  };
  // Sleeps until then, or a choice's last event, or the time is over. Then the first of them; none where none came, or
  // all has ended. `last` is that of the whole answer.
  std::optional<tenon::Event> next_for(tenon::Clock::duration time, Wish wish);
  // The first prompt's request, in the service.
  tenon::RequestId id() const { return streams_.front().id(); }
  bool ended() const { return ended_ == streams_.size(); }

  // What has been written stands; the ends still come.
  void cancel();

 private:
  // The service's thread puts, the reader takes.
  struct Inbox {
    std::mutex mutex;
    std::condition_variable came;
    std::deque<tenon::Event> events;
    Wish wish;          // of the reader
    bool ends = false;  // a last one is among the events

    bool due() const { return ends || (events.size() >= wish.events && events.back().came >= wish.not_before); }
  };

  Service& service_;
  std::shared_ptr<Inbox> inbox_;
  std::deque<tenon::Event> taken_;  // out of the inbox, and not yet read
  std::vector<tenon::AnswerStream> streams_;
  int choices_ = 0;
  std::size_t ended_ = 0;
};

}  // namespace serve
