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

enum class Dialect { lorax, openai, anthropic };

// anthropic for /v1/messages and below; openai for everything else below /v1, known or not; lorax for the rest.
Dialect dialect_of(std::string_view path);

struct ApiError : std::runtime_error {
  enum class Kind {
    malformed,         // no JSON, or no object
    invalid,           // a field that is out of range, of another type, or asks for what is not supported
    unknown_adapter,   // or model
    bad_adapter_name,  // a path, or what no folder may be called
    adapter_unusable,  // it is there, and does not fit
    no_head,           // the model lacks what the route needs, whatever the request says
    unauthorized,
    forbidden,      // a page of an origin that may not ask
    not_permitted,  // a key without the role
    other_key,      // a stream can be continued with the key that began it alone
    other_engine,   // and by an engine of the same model, formats and version
    too_large,
    unsupported_media,
    not_implemented,
    overloaded,
    rate_limited,  // the key's minute is used up
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

// The same for a name that is absent and for one that lies outside the root.
ApiError unknown_adapter(std::string_view name, std::string param = "model");

// What the engine refuses, with its parameters called as the dialect calls them. What it breaks is not told to clients.
ApiError from(const tenon::Error& error, Dialect dialect);

int status(ApiError::Kind kind, Dialect dialect);
const char* type_of(ApiError::Kind kind);  // LoRAX's error_type, for logs
// JSON on one line.
std::string body(const ApiError& error, Dialect dialect);
// Seconds, for the header; none where trying again does not help.
std::optional<int> retry_after(const ApiError& error);

// A client's text, fit for a message: control characters and what is not UTF-8 become \xNN, and what is longer is cut.
std::string shown(std::string_view text, std::size_t limit = 200);

}  // namespace serve
