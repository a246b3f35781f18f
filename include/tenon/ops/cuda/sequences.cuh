// Which sequence a row of a batch continues, and which caches kernels can read.
#pragma once
#include "tenon/core/batch.h"
#include "tenon/core/concepts.h"

namespace tenon::cuda {

/// A view whose tiles kernels can read: CacheStore puts its `table` on the device, and its element is built in. Kernels
/// of any other view would read host memory, so an engine with one is refused at compile time.
template <class V>
concept ViewOnDevice = ReadsTable<V> && BuiltInKvElement<typename V::Element>;

__device__ inline const SequenceRows& sequence_of(const BatchView& batch, int row) {
  int begin = 0, end = batch.sequence_count;  // the last sequence that begins at or before the row
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
