// Engines with floating-point weights of 16 bits.
#include "engine_unit.h"

namespace program {

std::vector<MenuEntry> float16_engines() {
  std::vector<MenuEntry> entries;
  add_weight_entries<tenon::BFloat16>(entries);
  add_exact_head_entry<tenon::BFloat16>(entries);
  add_weight_entries<tenon::BFloat16Dot>(entries);
  add_weight_entries<tenon::BFloat16Amx>(entries);
  add_weight_entries<tenon::Float16>(entries);
  return entries;
}

}  // namespace program
