// Engines with floating-point weights of 16 bits.
#include "engine_unit.h"

namespace program {

std::vector<MenuEntry> float16_engines() {
  using namespace tenon;
  return {on_cpu<BFloat16>(), on_cpu_with_exact_head<BFloat16>(), on_cpu<BFloat16Dot>(), on_cpu<BFloat16Amx>(),
          on_cpu<Float16>()};
}

}  // namespace program
