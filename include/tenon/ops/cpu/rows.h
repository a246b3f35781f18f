// How ops that treat each row by itself share a step's rows among the threads.
#pragma once
#include <utility>

#include "tenon/device/cpu.h"

namespace tenon::cpu {

// body(begin, end), once for every part of the rows.
template <class Body>
void split_rows(Cpu& device, int rows, Body&& body) {
  // Waking the others costs more than a row or two takes.
  if (rows < 4)
    body(0, rows);
  else
    device.pool().split(rows, std::forward<Body>(body));
}

}  // namespace tenon::cpu
