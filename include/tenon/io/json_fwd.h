// The names of JSON documents, for headers that only refer to them: a quarter of a second a unit less than the whole of
// nlohmann-json.
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "tenon/core/require.h"

namespace tenon {

using Json = nlohmann::json;                 // keys sorted: an insertion is O(log n)
using OrderedJson = nlohmann::ordered_json;  // keys as written: for the few places where their order means something

}  // namespace tenon
