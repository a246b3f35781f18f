// The form that an answer must have.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "serve/api/body.h"
#include "serve/api/request_fields.h"
#include "tenon/core/request.h"

namespace serve {

struct AnswerForm {
  enum class Kind { schema, regex, choice, grammar };
  Kind kind = Kind::schema;
  tenon::OrderedJson schema = {};         // Kind::schema: keys as written, which is the order of an answer's keys
  std::string text = {};                  // Kind::regex; Kind::grammar: GBNF
  std::vector<std::string> choices = {};  // Kind::choice
  std::string field = {};                 // that asks for it, as the client calls it

  // As a receipt holds it, and `tenon verify` reads it.
  tenon::ConstraintSource source() const {
    switch (kind) {
      case Kind::schema:
        return {"schema", schema.dump()};
      case Kind::regex:
        return {"regex", text};
      case Kind::grammar:
        return {"grammar", text};
      case Kind::choice:
        return {"choice", tenon::Json(choices).dump()};
    }
    return {};
  }

  bool is_same(const AnswerForm& other) const {
    // The order of keys is no difference: tenon::Json sorts them.
    return kind == other.kind && tenon::Json(schema) == tenon::Json(other.schema) && text == other.text &&
           choices == other.choices;
  }
};

// What the fields ask for: response_format, or any spelling of a peer; none for plain text. `fields` are the body's
// members, or where `in_parameters` those of its `parameters`. Two fields may ask for the same form. Whether it can be
// honoured is for who compiles it. ApiError: invalid.
std::optional<AnswerForm> form_of(const Body& body, const RequestFields& fields, bool in_parameters,
                                  UnknownFields& unknown);

}  // namespace serve
