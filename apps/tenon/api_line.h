// Lines of `tenon verify --from-api`: a request to OpenAI's API, and the answer that a server gave.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "request_line.h"
#include "tenon/core/error.h"
#include "tenon/core/views.h"
#include "tenon/io/json.h"

namespace program {

// Stands in texts for bytes that are no character.
inline constexpr std::string_view kUnknownCharacter = "\xEF\xBF\xBD";

// A token as an answer lists it.
struct ListedToken {
  std::string text;  // its bytes, or its text where the API tells no bytes
  double logprob;    // NaN: not told
  bool is_exact;     // false: U+FFFD in the text may stand for any bytes
};

// A choice of a server's answer.
struct ApiChoice {
  std::string text;                                     // of a completion, or the content of a message
  std::optional<std::string> reasoning = {};            // none: the server tells none
  std::vector<std::string> calls = {};                  // of functions: name and arguments, in one form
  std::string reason = {};                              // finish_reason; empty: none
  std::vector<ListedToken> listed = {};                 // logprobs; empty: none
  std::optional<std::vector<tenon::TokenId>> ids = {};  // token_ids, where the server tells them
};

// An answer as a server gave it.
struct ApiAnswer {
  std::vector<ApiChoice> choices;       // by index
  std::string fingerprint;              // system_fingerprint; empty: none
  std::optional<std::int64_t> created;  // seconds since 1970
  std::optional<int> prompt_tokens;     // of the usage
  std::optional<int> written_tokens;    // of the usage: completion_tokens, of all choices
};

struct ApiLine {
  std::string id = "null";  // as JSON text
  // Fields that prevent a comparison, and why. Empty: the line can be compared.
  std::map<std::string, std::string> refused;
  ParsedRequest parsed;
  bool seed_given = false;
  ApiAnswer answer;
};

// The field and the reason of an error.
std::pair<std::string, std::string> refusal_of(const tenon::Error& error);

// number: of the line in the input, from 1. adapter_root: a `model` that is an adapter there is that adapter; empty: no
// model is one.
ApiLine parse_api_line(std::string_view line, int number, const std::filesystem::path& adapter_root);

// The calls of a message in one form, so that equal calls compare equal: `arguments` as JSON values where they are
// JSON.
std::vector<std::string> calls_of(const tenon::OrderedJson& message);

}  // namespace program
