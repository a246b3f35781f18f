// What an engine ran in a step, for those who watch it at work.
#pragma once
#include <cstdint>
#include <functional>
#include <span>

#include "tenon/core/request.h"
#include "tenon/core/views.h"

namespace tenon {

struct StepRow {
  SeqId seq = 0;          // a text's number while it runs
  int adapter = -1;       // number of its (first) adapter: AdapterStore::name_of tells its name; -1: none
  int tokens = 0;         // that went through the model
  int prompt_tokens = 0;  // so many of these of the prompt
  friend bool operator==(const StepRow&, const StepRow&) = default;
};

struct StepReport {
  std::uint64_t step = 0;         // of EngineStats::steps: 1 is the first
  TimePoint begin{}, end{};       // one launched while another ran begins as that ends
  std::span<const StepRow> rows;  // valid during the call
};

/// Called on the thread that steps, after each step that ran something and before its events are handed out. What it
/// throws changes no request: EngineStats::observer_failures counts it.
using StepObserver = std::function<void(const StepReport&)>;

}  // namespace tenon
