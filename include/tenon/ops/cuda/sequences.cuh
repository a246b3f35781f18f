// Which sequence a row of a batch continues, and which caches kernels can find its tiles in.
#pragma once
#include "tenon/core/batch.h"
#include "tenon/core/concepts.h"

namespace tenon::cuda {

// CacheStore puts a view's `table` on the device. A view that says by anything else where its tiles are would have
// kernels read the host's memory: an engine with one is refused when it is compiled.
template <class V>
concept ViewOnDevice = CacheView<V> && requires(V view) {
  view.table;
};

__device__ inline const SequenceRows& sequence_of(const BatchView& batch, int row) {
  int begin = 0, end = batch.sequence_count;  // the last that does not begin behind it
  while (end - begin > 1) {
    const int middle = (begin + end) / 2;
    if (batch.sequences[middle].first_row <= row)
      begin = middle;
    else
      end = middle;
  }
  return batch.sequences[begin];
}

}  // namespace tenon::cuda
