// How ops that treat each row by itself share a step's rows among the threads.
#pragma once
#include <utility>

#include "tenon/device/cpu.h"

namespace tenon::cpu {

// Waking the other threads costs more than fewer rows take.
inline constexpr int kSharedRows = 4;

// body(begin, end), once for every part of the rows.
template <class Body>
void split_rows(Cpu& device, int rows, Body&& body) {
  if (rows < kSharedRows) body(0, rows);
  else device.pool().split(rows, std::forward<Body>(body));
}

}  // namespace tenon::cpu
