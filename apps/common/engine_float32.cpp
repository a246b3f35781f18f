// Engines with weights in float32.
#include "engine_unit.h"

namespace program {

std::vector<MenuEntry> float32_engines() {
  std::vector<MenuEntry> entries;
  add_weight_entries<tenon::Float32>(entries);
  add_exact_head_entry<tenon::Float32>(entries);
  return entries;
}

}  // namespace program
