#include "serve/page/step_history.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace serve {

void StepHistory::add(const tenon::StepReport& report) {
  find_places(report);
  std::lock_guard lock(mutex_);
  if (steps_.size() < kKept)
    steps_.emplace_back();
  else
    oldest_ = (oldest_ + 1) % kKept;
  Step& step = steps_[(oldest_ + steps_.size() - 1) % kKept];
  step.number = report.step;
  step.at_ms = milliseconds(report.begin);
  step.ms = milliseconds(report.end) - step.at_ms;
  step.rows.clear();
  for (const tenon::StepRow& row : report.rows) {
    step.rows.push_back({places_.at(row.seq), row.adapter, row.tokens, row.prompt_tokens});
  }
  std::sort(step.rows.begin(), step.rows.end(), [](const Row& a, const Row& b) { return a.place < b.place; });
}

// Whoever was there in the last step keeps its place; others get the first that are free.
void StepHistory::find_places(const tenon::StepReport& report) {
  std::unordered_map<tenon::SeqId, int> now;
  int most = -1;
  for (const tenon::StepRow& row : report.rows) {
    const auto found = places_.find(row.seq);
    if (found != places_.end()) most = std::max(most, now.insert(*found).first->second);
  }
  taken_.assign(static_cast<std::size_t>(most + 1) + report.rows.size(), false);
  for (const auto& [seq, place] : now) taken_[static_cast<std::size_t>(place)] = true;
  std::size_t place = 0;
  for (const tenon::StepRow& row : report.rows) {
    if (now.contains(row.seq)) continue;
    while (taken_[place]) ++place;
    now.emplace(row.seq, static_cast<int>(place));
    taken_[place] = true;
  }
  places_ = std::move(now);
}

std::vector<StepHistory::Step> StepHistory::behind(std::uint64_t number) const {
  std::lock_guard lock(mutex_);
  std::vector<Step> found;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[(oldest_ + i) % steps_.size()];
    if (step.number > number) found.push_back(step);
  }
  return found;
}

std::uint64_t StepHistory::last() const {
  std::lock_guard lock(mutex_);
  return steps_.empty() ? 0 : steps_[(oldest_ + steps_.size() - 1) % steps_.size()].number;
}

double StepHistory::milliseconds(tenon::TimePoint time) const {
  return std::chrono::duration<double, std::milli>(time - start_).count();
}

}  // namespace serve
