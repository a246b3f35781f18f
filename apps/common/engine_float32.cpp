// Engines with weights in float32.
#include "engine_unit.h"

namespace program {

std::vector<MenuEntry> float32_engines() {
  using namespace tenon;
  return {on_cpu<Float32>(), on_cpu_with_exact_head<Float32>()};
}

}  // namespace program
