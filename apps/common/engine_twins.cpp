// Engines on the CPU in the weight formats that scripts/gpu-check compares with a GPU's.
#include "engine_unit.h"

namespace program {

std::vector<MenuEntry> twin_engines() {
  using namespace tenon;
  return {on_cpu<Float32>(),       on_cpu<BFloat16>(),          on_cpu<BFloat16Dot>(),
          on_cpu<ZeroPointInt8>(), on_cpu<ZeroPointInt8Act8>(), on_cpu<GroupInt4>(),
          on_cpu<GroupInt4Act8>(), on_cpu<GroupInt8>(),         on_cpu<NormalFloat4>()};
}

}  // namespace program
