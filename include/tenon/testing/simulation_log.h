/// The log of a simulation: a trace of every step, if asked for, and counts.
#pragma once
#include <cstdint>
#include <ostream>
#include <string>

#include "tenon/schedule/sequence_queue.h"
#include "tenon/testing/simulation_invariants.h"

namespace tenon::testing {

/// Counts of events, summed over simulations: one that meets no preemption proves nothing about preemptions.
struct SimulationCounts {
  std::uint64_t requests = 0, refused = 0, sequences = 0, finished = 0, cancelled = 0, holds = 0;
  std::uint64_t steps = 0, rows = 0, failed_steps = 0, idle_steps = 0;
  std::uint64_t preemptions = 0, prefix_hits = 0, copies = 0, refusals = 0;
  std::uint64_t passed_blocks = 0,
                unpreemptible = 0;  // passed by a window; sequences that came back with room to their end
  std::uint64_t guesses = 0, right_guesses = 0;
};

struct SimulationLog {
  std::ostream* trace = nullptr;  ///< receives a line for every step; null: no trace
  SimulationCounts counts;

  template <class... Words>
  void say(const Words&... words) {
    if (trace) ((*trace << words), ...) << '\n';
  }
};

namespace detail {

inline std::string who_runs(const Plan& plan, const SequenceQueue& queue, const Invariants& invariants) {
  std::string text;
  for (const Plan::Slice& slice : plan.slices) {
    const Sequence& s = queue.sequence(slice.seq);
    text += " " + std::to_string(slice.seq) + ":" + std::to_string(s.cached) + "+" + std::to_string(slice.tokens) +
            (invariants.runs(slice.seq) ? "" : " (joins)");
  }
  for (const SeqId seq : invariants.live) {
    if (!invariants.runs(seq) || queue.sequence(seq).state == Sequence::State::running) continue;
    text += ", preempts " + std::to_string(seq);
  }
  return text.empty() ? " nobody" : text;
}

}  // namespace detail
}  // namespace tenon::testing
