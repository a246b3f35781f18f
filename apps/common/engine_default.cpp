// The engines of the default options, which is all that scripts/demo compiles.
#include "engine_unit.h"

namespace program {

std::vector<MenuEntry> default_engine() {
  return {menu_entry<tenon::Float32, tenon::PagedKV, tenon::FlashAttention>()};
}

}  // namespace program
