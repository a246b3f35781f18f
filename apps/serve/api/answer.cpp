#include "serve/api/answer.h"

#include <utility>

namespace serve {

void Answer::submit(tenon::Request request, tenon::SubmitOptions options) {
  const int first = choices_;
  choices_ += request.options.n;
  options.on_event = [inbox = inbox_, first](const tenon::Event& event) {
    tenon::Event own = event;
    own.choice += first;
    bool wakes = false;
    {
      std::lock_guard lock(inbox->mutex);
      inbox->ends |= own.last;
      inbox->events.push_back(std::move(own));
      wakes = inbox->due();
    }
    if (wakes) inbox->came.notify_one();
  };
  streams_.push_back(service_.submit(std::move(request), std::move(options)));
}

std::optional<tenon::Event> Answer::next_for(tenon::Clock::duration time, Wish wish) {
  if (ended()) return std::nullopt;
  if (taken_.empty()) {
    std::unique_lock lock(inbox_->mutex);
    inbox_->wish = wish;
    if (time > tenon::Clock::duration::zero()) inbox_->came.wait_for(lock, time, [&] { return inbox_->due(); });
    taken_.swap(inbox_->events);
    inbox_->ends = false;
  }
  if (taken_.empty()) return std::nullopt;
  tenon::Event event = std::move(taken_.front());
  taken_.pop_front();
  if (event.last) ++ended_;
  event.last = ended();
  return event;
}

void Answer::cancel() {
  for (tenon::AnswerStream& stream : streams_) stream.cancel();
}

}  // namespace serve
