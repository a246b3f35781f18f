// What a schema leaves open, decided.
#pragma once
#include "tenon/core/require.h"

namespace tenon::constrain {

struct SchemaOptions {
  // Between tokens; there is none before or behind the value.
  enum class Whitespace {
    single,    // at most one blank, behind ':' and ','
    compact,   // none
    flexible,  // wherever JSON allows it: a blank, or a newline and at most 20 blanks
  };
  enum class AdditionalProperties {
    closed,  // where `properties` stands without `additionalProperties` there are no others; keywords of objects (of
             // strings, ...) without `type` mean objects (strings, ...) only
    spec,    // both as JSON Schema has it
  };

  Whitespace whitespace = Whitespace::single;
  AdditionalProperties additional_properties = AdditionalProperties::closed;
  bool any_of_for_one_of = false;  // oneOf as anyOf where its branches may overlap
};

}  // namespace tenon::constrain
