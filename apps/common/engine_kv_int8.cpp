// Keys and values in int8. Blocks of 32 and 64 tokens come with flash attention only, to keep the menu small.
#include "engine_unit.h"

namespace program {

std::vector<MenuEntry> kv_int8_engines() {
  using tenon::ContiguousKVOf, tenon::DirectAttention, tenon::FlashAttention, tenon::Float32;
  using tenon::NoCacheOf, tenon::PagedKVOf;
  return {menu_entry<Float32, PagedKVOf<16, std::int8_t>, FlashAttention>(),
          menu_entry<Float32, PagedKVOf<16, std::int8_t>, DirectAttention>(),
          menu_entry<Float32, PagedKVOf<32, std::int8_t>, FlashAttention>(),
          menu_entry<Float32, PagedKVOf<64, std::int8_t>, FlashAttention>(),
          menu_entry<Float32, ContiguousKVOf<std::int8_t>, FlashAttention>(),
          menu_entry<Float32, ContiguousKVOf<std::int8_t>, DirectAttention>(),
          menu_entry<Float32, NoCacheOf<std::int8_t>, FlashAttention>(),
          menu_entry<Float32, NoCacheOf<std::int8_t>, DirectAttention>()};
}

}  // namespace program
