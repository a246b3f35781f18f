// One adapter for everybody: into the weights while they are read, before they are rounded to whatever format they get.
// Nothing is left to add at run time, and it is another numeric class than adding it there.
#pragma once
#include "tenon/adapter/no_adapter.h"

namespace tenon {

struct MergedLoRA : NoAdapter {
  static constexpr bool merges_at_load = true;  // EngineOptions::merged
};
static_assert(AdapterPolicy<MergedLoRA>);

}  // namespace tenon
