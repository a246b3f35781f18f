#include "engine_unit.h"
#include "tenon/model/gpt_bigcode.h"

namespace program {

std::vector<MenuEntry> gpt_bigcode_engines() { return family_entries<tenon::GptBigCode>(); }

}  // namespace program
