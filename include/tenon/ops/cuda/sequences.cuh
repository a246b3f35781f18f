// Which sequence a row of a batch continues.
#pragma once
#include "tenon/core/batch.h"

namespace tenon::cuda {

__device__ inline const SequenceRows& sequence_of(const BatchView& batch, int row) {
  int begin = 0, end = batch.sequence_count;  // the last that does not begin behind it
  while (end - begin > 1) {
    const int middle = (begin + end) / 2;
    if (batch.sequences[middle].first_row <= row) begin = middle;
    else end = middle;
  }
  return batch.sequences[begin];
}

}  // namespace tenon::cuda
