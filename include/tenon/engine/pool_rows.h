// Hands the hidden rows of a step to the requests that pool them.
#pragma once
#include <algorithm>
#include <cstddef>
#include <span>

#include "tenon/core/views.h"
#include "tenon/engine/active_requests.h"
#include "tenon/engine/launched_step.h"

namespace tenon {

/// Adds the rows of a step beyond AssembledStep::logit_rows to their requests (SequenceOutput::pool), a block of rows
/// at a time. logit_scale: ModelConfig::logit_scale, which the final norm's gain has taken up.
template <class DeviceP, class Step>
void pool_rows(DeviceP& device, const Step& step, float logit_scale, ActiveRequests& active) {
  constexpr std::size_t kRows = 128;  // rows on the host at once
  for (std::size_t first = step.logit_rows; first < step.rows.size(); first += kRows) {
    const std::size_t count = std::min(kRows, step.rows.size() - first);
    const MatrixView<const float> block = step.hidden.rows_from(static_cast<int>(first), static_cast<int>(count));
    const auto stride = static_cast<std::size_t>(block.stride), width = static_cast<std::size_t>(block.cols);
    const float* const values = device.fetch(block.data, (count - 1) * stride + width);
    for (std::size_t i = 0; i < count; ++i) {
      const LogitRow& row = step.rows[first + i];
      if (row.gone || !active.has_sequence(row.seq)) continue;
      active.output(row.seq).pool().add(row.position, std::span(values + i * stride, width), logit_scale);
    }
  }
}

}  // namespace tenon
