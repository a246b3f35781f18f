// Engines with 8-bit integer weights; int8 and float32 weights with an exact head from an int8 copy; and int8 keys and
// values, which suit large batches.
#include "engine_unit.h"

namespace program {

std::vector<MenuEntry> int8_engines() {
  using tenon::FlashAttention, tenon::PagedKVOf, tenon::ZeroPointInt8, tenon::ZeroPointInt8Act8;
  std::vector<MenuEntry> entries{menu_entry<ZeroPointInt8, PagedKVOf<16, std::int8_t>, FlashAttention>(),
                                 menu_entry<ZeroPointInt8Act8, PagedKVOf<16, std::int8_t>, FlashAttention>()};
  add_exact_head_entry<tenon::Float32>(entries);
  add_exact_head_entry<ZeroPointInt8>(entries);
  add_weight_entries<ZeroPointInt8>(entries);
  add_weight_entries<tenon::ZeroPointInt8Of<tenon::PerTensor>>(entries);
  add_weight_entries<ZeroPointInt8Act8>(entries);
  return entries;
}

}  // namespace program
