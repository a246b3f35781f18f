// Engines with weights in groups of columns.
#include "engine_unit.h"

namespace program {

std::vector<MenuEntry> int4_engines() {
  std::vector<MenuEntry> entries;
  add_weight_entries<tenon::GroupInt4>(entries);
  add_weight_entries<tenon::GroupInt4Of<64>>(entries);  // wider groups, for quantised checkpoints that have them
  add_weight_entries<tenon::GroupInt4Of<128>>(entries);
  add_weight_entries<tenon::GroupInt4Act8>(entries);
  add_weight_entries<tenon::GroupInt8>(entries);
  add_weight_entries<tenon::NormalFloat4>(entries);
  return entries;
}

}  // namespace program
