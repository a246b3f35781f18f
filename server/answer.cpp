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
  std::unique_lock lock(inbox_->mutex);
  inbox_->came.wait_for(lock, time, [&] { return !inbox_->events.empty(); });
  if (inbox_->events.empty()) return std::nullopt;
  tenon::Event event = std::move(inbox_->events.front());
  inbox_->events.pop_front();
  if (event.last) ++ended_;
  event.last = ended();
  return event;
}

void Answer::cancel() {
  for (tenon::AnswerStream& stream : streams_) stream.cancel();
}

}  // namespace serve
