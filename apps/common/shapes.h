// The known families and the shapes of published models, for units that need nothing else of them.
#pragma once
#include <span>
#include <string_view>

#include "tenon/model/config.h"

namespace program {

// Error unsupported, with the list of known families, if the library does not have this one.
void need_family(std::string_view model_type);

// A shape that --random can name.
struct KnownShape {
  std::string_view name;
  tenon::ModelConfig (*config)();
};
std::span<const KnownShape> known_shapes();

}  // namespace program
