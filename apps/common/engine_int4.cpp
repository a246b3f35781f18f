// Engines with weights in groups of columns.
#include "engine_unit.h"

namespace program {

std::vector<MenuEntry> int4_engines() {
  using namespace tenon;
  // Wider groups are those of quantised checkpoints.
  return {on_cpu<GroupInt4>(),     on_cpu<GroupInt4Of<64>>(), on_cpu<GroupInt4Of<128>>(),
          on_cpu<GroupInt4Act8>(), on_cpu<GroupInt8>(),       on_cpu<NormalFloat4>()};
}

}  // namespace program
