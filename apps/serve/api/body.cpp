#include "serve/api/body.h"

#include <string>

#include "serve/api/api_error.h"
#include "tenon/io/fields.h"

namespace serve {
namespace {

// Room for 128 prompts of 3,000 token ids; what is made of 2 MB of `{},{},...` stays below 40 MB.
constexpr tenon::JsonLimits kLimits{.depth = 64, .values = 400'000, .refusal = tenon::Error::Kind::invalid_request};

bool has_nul(const std::string& text) { return text.find('\0') != text.npos; }

template <class J>
bool finds_nul(const J& json) {
  if (json.is_string()) return has_nul(json.template get_ref<const std::string&>());
  if (!json.is_structured()) return false;
  for (const auto& [key, value] : json.items())
    if ((json.is_object() && has_nul(key)) || finds_nul(value)) return true;
  return false;
}

// A prediction may hold some: it is text that a model wrote, and decides speed alone.
void refuse_nul(const tenon::Json& json) {
  for (const auto& [key, value] : json.items()) {
    if (key == "prediction" || (!has_nul(key) && !holds_nul(value))) continue;
    throw ApiError(ApiError::Kind::invalid, "`" + shown(key) + "` must not hold a NUL character", shown(key));
  }
}

}  // namespace

bool holds_nul(const tenon::OrderedJson& json) { return finds_nul(json); }
bool holds_nul(const tenon::Json& json) { return finds_nul(json); }

tenon::OrderedJson Body::ordered() const { return tenon::parse_json<tenon::OrderedJson>(text, "", kLimits); }

Body parse_body(std::string_view text) {
  Body body{text, {}};
  try {
    body.json = tenon::parse_json(text, "", kLimits);
  } catch (const tenon::Error& error) {
    throw ApiError(ApiError::Kind::malformed, std::string("the body is refused: ") + error.what());
  }
  if (!body.json.is_object()) {
    throw ApiError(ApiError::Kind::malformed,
                   "the body must be a JSON object, is " + tenon::Fields::describe(body.json));
  }
  // Bytes that are NUL the parser has refused.
  if (text.find("\\u0000") != text.npos) refuse_nul(body.json);
  return body;
}

}  // namespace serve
