// One adapter for all requests: its update is added to the weights as they are read, before they are rounded to their
// format. Nothing is added at run time. The results belong to another numeric class than an update added at run time.
#pragma once
#include "tenon/adapter/no_adapter.h"

namespace tenon {

/// Adapter policy without updates at run time; EngineOptions::merged names the adapters.
struct MergedLoRA : NoAdapter {
  static constexpr bool merges_at_load = true;
};
static_assert(AdapterPolicy<MergedLoRA>);

}  // namespace tenon
