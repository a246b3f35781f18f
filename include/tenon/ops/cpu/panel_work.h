// The common part of all matrix products on the CPU: their outputs, and how threads share panels.
#pragma once
#include <algorithm>
#include <cstddef>
#include <vector>

#include "tenon/ops/args.h"
#include "tenon/ops/cpu/kernels.h"

namespace tenon::cpu {

template <class W>
PanelJob panel_job(const LinearArgs<W>& args) {
  PanelJob job{args.x.rows, args.x.cols,     args.y.cols,        args.x.data,          nullptr,     args.bias,
               args.delta,  args.activation, args.residual.data, args.residual.stride, args.y.data, args.y.stride};
  job.changes = args.changes;
  return job;
}

/// Activations in the form that kernels read. Each thread prepares a single tile of tokens for itself when it first
/// needs it, so that no thread waits (docs/decisions/0009). Several tiles are shared among the threads.
template <class Prepare>  // prepare(first_tile, last_tile, copy)
class PreparedTiles {
 public:
  PreparedTiles(ThreadPool& pool, int tiles, Prepare prepare)
      : prepare_(prepare), done_(static_cast<std::size_t>(copies(pool, tiles) > 1 ? pool.threads() : 0)) {
    if (done_.empty()) pool.split(tiles, [&](int first, int last) { prepare_(first, last, 0); });
  }

  static int copies(const ThreadPool& pool, int tiles) { return tiles == 1 ? pool.threads() : 1; }

  /// The copy that this thread reads.
  int copy_of(int thread) {
    if (done_.empty()) return 0;
    char& done = done_[static_cast<std::size_t>(thread)];
    if (!done) prepare_(0, 1, thread);
    done = 1;
    return thread;
  }

 private:
  Prepare prepare_;
  std::vector<char> done_;  // [threads]; empty where there is one copy for all
};

int piece_count(const PanelJob& job);

/// Calls body(begin, end, thread) with panels: one piece at a time, or all panels if there is one thread.
template <class Body>
void share_panels(ThreadPool& pool, const PanelJob& job, Body&& body) {
  const int panels = static_cast<int>(panel_count(job.outputs)), each = job.piece_panels;
  pool.share(piece_count(job), 1,
             [&](int begin, int end, int thread) { body(begin * each, std::min(end * each, panels), thread); });
}

/// First panel of a thread's own part, and number of its pieces.
int own_begin(const ThreadPool& pool, const PanelJob& job, int thread);
int own_pieces(const ThreadPool& pool, const PanelJob& job, int thread);

}  // namespace tenon::cpu

#ifndef TENON_COMPILED
#include "tenon/ops/cpu/panel_work-inl.h"
#endif
