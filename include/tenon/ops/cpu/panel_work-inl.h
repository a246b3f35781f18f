#pragma once
#include "tenon/core/require.h"
#include "tenon/ops/cpu/panel_work.h"

namespace tenon::cpu {

TENON_INLINE int piece_count(const PanelJob& job) {
  return (static_cast<int>(panel_count(job.outputs)) + job.piece_panels - 1) / job.piece_panels;
}

TENON_INLINE int own_begin(const ThreadPool& pool, const PanelJob& job, int thread) {
  return std::min(pool.part_begin(piece_count(job), thread) * job.piece_panels,
                  static_cast<int>(panel_count(job.outputs)));
}

TENON_INLINE int own_pieces(const ThreadPool& pool, const PanelJob& job, int thread) {
  return pool.part_begin(piece_count(job), thread + 1) - pool.part_begin(piece_count(job), thread);
}

}  // namespace tenon::cpu
