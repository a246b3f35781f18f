#include "engine_unit.h"
#include "tenon/model/llama.h"

namespace program {

std::vector<MenuEntry> llama_engines() { return family_entries<tenon::Llama>(); }

}  // namespace program
