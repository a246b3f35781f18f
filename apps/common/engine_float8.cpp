// Engines with floating-point weights of 8 bits.
#include "engine_unit.h"

namespace program {

std::vector<MenuEntry> float8_engines() {
  std::vector<MenuEntry> entries;
  add_weight_entries<tenon::Float8<tenon::E4M3>>(entries);
  add_weight_entries<tenon::Float8<tenon::E5M2>>(entries);
  return entries;
}

}  // namespace program
