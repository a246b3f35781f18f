// Every member of a request's objects that this server knows, as data: the parser checks bodies against it,
// docs/fields.md is made of it (scripts/field-table), and tests/server/test_fields.py asks each of its rows.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tenon/io/json.h"

namespace serve {

// Objects that hold members, as bits of a set.
enum Place : std::uint64_t {
  kGenerate = 1ULL << 0,           // POST /, /generate, /generate_stream
  kParameters = 1ULL << 1,         // their `parameters`
  kCompletions = 1ULL << 2,        // POST /v1/completions
  kChat = 1ULL << 3,               // POST /v1/chat/completions
  kTokenize = 1ULL << 4,           // POST /tokenize
  kLoad = 1ULL << 5,               // POST /v1/load_lora_adapter
  kUnload = 1ULL << 6,             // POST /v1/unload_lora_adapter
  kStreamOptions = 1ULL << 7,      // `stream_options`
  kMessage = 1ULL << 8,            // an element of `messages`
  kPart = 1ULL << 9,               // an element of a message's `content`
  kFormat = 1ULL << 10,            // `response_format`, or `grammar` as an object
  kJsonSchema = 1ULL << 11,        // `json_schema` of a format, where it is no schema itself
  kStructured = 1ULL << 12,        // `structured_outputs`
  kMerged = 1ULL << 13,            // `merged_adapters`
  kScaledAdapter = 1ULL << 14,     // an element of `lora`
  kAdapterRequest = 1ULL << 15,    // `lora_request`
  kHubOptions = 1ULL << 16,        // `options` of POST /, /generate, /generate_stream
  kTemplate = 1ULL << 17,          // POST /apply-template
  kTool = 1ULL << 18,              // an element of `tools`
  kFunction = 1ULL << 19,          // its `function`
  kToolCall = 1ULL << 20,          // an element of a message's `tool_calls`
  kCalledFunction = 1ULL << 21,    // its `function`
  kToolChoice = 1ULL << 22,        // `tool_choice` as an object
  kChosenFunction = 1ULL << 23,    // its `function`
  kResponses = 1ULL << 24,         // POST /v1/responses: what it has besides kChat, and refuses of it
  kInputItem = 1ULL << 25,         // an element of `input`
  kInputPart = 1ULL << 26,         // an element of its `content`, or of a call's `output`
  kResponsesText = 1ULL << 27,     // `text`
  kMessages = 1ULL << 28,          // POST /v1/messages: what it has besides kChat, and refuses of it
  kTurn = 1ULL << 29,              // an element of its `messages`
  kBlock = 1ULL << 30,             // an element of `content` or `system`
  kInputTool = 1ULL << 31,         // an element of its `tools`
  kInputChoice = 1ULL << 32,       // its `tool_choice`
  kEmbeddings = 1ULL << 33,        // POST /v1/embeddings
  kEmbed = 1ULL << 34,             // POST /embed
  kClassify = 1ULL << 35,          // POST /classify, /classify_batch
  kRerank = 1ULL << 36,            // POST /rerank, /v1/rerank, /v2/rerank
  kScore = 1ULL << 37,             // POST /score, /v1/score
  kHeadParameters = 1ULL << 38,    // `parameters` of /v1/embeddings, /embed, /classify
  kDocument = 1ULL << 39,          // an element of `documents`
  kPrediction = 1ULL << 40,        // `prediction`
  kReasoning = 1ULL << 41,         // `reasoning`
  kThinking = 1ULL << 42,          // `thinking` as an object
  kDetokenize = 1ULL << 43,        // POST /detokenize
  kAllowedTools = 1ULL << 44,      // `allowed_tools` of `tool_choice`
  kOllamaChat = 1ULL << 45,        // POST /api/chat
  kOllamaGenerate = 1ULL << 46,    // POST /api/generate
  kOllamaOptions = 1ULL << 47,     // `options` of /api/chat, /api/generate and /api/embed
  kOllamaMessage = 1ULL << 48,     // an element of `messages` of /api/chat
  kOllamaCall = 1ULL << 49,        // an element of its `tool_calls`
  kOllamaFunction = 1ULL << 50,    // its `function`
  kOllamaEmbed = 1ULL << 51,       // POST /api/embed
  kOllamaEmbeddings = 1ULL << 52,  // POST /api/embeddings
  kOllamaShow = 1ULL << 53,        // POST /api/show
  kOllamaWriting = kOllamaChat | kOllamaGenerate,
  kOllama = kOllamaWriting | kOllamaEmbed | kOllamaEmbeddings,
  kHeads = kEmbeddings | kEmbed | kClassify | kRerank | kScore,
  kOpenAi = kCompletions | kChat,
  kSampling = kParameters | kOpenAi,
  kWriting = kGenerate | kSampling,
  kNaming = kWriting | kHeads | kHeadParameters,  // where an adapter can be named
  kConversation = kChat | kTokenize | kTemplate,
};

// honoured: it works as in the servers that `peers` lists; `same_as` names the field that it is another name of.
// refused: an error with `advice`, unless its value is neutral. inert: by definition it changes no answer.
enum class FieldClass { honoured, refused, inert };

struct Field {
  std::string_view name;
  std::uint64_t places;
  FieldClass kind;
  std::string_view same_as;
  // JSON list of the values that a refused field may have, beside null, false, "", [] and {}. After '=' only null and
  // the listed ones.
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
