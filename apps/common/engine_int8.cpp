// GPT-2 in weights of 8 bits as integers, and those and float32 with a head that looks at 8 bits first. Keys and values
// in int8 beside them: what a full batch wants.
#include "engine_unit.h"

namespace program {

std::vector<MenuEntry> int8_engines() {
  using tenon::FlashAttention, tenon::Gpt2, tenon::PagedKVOf, tenon::ZeroPointInt8, tenon::ZeroPointInt8Act8;
  std::vector<MenuEntry> entries{menu_entry<Gpt2, ZeroPointInt8, PagedKVOf<16, std::int8_t>, FlashAttention>(),
                                 menu_entry<Gpt2, ZeroPointInt8Act8, PagedKVOf<16, std::int8_t>, FlashAttention>()};
  add_exact_head_entry<tenon::Float32>(entries);
  add_exact_head_entry<ZeroPointInt8>(entries);
  add_weight_entries<ZeroPointInt8>(entries);
  add_weight_entries<tenon::ZeroPointInt8Of<tenon::PerTensor>>(entries);
  add_weight_entries<ZeroPointInt8Act8>(entries);
  return entries;
}

}  // namespace program
