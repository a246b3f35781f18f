#include "engine_unit.h"
#include "tenon/model/mistral.h"

namespace program {

std::vector<MenuEntry> mistral_engines() { return family_entries<tenon::Mistral>(); }

}  // namespace program
