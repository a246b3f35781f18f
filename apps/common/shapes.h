// The families that the library knows and shapes of published models, for units that need no more of them.
#pragma once
#include <span>
#include <string_view>

#include "tenon/model/config.h"

namespace program {

// Error unsupported, with the list of what there is, where the library has no such family.
void need_family(std::string_view model_type);

// What --random can name.
struct KnownShape {
  std::string_view name;
  tenon::ModelConfig (*config)();
};
std::span<const KnownShape> known_shapes();

}  // namespace program
