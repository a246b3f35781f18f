// Counters of an engine.
#pragma once
#include <cstdint>
#include <string>

#include "tenon/core/require.h"

namespace tenon {

/// Counted since the engine was made.
struct EngineStats {
  std::uint64_t steps = 0;
  std::uint64_t sequences = 0;       ///< summed over steps: sequences / steps is the mean occupancy
  std::uint64_t rows = 0;            ///< tokens that went through the model, prompts included
  std::uint64_t tokens = 0;          ///< generated
  std::uint64_t launched_ahead = 0;  ///< steps launched before the tokens of the step before reached the host
  std::uint64_t drafted = 0;         ///< guessed tokens in launched steps
  /// Guessed tokens that were right. Each saved a step of its sequence, unless it was the sequence's last token.
  std::uint64_t accepted = 0;
  std::uint64_t preemptions = 0;
  std::uint64_t prefix_hit_tokens = 0;  ///< prompt tokens that were found in the cache
  std::uint64_t observer_failures = 0;  ///< calls of EngineOptions::on_step that threw
  std::string last_observer_failure;    ///< text of the last exception
  double seconds = 0;                   ///< in steps
  int running = 0, waiting = 0;         ///< sequences, when the last step was planned
};

}  // namespace tenon
