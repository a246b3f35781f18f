// GPT-2 on the CPU, in the weight formats for which scripts/gpu-check compares the answers of CPU and GPU.
#include "engine_unit.h"

namespace program {

std::vector<MenuEntry> twin_engines() {
  using namespace tenon;
  return {menu_entry<Gpt2, BFloat16, PagedKV, FlashAttention>(),
          menu_entry<Gpt2, BFloat16Dot, PagedKV, FlashAttention>(),
          menu_entry<Gpt2, ZeroPointInt8, PagedKV, FlashAttention>(),
          menu_entry<Gpt2, ZeroPointInt8Act8, PagedKV, FlashAttention>(),
          menu_entry<Gpt2, GroupInt4, PagedKV, FlashAttention>(),
          menu_entry<Gpt2, GroupInt4Act8, PagedKV, FlashAttention>()};
}

}  // namespace program
