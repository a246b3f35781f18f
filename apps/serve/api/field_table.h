// Every member of a request's objects that this server knows, as data: the parser checks bodies against it,
// docs/fields.md is made of it (scripts/field-table), and tests/server/test_fields.py asks each of its rows.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "tenon/io/json.h"

namespace serve {

// Objects that hold members, as bits of a set.
enum Place : unsigned {
  kGenerate = 1U << 0,         // POST /, /generate, /generate_stream
  kParameters = 1U << 1,       // their `parameters`
  kCompletions = 1U << 2,      // POST /v1/completions
  kChat = 1U << 3,             // POST /v1/chat/completions
  kTokenize = 1U << 4,         // POST /tokenize
  kLoad = 1U << 5,             // POST /v1/load_lora_adapter
  kUnload = 1U << 6,           // POST /v1/unload_lora_adapter
  kStreamOptions = 1U << 7,    // `stream_options`
  kMessage = 1U << 8,          // an element of `messages`
  kPart = 1U << 9,             // an element of a message's `content`
  kFormat = 1U << 10,          // `response_format`, or `grammar` as an object
  kJsonSchema = 1U << 11,      // `json_schema` of a format, where it is no schema itself
  kStructured = 1U << 12,      // `structured_outputs`
  kMerged = 1U << 13,          // `merged_adapters`
  kScaledAdapter = 1U << 14,   // an element of `lora`
  kAdapterRequest = 1U << 15,  // `lora_request`
  kHubOptions = 1U << 16,      // `options` of POST /, /generate, /generate_stream
  kOpenAi = kCompletions | kChat,
  kSampling = kParameters | kOpenAi,
  kWriting = kGenerate | kSampling,
};

// honoured: it does what its peers say; `same_as` names the field whose spelling it is.
// refused: but for neutral values, with `advice`. inert: it changes no answer by definition, whatever its value.
enum class FieldClass { honoured, refused, inert };

struct Field {
  std::string_view name;
  unsigned places;
  FieldClass kind;
  std::string_view same_as;
  // Values of a refused field that ask for nothing: a JSON list, in addition to null, false, "", [] and {}; behind '='
  // it and null alone.
  std::string_view neutral;
  std::string_view advice;
  std::string_view peers;
};

std::span<const Field> field_table();

// Null: no row has this name there.
const Field* find_field(std::string_view name, Place place);

// Whether the value asks for nothing.
bool is_neutral(const Field& field, const tenon::Json& value);

// Null, "", [] or {}: as good as absent beside another spelling of the same field.
bool asks_nothing(const tenon::Json& value);

}  // namespace serve
