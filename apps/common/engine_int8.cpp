// Engines with 8-bit integer weights.
#include "engine_unit.h"

namespace program {

std::vector<MenuEntry> int8_engines() {
  std::vector<MenuEntry> entries;
  add_weight_entries<tenon::ZeroPointInt8>(entries);
  add_exact_head_entry<tenon::ZeroPointInt8>(entries);
  add_weight_entries<tenon::ZeroPointInt8Of<tenon::PerTensor>>(entries);
  add_weight_entries<tenon::ZeroPointInt8Act8>(entries);
  return entries;
}

}  // namespace program
