// Engines on the CPU in the weight formats that scripts/gpu-check compares with a GPU's.
#include "engine_unit.h"

namespace program {

std::vector<MenuEntry> twin_engines() {
  using namespace tenon;
  return {
      menu_entry<BFloat16, PagedKV, FlashAttention>(),      menu_entry<BFloat16Dot, PagedKV, FlashAttention>(),
      menu_entry<ZeroPointInt8, PagedKV, FlashAttention>(), menu_entry<ZeroPointInt8Act8, PagedKV, FlashAttention>(),
      menu_entry<GroupInt4, PagedKV, FlashAttention>(),     menu_entry<GroupInt4Act8, PagedKV, FlashAttention>(),
      menu_entry<GroupInt8, PagedKV, FlashAttention>(),     menu_entry<NormalFloat4, PagedKV, FlashAttention>()};
}

}  // namespace program
