// Shares a step's rows among the threads, for ops that treat each row by itself.
#pragma once
#include <utility>

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

}  // namespace tenon::cpu
