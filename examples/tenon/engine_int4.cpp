// GPT-2 in weights of 4 bits.
#include "engine_unit.h"

namespace program {

std::vector<MenuEntry> int4_engines() {
  std::vector<MenuEntry> entries;
  add_weight_entries<tenon::GroupInt4>(entries);
  add_weight_entries<tenon::GroupInt4Act8>(entries);
  return entries;
}

}  // namespace program
