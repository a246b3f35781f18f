#include "engine_unit.h"

namespace program {

std::vector<MenuEntry> paged_engines() {
  using tenon::DirectAttention, tenon::FlashAttention, tenon::Float32, tenon::PagedKVOf;
  return {menu_entry<Float32, PagedKVOf<16>, DirectAttention>(), menu_entry<Float32, PagedKVOf<32>, FlashAttention>(),
          menu_entry<Float32, PagedKVOf<32>, DirectAttention>(), menu_entry<Float32, PagedKVOf<64>, FlashAttention>(),
          menu_entry<Float32, PagedKVOf<64>, DirectAttention>()};
}

}  // namespace program
