// The description of the routes for programs: OpenAPI 3.1, made of the tables of routes, fields and errors.
#pragma once
#include <string>
#include <string_view>

#include "serve/api/field_table.h"
#include "serve/settings.h"
#include "tenon/io/json.h"

namespace serve {

// `with_keys`: the server has keys.
tenon::OrderedJson openapi(const Settings& settings, bool with_keys);

// JSON Schema of a field's values but null, as text; empty: openapi.cpp has no row for it. Of a field with `same_as`
// that of the field whose spelling it is; of an inert one anything.
std::string_view schema_of(const Field& field, Place place);

// The schema's name of an object with members; empty: none.
std::string_view schema_name(Place place);

}  // namespace serve
