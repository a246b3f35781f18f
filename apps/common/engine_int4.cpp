// Engines with weights in groups of columns.
#include "engine_unit.h"

namespace program {

std::vector<MenuEntry> int4_engines() {
  // Wider groups, for quantised checkpoints that have them.
  std::vector<MenuEntry> entries{menu_entry<tenon::GroupInt4Of<64>, tenon::PagedKV, tenon::FlashAttention>(),
                                 menu_entry<tenon::GroupInt4Of<128>, tenon::PagedKV, tenon::FlashAttention>()};
  add_weight_entries<tenon::GroupInt8>(entries);
  add_weight_entries<tenon::NormalFloat4>(entries);
  add_weight_entries<tenon::GroupInt4>(entries);
  add_weight_entries<tenon::GroupInt4Act8>(entries);
  return entries;
}

}  // namespace program
