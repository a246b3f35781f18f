// best_of: a request writes more answers than it returns. The likeliest ones are returned when the last has ended.
#pragma once
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "tenon/core/request.h"

namespace tenon {

/// Buffers the events of all answers of a request with best_of > n.
class BestOf {
 public:
  explicit BestOf(const Options& options);

  void add(Event event);

  /// Passes the events of the n best answers to out(Event), the best as choice 0. Call it when all answers have ended.
  /// Answers that ended by length or stop come first, then answers cut short, then empty ones. Within each group the
  /// highest mean log-probability of a token comes first; ties keep the order of choices.
  template <class Out>
  void emit_best(Out&& out) {
    std::stable_sort(answers_.begin(), answers_.end(), [](const Buffered& a, const Buffered& b) {
      return std::pair(a.rank(), a.mean()) > std::pair(b.rank(), b.mean());
    });
    for (std::size_t rank = 0; rank < wanted_; ++rank) {
      for (Event& event : answers_[rank].events) {
        const bool ends = event.kind != Event::Kind::token;
        event.choice = static_cast<int>(rank);
        event.last = ends && rank + 1 == wanted_;
        event.scores = ends && rank == 0 ? scores_ : nullptr;
        if (!with_logprobs_) event.logprob = 0;
        out(std::move(event));
      }
    }
  }

 private:
  struct Buffered {
    std::vector<Event> events;
    double logprob = 0;
    int tokens = 0;
    double mean() const { return tokens == 0 ? 0 : logprob / tokens; }
    int rank() const;
  };

  std::size_t wanted_;
  bool with_logprobs_;
  std::vector<Buffered> answers_;  // [best_of]
  std::shared_ptr<const Scores> scores_;
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/engine/best_of-inl.h"
#endif
