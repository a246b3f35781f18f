// Forward declarations of JSON documents. A header that includes this instead of nlohmann/json.hpp saves a quarter of
// a second per translation unit.
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "tenon/core/require.h"

namespace tenon {

using Json = nlohmann::json;                 ///< keys sorted; insertion is O(log n)
using OrderedJson = nlohmann::ordered_json;  ///< keys in the file's order, where order carries meaning

}  // namespace tenon
