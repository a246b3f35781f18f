#include "server/answer.h"

#include <utility>

namespace serve {

void Answer::submit(tenon::Request request, tenon::SubmitOptions options) {
  const int first = choices_;
  choices_ += request.options.n;
  options.on_event = [inbox = inbox_, first](const tenon::Event& event) {
    tenon::Event own = event;
    own.choice += first;
    {
      std::lock_guard lock(inbox->mutex);
      inbox->events.push_back(std::move(own));
    }
    inbox->came.notify_one();
  };
  streams_.push_back(service_.submit(std::move(request), std::move(options)));
}

std::optional<tenon::Event> Answer::next_for(tenon::Clock::duration time) {
  if (ended()) return std::nullopt;
  if (taken_.empty()) {
    std::unique_lock lock(inbox_->mutex);
    const auto some = [&] { return !inbox_->events.empty(); };
    if (!some() && time > tenon::Clock::duration::zero()) inbox_->came.wait_for(lock, time, some);
    taken_.swap(inbox_->events);
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
