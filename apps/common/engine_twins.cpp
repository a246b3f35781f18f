// Engines on the CPU in the weight formats that scripts/gpu-check compares with a GPU's.
#include "engine_unit.h"

namespace program {

std::vector<MenuEntry> twin_engines() {
  using namespace tenon;
  std::vector<MenuEntry> entries;
  add_entry<Float32, PagedOf>(entries);
  add_entry<BFloat16, PagedOf>(entries);
  add_entry<BFloat16Dot, PagedOf>(entries);
  add_entry<ZeroPointInt8, PagedOf>(entries);
  add_entry<ZeroPointInt8Act8, PagedOf>(entries);
  add_entry<GroupInt4, PagedOf>(entries);
  add_entry<GroupInt4Act8, PagedOf>(entries);
  add_entry<GroupInt8, PagedOf>(entries);
  add_entry<NormalFloat4, PagedOf>(entries);
  return entries;
}

}  // namespace program
