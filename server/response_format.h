// The form that an answer must have.
#pragma once
#include <optional>

#include "server/api_error.h"
#include "server/body.h"

namespace serve {

// The schema of the body's response_format (on LoRAX routes, of its parameters'), keys as written; {"type": "object"}
// for any object, none for plain text. Whether it can be honoured is for who compiles it. ApiError: invalid.
std::optional<tenon::OrderedJson> schema_of(const Body& body, Dialect dialect);

}  // namespace serve
