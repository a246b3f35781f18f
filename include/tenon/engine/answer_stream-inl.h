#pragma once
#include <chrono>
#include <iterator>
#include <limits>

#include "tenon/core/error.h"
#include "tenon/core/require.h"
#include "tenon/engine/answer_stream.h"

namespace tenon {

TENON_INLINE AnswerStream& AnswerStream::operator=(AnswerStream&& other) noexcept {
  if (this == &other) return *this;
  drop();
  inbox_ = std::move(other.inbox_);
  answer_ = std::move(other.answer_);
  ended_ = other.ended_;
  reason_ = other.reason_;
  return *this;
}

TENON_INLINE void AnswerStream::cancel() {
  inbox_->refuse_child();
  answer_->cancel();
  inbox_->post(answer_);
}

TENON_INLINE void AnswerStream::detach() {
  inbox_->refuse_child();
  detail::require(answer_->calls(), "detach", "needs a request with on_event: nobody would read the answer");
  answer_.reset();
  inbox_.reset();
}

TENON_INLINE AnswerStream::Iterator<Token> AnswerStream::begin() {
  detail::require(answer_->settings().choices == 1, "n", "several answers do not make one text; read events()");
  return Iterator<Token>(this);
}

TENON_INLINE Completion AnswerStream::wait() {
  Completion whole;
  while (const auto event = take(TimePoint::max(), std::numeric_limits<int>::max())) {
    whole.add(*event, answer_->settings().with_logprobs);
  }
  return whole;
}

TENON_INLINE std::optional<Event> AnswerStream::take(TimePoint until, int enough) {
  inbox_->refuse_child();
  if (ended_) return std::nullopt;
  detail::require(until == TimePoint::min() || !inbox_->on_service_thread(), "wait",
                  "would wait for its own thread; a callback may try_next()");
  detail::AnswerBuffer::Taken taken = answer_->take(until, static_cast<std::size_t>(enough));
  if (taken.wakes) inbox_->post(answer_);
  if (!taken.event && taken.ended) {  // the service had no memory to say so
    taken.event = Event{.kind = Event::Kind::error,
                        .request = id(),
                        .last = true,
                        .reason = FinishReason::error,
                        .error = "out of memory",
                        .error_kind = Error::Kind::capacity};
  }
  if (taken.event && taken.event->kind != Event::Kind::token) reason_ = taken.event->reason;
  ended_ = taken.event && taken.event->last;
  return std::move(taken.event);
}

TENON_INLINE bool AnswerStream::read(Event& event) {
  auto next = this->next();
  if (next) event = *std::move(next);
  return next.has_value();
}

TENON_INLINE bool AnswerStream::read(Token& token) {
  while (auto event = next()) {
    if (event->kind == Event::Kind::error) throw Error(event->error_kind, "answer", event->error);
    if (event->kind == Event::Kind::finished && event->text.empty()) continue;
    token = {event->token, std::move(event->text), event->logprob, std::move(event->top_logprobs)};
    return true;
  }
  return false;
}

TENON_INLINE void AnswerStream::drop() noexcept {
  if (!answer_) return;
  if (inbox_->in_child()) return detail::leak(std::pair(std::move(inbox_), std::move(answer_)));
  answer_->drop();
  if (!ended_) inbox_->post(answer_);
  answer_.reset();
  inbox_.reset();
}

}  // namespace tenon
