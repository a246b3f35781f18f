// A report of each step, for observers.
#pragma once
#include <cstdint>
#include <functional>
#include <span>

#include "tenon/core/request.h"
#include "tenon/core/views.h"

namespace tenon {

/// A sequence in a step.
struct StepRow {
  SeqId seq = 0;          ///< the sequence's number while it runs
  int adapter = -1;       ///< number of its (first) adapter: AdapterStore::name_of tells its name; -1: none
  int tokens = 0;         ///< that went through the model
  int prompt_tokens = 0;  ///< of these, tokens of the prompt
  friend bool operator==(const StepRow&, const StepRow&) = default;
};

/// A step that has ended.
struct StepReport {
  std::uint64_t step = 0;         ///< its number; the first is 1
  TimePoint begin{}, end{};       ///< a step launched while another ran begins as that one ends
  std::span<const StepRow> rows;  ///< valid during the call
};

/// Called on the thread that steps, after each step that ran something and before its events are handed out. An
/// exception changes no request: EngineStats::observer_failures counts it.
using StepObserver = std::function<void(const StepReport&)>;

}  // namespace tenon
