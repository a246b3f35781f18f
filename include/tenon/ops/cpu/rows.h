// Shares a step's rows among the threads, for ops that treat each row by itself.
#pragma once
#include <algorithm>
#include <utility>

#include "tenon/core/batch.h"
#include "tenon/device/cpu.h"

namespace tenon::cpu {

/// Calls body(begin, end) once for each part of the rows.
template <class Body>
void split_rows(Cpu& device, int rows, Body&& body) {
  // Waking the other threads costs more than a row or two.
  if (rows < 4)
    body(0, rows);
  else
    device.pool().split(rows, std::forward<Body>(body));
}

/// The sequence that has row `row` of the batch.
inline const SequenceRows* sequence_of(const BatchView& batch, int row) {
  const SequenceRows* const last = batch.sequences + batch.sequence_count;
  return std::upper_bound(batch.sequences, last, row, [](int r, const SequenceRows& s) { return r < s.first_row; }) - 1;
}

}  // namespace tenon::cpu
