// Engines with floating-point weights of 8 bits.
#include "engine_unit.h"

namespace program {

std::vector<MenuEntry> float8_engines() {
  using namespace tenon;
  return {on_cpu<Float8<E4M3>>(), on_cpu<Float8<E5M2>>()};
}

}  // namespace program
