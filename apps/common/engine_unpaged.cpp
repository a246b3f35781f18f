#include "engine_unit.h"

namespace program {

std::vector<MenuEntry> unpaged_engines() {
  using tenon::ContiguousKV, tenon::DirectAttention, tenon::FlashAttention, tenon::Float32, tenon::NoCache,
      tenon::WindowKV;
  return {menu_entry<Float32, ContiguousKV, FlashAttention>(), menu_entry<Float32, ContiguousKV, DirectAttention>(),
          menu_entry<Float32, WindowKV, FlashAttention>(),     menu_entry<Float32, WindowKV, DirectAttention>(),
          menu_entry<Float32, NoCache, FlashAttention>(),      menu_entry<Float32, NoCache, DirectAttention>()};
}

}  // namespace program
