// Options for what JSON Schema leaves open.
#pragma once
#include "tenon/core/require.h"

namespace tenon::constrain {

/// Options of json_schema().
struct SchemaOptions {
  /// White space between tokens. There is none before or after the value.
  enum class Whitespace {
    single,    ///< at most one blank, after ':' and ','
    compact,   ///< none
    flexible,  ///< wherever JSON allows it: a blank, or a newline and at most 20 blanks
  };
  /// Meaning of a schema that has `properties` without `additionalProperties`, or keywords without `type`.
  enum class AdditionalProperties {
    /// No other properties; keywords of objects (of strings, ...) without `type` allow objects (strings, ...) only.
    closed,
    spec,  ///< both as in JSON Schema: anything else is allowed
  };

  /// Blanks between tokens: `single` (at most one, after `:` and `,`), `compact` (none), `flexible` (as JSON allows: a
  /// blank, or a newline and at most 20 blanks).
  Whitespace whitespace = Whitespace::single;
  /// `closed`: `properties` without `additionalProperties` has no others, and keywords of objects (strings, ...)
  /// without `type` mean objects (strings, ...) only. `spec`: both as JSON Schema has it.
  AdditionalProperties additional_properties = AdditionalProperties::closed;
  bool any_of_for_one_of = false;  ///< treat oneOf as anyOf where its branches may overlap
};

}  // namespace tenon::constrain
