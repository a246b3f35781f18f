// Keys and values in bfloat16. Blocks of 32 and 64 tokens come with flash attention only, to keep the menu small.
#include "engine_unit.h"

namespace program {

std::vector<MenuEntry> kv_bfloat16_engines() {
  using tenon::bfloat16, tenon::ContiguousKVOf, tenon::DirectAttention, tenon::FlashAttention, tenon::Float32;
  using tenon::NoCacheOf, tenon::PagedKVOf;
  return {menu_entry<Float32, PagedKVOf<16, bfloat16>, FlashAttention>(),
          menu_entry<Float32, PagedKVOf<16, bfloat16>, DirectAttention>(),
          menu_entry<Float32, PagedKVOf<32, bfloat16>, FlashAttention>(),
          menu_entry<Float32, PagedKVOf<64, bfloat16>, FlashAttention>(),
          menu_entry<Float32, ContiguousKVOf<bfloat16>, FlashAttention>(),
          menu_entry<Float32, ContiguousKVOf<bfloat16>, DirectAttention>(),
          menu_entry<Float32, NoCacheOf<bfloat16>, FlashAttention>(),
          menu_entry<Float32, NoCacheOf<bfloat16>, DirectAttention>()};
}

}  // namespace program
