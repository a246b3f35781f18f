// The last steps of an engine, for those who watch the batch at work.
#pragma once
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "tenon/engine/step_report.h"

namespace serve {

class StepHistory {
 public:
  static constexpr std::size_t kKept = 512;

  struct Row {
    int place;    // small, and a text's own as long as no step goes by without it
    int adapter;  // of a tenon::StepRow
    int tokens, prompt_tokens;
  };
  struct Step {
    std::uint64_t number = 0;
    double at_ms = 0, ms = 0;  // when it began, counted from the start; how long it took
    std::vector<Row> rows;     // by place
  };

  // The engine's thread.
  void add(const tenon::StepReport& report);

  // Any thread: those behind a number, the oldest first; and what the time is, as at_ms.
  std::vector<Step> behind(std::uint64_t number) const;
  std::uint64_t last() const;
  double now_ms() const { return milliseconds(tenon::Clock::now()); }

 private:
  double milliseconds(tenon::TimePoint time) const;
  void find_places(const tenon::StepReport& report);

  const tenon::TimePoint start_ = tenon::Clock::now();
  std::unordered_map<tenon::SeqId, int> places_;  // of the last step's texts
  std::vector<bool> taken_;                       // scratch, by place

  mutable std::mutex mutex_;  // guards what follows
  std::vector<Step> steps_;   // of which the oldest is overwritten
  std::size_t oldest_ = 0;
};

}  // namespace serve
