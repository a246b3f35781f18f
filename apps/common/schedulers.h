// Makes a scheduling policy from the words of a command line.
#pragma once
#include <chrono>
#include <limits>
#include <string_view>

#include "tenon/schedule/any_scheduler.h"
#include "tenon/schedule/continuous.h"
#include "tenon/schedule/fair.h"
#include "tenon/schedule/sequential.h"
#include "tenon/schedule/static.h"

namespace program {

struct SchedulerOptions {
  int batch = 32;
  int guests = 0;                                      // used by the fair scheduler
  int token_budget = std::numeric_limits<int>::max();  // not used by the static scheduler
  int max_wait_ms = 50;                                // used by the static scheduler
  tenon::Order order = tenon::Order::arrival;          // used by the continuous scheduler
  std::chrono::milliseconds patience = std::chrono::seconds(30);
};

// `word`: one of words::scheduler.
inline tenon::AnyScheduler make_scheduler(std::string_view word, const SchedulerOptions& o) {
  if (word == "sequential") return tenon::SequentialPolicy{};
  if (word == "static") return tenon::StaticPolicy{.n = o.batch, .max_wait = std::chrono::milliseconds(o.max_wait_ms)};
  if (word == "fair") {
    return tenon::FairPolicy{
        .max_batch = o.batch, .guests = o.guests, .token_budget = o.token_budget, .patience = o.patience};
  }
  return tenon::ContinuousPolicy{
      .max_batch = o.batch, .token_budget = o.token_budget, .order = o.order, .patience = o.patience};
}

}  // namespace program
