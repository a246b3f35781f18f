#include "engine_unit.h"
#include "tenon/model/bloom.h"

namespace program {

std::vector<MenuEntry> bloom_engines() { return family_entries<tenon::Bloom>(); }

}  // namespace program
