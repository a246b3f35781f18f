// Engines with weights in groups of columns.
#include "engine_unit.h"

namespace program {

std::vector<MenuEntry> int4_engines() {
  // Wider groups, for quantised checkpoints that have them.
  std::vector<MenuEntry> entries{menu_entry<tenon::GroupInt4Of<64>, tenon::PagedKV, tenon::FlashAttention>(),
                                 menu_entry<tenon::GroupInt4Of<128>, tenon::PagedKV, tenon::FlashAttention>()};
  entries.push_back(menu_entry<tenon::GroupInt8, tenon::PagedKV, tenon::FlashAttention>());
  entries.push_back(menu_entry<tenon::NormalFloat4, tenon::PagedKV, tenon::FlashAttention>());
  add_weight_entries<tenon::GroupInt4>(entries);
  add_weight_entries<tenon::GroupInt4Act8>(entries);
  return entries;
}

}  // namespace program
