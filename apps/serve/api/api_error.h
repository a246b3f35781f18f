// Errors of refused requests, in the words of each dialect.
#pragma once
#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "tenon/core/error.h"

namespace serve {

enum class Dialect { lorax, openai, anthropic, ollama };

// anthropic for /v1/messages and below; openai for everything else below /v1, known or not; ollama below /api; lorax
// for the rest.
Dialect dialect_of(std::string_view path);

struct ApiError : std::runtime_error {
  enum class Kind {
    malformed,         // no JSON, or no object
    invalid,           // a field that is out of range, of another type, or asks for what is not supported
    prompt_too_long,   // or the prompt and the answer that is asked for; clients shorten the conversation
    unknown_adapter,   // or model
    bad_adapter_name,  // a path, or not a valid folder name
    adapter_unusable,  // it exists and does not fit the model
    no_head,           // the model lacks what the route needs, whatever the request says
    unauthorized,
    forbidden,      // a page of an origin that may not ask
    not_permitted,  // a key without the role
    other_key,      // only the key that began a stream can continue it
    other_engine,   // only an engine of the same model, formats and version can continue it
    too_large,
    unsupported_media,
    not_implemented,
    overloaded,
    rate_limited,  // the key's limit per minute is used up
    unavailable,   // loading, draining
    engine,
    incomplete,  // an answer that was cut short
    timeout,
    not_found,  // a route
    method_not_allowed,
  };

  ApiError(Kind kind_, const std::string& message, std::string param_ = {})
      : std::runtime_error(message), kind(kind_), param(std::move(param_)) {}

  Kind kind;
  std::string param;    // the field as the client wrote it; empty: none
  int retry_after = 0;  // seconds; 0: as the kind says
};

// The same error for an absent name and for a name outside the root, so that clients cannot probe paths.
ApiError unknown_adapter(std::string_view name, std::string param = "model");

// An engine's refusal, with its parameters named as in the dialect. Internal errors are not described to clients.
ApiError from(const tenon::Error& error, Dialect dialect);

int status(ApiError::Kind kind, Dialect dialect);
const char* type_of(ApiError::Kind kind);  // LoRAX's error_type, for logs
// JSON on one line.
std::string body(const ApiError& error, Dialect dialect);
// Seconds for the Retry-After header; empty if a retry cannot help.
std::optional<int> retry_after(const ApiError& error);

// A client's text, fit for a message: control characters and what is not UTF-8 become \xNN, and what is longer is cut.
std::string shown(std::string_view text, std::size_t limit = 200);

}  // namespace serve
