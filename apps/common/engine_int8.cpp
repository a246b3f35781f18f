// Engines with 8-bit integer weights.
#include "engine_unit.h"

namespace program {

std::vector<MenuEntry> int8_engines() {
  using namespace tenon;
  return {on_cpu<ZeroPointInt8>(), on_cpu_with_exact_head<ZeroPointInt8>(), on_cpu<ZeroPointInt8Of<PerTensor>>(),
          on_cpu<ZeroPointInt8Act8>()};
}

}  // namespace program
