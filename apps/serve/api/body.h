// The bytes of a request's body as JSON.
#pragma once
#include <string_view>

#include "tenon/io/json.h"

namespace serve {

struct Body {
  std::string_view text;  // as received; must outlive the body
  tenon::Json json;       // an object

  // The same with keys in the order written, which is the order of an answer's keys under a schema. Parses again.
  tenon::OrderedJson ordered() const;
};

// ApiError malformed: no JSON (not UTF-8, duplicate keys, nested deeper than 64, numbers past a double), or no object;
// invalid: a NUL in a string, escaped as it may be, other than in `prediction`.
Body parse_body(std::string_view text);

// Whether a text or a key holds a NUL character. Recurses as deep as the JSON.
bool holds_nul(const tenon::OrderedJson& json);
bool holds_nul(const tenon::Json& json);

}  // namespace serve
