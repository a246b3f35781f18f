#include "serve/api/api_error.h"

#include <array>

#include "serve/text.h"
#include "tenon/io/hex.h"
#include "tenon/io/json.h"
#include "tenon/tokenizer/unicode.h"

namespace serve {
namespace {

using Kind = ApiError::Kind;

struct Wire {
  int status;
  const char* type;
  const char* code = nullptr;  // openai only
  const char* prefix = "";     // of the message; lorax only
};

constexpr const char* kInvalid = "Input validation error: ";
constexpr const char* kFailed = "Request failed during generation: ";

Wire lorax_wire(Kind kind) {
  switch (kind) {
    case Kind::malformed:
    case Kind::no_head:
    case Kind::other_engine:
      return {400, "validation"};
    case Kind::invalid:
    case Kind::prompt_too_long:
    case Kind::bad_adapter_name:
      return {422, "validation", nullptr, kInvalid};
    case Kind::unknown_adapter:
    case Kind::adapter_unusable:
    case Kind::engine:
      return {424, "generation", nullptr, kFailed};
    case Kind::unauthorized:
      return {401, "authentication"};
    case Kind::forbidden:
      return {403, "forbidden"};
    case Kind::not_permitted:  // LoRAX's client takes 403 for a shard that is not ready
    case Kind::other_key:
      return {401, "authentication"};
    case Kind::too_large:
      return {413, "validation"};
    case Kind::unsupported_media:
      return {415, "validation"};
    case Kind::not_implemented:
      return {501, "not_implemented"};
    case Kind::overloaded:
      return {429, "overloaded"};
    case Kind::rate_limited:
      return {429, "rate_limited"};
    case Kind::unavailable:
      return {503, "overloaded"};
    case Kind::incomplete:
      return {500, "incomplete_generation"};
    case Kind::timeout:
      return {504, "timeout"};
    case Kind::not_found:
      return {404, "not_found"};
    case Kind::method_not_allowed:
      return {405, "method_not_allowed"};
  }
  return {500, "generation"};
}

Wire openai_wire(Kind kind) {
  switch (kind) {
    case Kind::malformed:
    case Kind::invalid:
    case Kind::adapter_unusable:
    case Kind::no_head:
      return {400, "invalid_request_error"};
    case Kind::prompt_too_long:
      return {400, "invalid_request_error", "context_length_exceeded"};
    case Kind::unknown_adapter:
    case Kind::bad_adapter_name:
      return {404, "invalid_request_error", "model_not_found"};
    case Kind::unauthorized:
      return {401, "authentication_error", "invalid_api_key"};
    case Kind::forbidden:
      return {403, "permission_error", "origin_not_allowed"};
    case Kind::not_permitted:
      return {403, "permission_error", "role_not_allowed"};
    case Kind::other_key:
      return {403, "permission_error", "stream_of_another_key"};
    case Kind::other_engine:
      return {400, "invalid_request_error", "stream_of_another_engine"};
    case Kind::too_large:
      return {413, "invalid_request_error"};
    case Kind::unsupported_media:
      return {415, "invalid_request_error"};
    case Kind::not_implemented:
      return {501, "not_supported_error"};
    case Kind::overloaded:
      return {429, "rate_limit_error", "overloaded"};
    case Kind::rate_limited:
      return {429, "rate_limit_error", "rate_limit_exceeded"};
    case Kind::unavailable:
      return {503, "server_error"};
    case Kind::engine:
      return {500, "server_error", "engine_failed"};
    case Kind::incomplete:
      return {500, "server_error"};
    case Kind::timeout:
      return {504, "server_error", "timeout"};
    case Kind::not_found:
      return {404, "not_found_error"};
    case Kind::method_not_allowed:
      return {405, "invalid_request_error"};
  }
  return {500, "server_error"};
}

Wire anthropic_wire(Kind kind) {
  switch (kind) {
    case Kind::malformed:
    case Kind::invalid:
    case Kind::prompt_too_long:
    case Kind::adapter_unusable:
    case Kind::no_head:
    case Kind::other_engine:
      return {400, "invalid_request_error"};
    case Kind::unknown_adapter:
    case Kind::bad_adapter_name:
    case Kind::not_found:
      return {404, "not_found_error"};
    case Kind::unauthorized:
      return {401, "authentication_error"};
    case Kind::forbidden:
    case Kind::not_permitted:
    case Kind::other_key:
      return {403, "permission_error"};
    case Kind::too_large:
      return {413, "request_too_large"};
    case Kind::unsupported_media:
      return {415, "invalid_request_error"};
    case Kind::not_implemented:
      return {501, "invalid_request_error"};
    case Kind::overloaded:
      return {529, "overloaded_error"};
    case Kind::rate_limited:
      return {429, "rate_limit_error"};
    case Kind::unavailable:
      return {503, "overloaded_error"};
    case Kind::engine:
    case Kind::incomplete:
      return {500, "api_error"};
    case Kind::timeout:
      return {504, "timeout_error"};
    case Kind::method_not_allowed:
      return {405, "invalid_request_error"};
  }
  return {500, "api_error"};
}

Wire wire(Kind kind, Dialect dialect) {
  switch (dialect) {
    case Dialect::lorax:
      return lorax_wire(kind);
    case Dialect::openai:
    case Dialect::ollama:
      return openai_wire(kind);
    case Dialect::anthropic:
      return anthropic_wire(kind);
  }
  return {500, "server_error"};
}

struct Name {
  std::string_view engine, lorax, openai;
};

constexpr std::array kNames{
    Name{"prompt", "inputs", "prompt"},
    Name{"input_ids", "inputs", "prompt"},
    Name{"text", "inputs", "prompt"},
    Name{"max_new_tokens", "max_new_tokens", "max_tokens"},
    Name{"min_new_tokens", "min_new_tokens", "min_tokens"},
    Name{"top_logprobs", "return_k_alternatives", "logprobs"},
    Name{"prompt_logprobs", "decoder_input_details", "logprobs"},
    Name{"constraint", "response_format", "response_format"},
    Name{"schema", "response_format", "response_format"},
    Name{"finish_within_budget", "response_format", "response_format"},
    Name{"adapter", "merged_adapters", "adapter_id"},
};
constexpr std::array<std::string_view, 15> kCalledAlike{"messages",
                                                        "input",
                                                        "temperature",
                                                        "top_k",
                                                        "top_p",
                                                        "min_p",
                                                        "typical_p",
                                                        "repetition_penalty",
                                                        "presence_penalty",
                                                        "frequency_penalty",
                                                        "logit_bias",
                                                        "stop",
                                                        "seed",
                                                        "n",
                                                        "best_of"};

// Refusals of constraints do.
bool points_into_schema(std::string_view where) { return where.starts_with('#') || where.starts_with("character "); }

// Empty: none of the client's.
std::string param_of(std::string_view where, Dialect dialect) {
  for (const Name& name : kNames)
    if (name.engine == where) return std::string(dialect == Dialect::lorax ? name.lorax : name.openai);
  if (where == "stop" && dialect == Dialect::anthropic) return "stop_sequences";
  for (const std::string_view name : kCalledAlike)
    if (name == where) return std::string(name);
  return points_into_schema(where) ? "response_format" : "";
}

// What the error says, without where.
std::string reason_of(const tenon::Error& error) {
  const std::string_view what = error.what();
  const std::size_t prefix = error.where().empty() ? 0 : error.where().size() + 2;  // ": "
  return shown(what.substr(prefix <= what.size() ? prefix : 0), 1000);
}

ApiError invalid(const tenon::Error& error, Dialect dialect) {
  std::string param = param_of(error.where(), dialect);
  if (param.empty()) return {Kind::invalid, shown(error.what(), 1000)};
  std::string message = "`" + param + "`: ";
  if (points_into_schema(error.where())) message += shown(error.where()) + ": ";
  return {Kind::invalid, message + reason_of(error), std::move(param)};
}

bool is_about_an_adapter(const tenon::Error& error) { return error.where().starts_with("adapter"); }

// "adapter team/weather: is not known", which the store of adapters may have put its own "adapter weather: " before.
ApiError about_adapter(const tenon::Error& error, Dialect dialect) {
  using Of = tenon::Error::Kind;
  const std::string reason = reason_of(error);
  const bool of_lookup = error.kind() == Of::io || error.kind() == Of::invalid_request;
  // What is wrong with the files of an adapter names them: adapter_config.json, adapter_model.safetensors.
  if (of_lookup && error.where().starts_with("adapter ") && !reason.starts_with("adapter_")) {
    const std::string named = reason.starts_with("adapter ") ? reason : error.where();
    const std::string name = named.substr(8, named.find(": ") == named.npos ? named.npos : named.find(": ") - 8);
    return unknown_adapter(name);
  }
  if (error.kind() == Of::invalid_request && error.where() == "adapter") return invalid(error, dialect);
  return {Kind::adapter_unusable, shown(error.what(), 1000), dialect == Dialect::lorax ? "adapter_id" : "model"};
}

}  // namespace

Dialect dialect_of(std::string_view path) {
  const auto is_below = [&](std::string_view folder) {
    return path.starts_with(folder) &&
           (path.size() == folder.size() || path[folder.size()] == '/' || path[folder.size()] == '?');
  };
  if (is_below("/v1/messages")) return Dialect::anthropic;
  if (is_below("/api")) return Dialect::ollama;
  return is_below("/v1") ? Dialect::openai : Dialect::lorax;
}

ApiError unknown_adapter(std::string_view name, std::string param) {
  return {Kind::unknown_adapter, "the model or adapter `" + shown(name) + "` does not exist", std::move(param)};
}

ApiError from(const tenon::Error& error, Dialect dialect) {
  using Of = tenon::Error::Kind;
  const std::string& where = error.where();
  switch (error.kind()) {
    case Of::overloaded:
      if (where == "service") return {Kind::unavailable, "the server is not taking requests: it " + reason_of(error)};
      return {Kind::overloaded, "the server is overloaded: " + reason_of(error)};
    case Of::capacity:
      if (where == "prompt" || where == "text" || where == "max_new_tokens") {
        ApiError refusal = invalid(error, dialect);
        refusal.kind = Kind::prompt_too_long;
        return refusal;
      }
      if (where.starts_with("adapter ")) return about_adapter(error, dialect);  // one that is larger than all room
      if (where == "adapter") return {Kind::adapter_unusable, "more adapters at once than this server holds"};
      return {Kind::overloaded, "the server is overloaded: " + shown(error.what(), 1000)};
    case Of::invalid_request:
    case Of::unsupported:
      return is_about_an_adapter(error) ? about_adapter(error, dialect) : invalid(error, dialect);
    case Of::invalid_file:
    case Of::io:
      if (is_about_an_adapter(error)) return about_adapter(error, dialect);
      break;
    case Of::internal:
      break;
  }
  return {Kind::engine, "the engine could not answer this request"};
}

int status(Kind kind, Dialect dialect) { return wire(kind, dialect).status; }
const char* type_of(Kind kind) { return wire(kind, Dialect::lorax).type; }

std::string body(const ApiError& error, Dialect dialect) {
  const Wire as = wire(error.kind, dialect);
  tenon::OrderedJson json;
  if (dialect == Dialect::lorax) {
    json["error"] = std::string(as.prefix) + error.what();
    json["error_type"] = as.type;
  } else if (dialect == Dialect::ollama) {
    json["error"] = error.what();
  } else if (dialect == Dialect::anthropic) {
    json = {{"type", "error"}, {"error", tenon::OrderedJson{{"type", as.type}, {"message", error.what()}}}};
  } else {
    tenon::OrderedJson& inner = json["error"];
    inner["message"] = error.what();
    inner["type"] = as.type;
    inner["param"] = error.param.empty() ? tenon::OrderedJson() : tenon::OrderedJson(error.param);
    inner["code"] = as.code ? tenon::OrderedJson(as.code) : tenon::OrderedJson();
  }
  return json.dump(-1, ' ', false, tenon::OrderedJson::error_handler_t::replace);
}

std::optional<int> retry_after(const ApiError& error) {
  if (error.retry_after > 0) return error.retry_after;
  if (error.kind == Kind::overloaded || error.kind == Kind::rate_limited || error.kind == Kind::unavailable) return 1;
  return std::nullopt;
}

std::string shown(std::string_view text, std::size_t limit) {
  std::string out;
  while (!text.empty()) {
    const tenon::CodePoint point = tenon::decode_utf8(text, 0);
    const std::string_view character = text.substr(0, static_cast<std::size_t>(point.length));
    std::string piece;
    if (point.status != tenon::Utf8Status::valid || is_control(point.value)) {
      for (const char c : character) piece += "\\x" + tenon::hex_of(static_cast<unsigned char>(c), 2);
    } else {
      piece = character;
    }
    if (out.size() + piece.size() > limit) return out + "...";
    out += piece;
    text.remove_prefix(character.size());
  }
  return out;
}

}  // namespace serve
