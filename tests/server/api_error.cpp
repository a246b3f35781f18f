#include "serve/api/api_error.h"

#include <boost/test/unit_test.hpp>

#include "refused.h"
#include "serve/api/body.h"
#include "tenon/constrain/refused.h"
#include "tenon/io/json.h"

BOOST_AUTO_TEST_SUITE(server_api_error)

using namespace serve;
using serve::test::mentions;
using Kind = ApiError::Kind;
using Of = tenon::Error::Kind;
using tenon::Error;
using tenon::Json;

namespace {

struct Row {
  Kind kind;
  int lorax;
  const char* error_type;
  int openai;
  const char* type;
  Json code;
  int anthropic;
  const char* anthropic_type;
};

const Row kTable[]{
    {Kind::malformed, 400, "validation", 400, "invalid_request_error", nullptr, 400, "invalid_request_error"},
    {Kind::invalid, 422, "validation", 400, "invalid_request_error", nullptr, 400, "invalid_request_error"},
    {Kind::prompt_too_long, 422, "validation", 400, "invalid_request_error", "context_length_exceeded", 400,
     "invalid_request_error"},
    {Kind::unknown_adapter, 424, "generation", 404, "invalid_request_error", "model_not_found", 404, "not_found_error"},
    {Kind::bad_adapter_name, 422, "validation", 404, "invalid_request_error", "model_not_found", 404,
     "not_found_error"},
    {Kind::adapter_unusable, 424, "generation", 400, "invalid_request_error", nullptr, 400, "invalid_request_error"},
    {Kind::no_head, 400, "validation", 400, "invalid_request_error", nullptr, 400, "invalid_request_error"},
    {Kind::unauthorized, 401, "authentication", 401, "authentication_error", "invalid_api_key", 401,
     "authentication_error"},
    {Kind::forbidden, 403, "forbidden", 403, "permission_error", "origin_not_allowed", 403, "permission_error"},
    {Kind::not_permitted, 401, "authentication", 403, "permission_error", "role_not_allowed", 403, "permission_error"},
    {Kind::other_key, 401, "authentication", 403, "permission_error", "stream_of_another_key", 403, "permission_error"},
    {Kind::other_engine, 400, "validation", 400, "invalid_request_error", "stream_of_another_engine", 400,
     "invalid_request_error"},
    {Kind::too_large, 413, "validation", 413, "invalid_request_error", nullptr, 413, "request_too_large"},
    {Kind::unsupported_media, 415, "validation", 415, "invalid_request_error", nullptr, 415, "invalid_request_error"},
    {Kind::not_implemented, 501, "not_implemented", 501, "not_supported_error", nullptr, 501, "invalid_request_error"},
    {Kind::overloaded, 429, "overloaded", 429, "rate_limit_error", "overloaded", 529, "overloaded_error"},
    {Kind::rate_limited, 429, "rate_limited", 429, "rate_limit_error", "rate_limit_exceeded", 429, "rate_limit_error"},
    {Kind::unavailable, 503, "overloaded", 503, "server_error", nullptr, 503, "overloaded_error"},
    {Kind::engine, 424, "generation", 500, "server_error", "engine_failed", 500, "api_error"},
    {Kind::incomplete, 500, "incomplete_generation", 500, "server_error", nullptr, 500, "api_error"},
    {Kind::timeout, 504, "timeout", 504, "server_error", "timeout", 504, "timeout_error"},
    {Kind::not_found, 404, "not_found", 404, "not_found_error", nullptr, 404, "not_found_error"},
    {Kind::method_not_allowed, 405, "method_not_allowed", 405, "invalid_request_error", nullptr, 405,
     "invalid_request_error"},
};

}  // namespace

BOOST_AUTO_TEST_CASE(every_kind_has_its_status_and_its_body_in_each_dialect) {
  for (const Row& row : kTable) {
    const ApiError error(row.kind, "what", "field");
    BOOST_TEST(status(row.kind, Dialect::lorax) == row.lorax);
    BOOST_TEST(status(row.kind, Dialect::openai) == row.openai);
    const Json lorax = Json::parse(body(error, Dialect::lorax));
    BOOST_TEST(lorax.size() == 2U);
    BOOST_TEST(lorax["error_type"] == row.error_type);
    BOOST_TEST(lorax["error"].get<std::string>().ends_with("what"));
    const Json openai = Json::parse(body(error, Dialect::openai));
    BOOST_TEST(openai["error"] ==
               Json({{"message", "what"}, {"type", row.type}, {"param", "field"}, {"code", row.code}}));
    BOOST_TEST(status(row.kind, Dialect::anthropic) == row.anthropic);
    BOOST_TEST(body(error, Dialect::anthropic) ==
               std::string(R"({"type":"error","error":{"type":")") + row.anthropic_type + R"(","message":"what"}})");
    // 403 is ShardNotReadyError to LoRAX's client, which is no page in a browser.
    BOOST_TEST(((status(row.kind, Dialect::lorax) == 403) == (row.kind == Kind::forbidden)));
  }
}

BOOST_AUTO_TEST_CASE(lorax_prefixes_its_messages) {
  const auto said = [](Kind kind) {
    return Json::parse(body({kind, "x"}, Dialect::lorax))["error"].get<std::string>();
  };
  BOOST_TEST(said(Kind::invalid) == "Input validation error: x");
  BOOST_TEST(said(Kind::bad_adapter_name) == "Input validation error: x");
  BOOST_TEST(said(Kind::engine) == "Request failed during generation: x");
  BOOST_TEST(said(Kind::adapter_unusable) == "Request failed during generation: x");
  BOOST_TEST(said(Kind::malformed) == "x");
  BOOST_TEST(body(unknown_adapter("a/b"), Dialect::lorax) ==
             R"({"error":"Request failed during generation: the model or adapter `a/b` does not exist",)"
             R"("error_type":"generation"})");
  BOOST_TEST(body(unknown_adapter("a/b"), Dialect::openai) ==
             R"({"error":{"message":"the model or adapter `a/b` does not exist","type":"invalid_request_error",)"
             R"("param":"model","code":"model_not_found"}})");
}

BOOST_AUTO_TEST_CASE(no_field_is_a_null_param) {
  BOOST_TEST(Json::parse(body({Kind::malformed, "x"}, Dialect::openai))["error"]["param"].is_null());
}

BOOST_AUTO_TEST_CASE(bodies_are_one_line_of_valid_json_whatever_they_say) {
  for (const Dialect dialect : {Dialect::lorax, Dialect::openai, Dialect::anthropic}) {
    const std::string text = body({Kind::invalid, "a\n\"b\" \xff\xc3", "x\ny"}, dialect);
    BOOST_TEST(text.find('\n') == text.npos);
    BOOST_TEST(Json::accept(text));
  }
}

BOOST_AUTO_TEST_CASE(only_what_passes_may_be_tried_again) {
  for (const Row& row : kTable) {
    const bool passes = row.lorax == 429 || row.lorax == 503;
    BOOST_TEST(retry_after(ApiError(row.kind, "")).value_or(0) == (passes ? 1 : 0));
  }
}

BOOST_AUTO_TEST_CASE(dialects_go_by_paths) {
  for (const char* const path : {"/api", "/api/chat", "/api/nope"})
    BOOST_TEST((dialect_of(path) == Dialect::ollama), path);
  for (const char* const path : {"/v1/messages", "/v1/messages/", "/v1/messages?beta=true", "/v1/messages/batches"})
    BOOST_TEST((dialect_of(path) == Dialect::anthropic), path);
  for (const char* const path :
       {"/v1", "/v1/", "/v1/completions", "/v1/nope", "/v1/models/a/b", "/v1?x", "/v1/message", "/v1/messagesx"})
    BOOST_TEST((dialect_of(path) == Dialect::openai), path);
  for (const char* const path : {"", "/", "/generate", "/apis", "/v1x", "/v10/x", "/V1/x", "v1/x", "/a/v1/"})
    BOOST_TEST((dialect_of(path) == Dialect::lorax), path);
}

BOOST_AUTO_TEST_CASE(shown_texts_are_short_and_without_control_characters) {
  BOOST_TEST(shown("caf\xc3\xa9 \xe6\x97\xa5 \xf0\x9f\x98\x80") == "caf\xc3\xa9 \xe6\x97\xa5 \xf0\x9f\x98\x80");
  BOOST_TEST(shown("a\nb\r\x1b[0m\x7f") == "a\\x0ab\\x0d\\x1b[0m\\x7f");
  BOOST_TEST(shown(std::string_view("a\0b", 3)) == "a\\x00b");
  BOOST_TEST(shown("\xc2\x85 \xe2\x80\xa8") == "\\xc2\\x85 \\xe2\\x80\\xa8");
  BOOST_TEST(shown(std::string(5000, 'x')) == std::string(200, 'x') + "...");
  BOOST_TEST(shown(std::string(200, 'x')) == std::string(200, 'x'));
  BOOST_TEST(shown("ab\xc3\xa9", 3) == "ab...");  // never half a character
}

BOOST_AUTO_TEST_CASE(shown_texts_are_utf8) {
  BOOST_TEST(shown("\xff\xc0\xaf\x80") == "\\xff\\xc0\\xaf\\x80");
  BOOST_TEST(shown("\xed\xa0\x80") == "\\xed\\xa0\\x80");           // a surrogate
  BOOST_TEST(shown("\xe0\x80\xaf") == "\\xe0\\x80\\xaf");           // too long a spelling
  BOOST_TEST(shown("\xf4\x90\x80\x80") == "\\xf4\\x90\\x80\\x80");  // past U+10FFFF
  BOOST_TEST(shown("\xe6\x97") == "\\xe6\\x97");                    // cut short
}

BOOST_AUTO_TEST_CASE(errors_of_the_engine_name_the_parameter_as_the_dialect_does) {
  const auto param = [](const char* where, Dialect dialect) {
    return from(Error(Of::invalid_request, where, "is wrong"), dialect).param;
  };
  struct Case {
    const char *where, *lorax, *openai;
  };
  for (const Case& c : std::initializer_list<Case>{{"max_new_tokens", "max_new_tokens", "max_tokens"},
                                                   {"min_new_tokens", "min_new_tokens", "min_tokens"},
                                                   {"prompt", "inputs", "prompt"},
                                                   {"input_ids", "inputs", "prompt"},
                                                   {"top_p", "top_p", "top_p"},
                                                   {"constraint", "response_format", "response_format"},
                                                   {"#/properties/a", "response_format", "response_format"},
                                                   {"something", "", ""}}) {
    BOOST_TEST(param(c.where, Dialect::lorax) == c.lorax);
    BOOST_TEST(param(c.where, Dialect::openai) == c.openai);
  }
  BOOST_TEST(param("stop", Dialect::openai) == "stop");
  BOOST_TEST(param("stop", Dialect::anthropic) == "stop_sequences");
  BOOST_TEST(param("max_new_tokens", Dialect::anthropic) == "max_tokens");
  const ApiError error = from(Error(Of::invalid_request, "max_new_tokens", "5 and 6"), Dialect::openai);
  BOOST_TEST(error.what() == "`max_tokens`: 5 and 6");
  BOOST_TEST((error.kind == Kind::invalid));
}

BOOST_AUTO_TEST_CASE(refused_constraints_say_where) {
  const tenon::constrain::Refused refusal(Of::unsupported, "#/properties/a/pattern", "too complex: states");
  const ApiError error = from(refusal, Dialect::lorax);
  BOOST_TEST((error.kind == Kind::invalid));
  BOOST_TEST(error.what() == "`response_format`: #/properties/a/pattern: too complex: states");
}

BOOST_AUTO_TEST_CASE(a_lack_of_room_is_an_overload_unless_the_prompt_is_too_long) {
  const auto kind = [](Of of, const char* where) { return from(Error(of, where, "x"), Dialect::openai).kind; };
  BOOST_TEST((kind(Of::overloaded, "max_open") == Kind::overloaded));
  BOOST_TEST((kind(Of::overloaded, "service") == Kind::unavailable));
  BOOST_TEST((kind(Of::overloaded, "adapter") == Kind::overloaded));
  BOOST_TEST((kind(Of::capacity, "adapter") == Kind::adapter_unusable));
  BOOST_TEST((kind(Of::capacity, "cache") == Kind::overloaded));
  BOOST_TEST((kind(Of::capacity, "adapter big") == Kind::adapter_unusable));
  BOOST_TEST((kind(Of::capacity, "prompt") == Kind::prompt_too_long));
  BOOST_TEST((kind(Of::capacity, "max_new_tokens") == Kind::prompt_too_long));
}

BOOST_AUTO_TEST_CASE(errors_of_adapters) {
  const auto of = [](Of kind, const char* where, const char* what) {
    return from(Error(kind, where, what), Dialect::lorax);
  };
  const ApiError unknown = of(Of::io, "adapter weather", "adapter team/weather: is not known");
  BOOST_TEST((unknown.kind == Kind::unknown_adapter));
  BOOST_TEST(mentions(unknown.what(), "`team/weather`"));
  BOOST_TEST(mentions(of(Of::io, "adapter weather", "is not known").what(), "`weather`"));
  const ApiError outside = of(Of::invalid_request, "adapter w", "adapter w: lies outside the adapter root");
  BOOST_TEST(outside.what() == of(Of::io, "adapter w", "is not known").what());
  BOOST_TEST((of(Of::io, "adapter w", "adapter_config.json: the file does not exist").kind == Kind::adapter_unusable));
  BOOST_TEST((of(Of::unsupported, "adapter w", "adapter_config.json: r: must be ...").kind == Kind::adapter_unusable));
  BOOST_TEST((of(Of::invalid_file, "adapter_model.safetensors: t", "shape").kind == Kind::adapter_unusable));
  BOOST_TEST((of(Of::invalid_request, "adapter", "at most 8 can be added up").kind == Kind::invalid));
}

BOOST_AUTO_TEST_CASE(what_the_engine_breaks_is_not_told) {
  for (const Of kind : {Of::internal, Of::io, Of::invalid_file}) {
    const ApiError error = from(Error(kind, "/home/somebody/file", "secret"), Dialect::openai);
    BOOST_TEST((error.kind == Kind::engine));
    BOOST_TEST(!mentions(error.what(), "secret"));
    BOOST_TEST(!mentions(error.what(), "somebody"));
  }
}

BOOST_AUTO_TEST_CASE(what_is_no_json_object_is_malformed) {
  using serve::test::nested;
  using serve::test::refused;
  for (const std::string& text : std::initializer_list<std::string>{"",
                                                                    "   ",
                                                                    "{",
                                                                    "{not json",
                                                                    R"({"a": 1)",
                                                                    R"({"a": 1} x)",
                                                                    "[]",
                                                                    "1",
                                                                    "null",
                                                                    R"("text")",
                                                                    "[1, {}]",
                                                                    R"({"a": 1, "a": 1})",
                                                                    R"({"x": {"a": 1, "a": 2}})",
                                                                    R"({"a": 1e400})",
                                                                    R"({"a": NaN})",
                                                                    R"({"a": 'x'})",
                                                                    R"({"a": 01})",
                                                                    "{\"a\": \"\xff\"}",
                                                                    "{\"a\": \"\xc3\"}",
                                                                    R"({"a": "\ud800"})",
                                                                    R"({"a": "\udc00x"})",
                                                                    R"({"a": "\ud800\u0041"})",
                                                                    "{\"a\": \"\n\"}",
                                                                    std::string("{\"a\": \"\0\"}", 10),
                                                                    "\xef\xbb\xbf{}",
                                                                    "{" + nested(64) + "}",
                                                                    "{" + nested(100'000) + "}",
                                                                    std::string(1'000'000, '[')}) {
    const auto was = refused([&] { parse_body(text); });
    BOOST_TEST(was.lorax == 400, text.substr(0, 60));
    BOOST_TEST(was.openai == 400, text.substr(0, 60));
  }
  BOOST_TEST(refused([] { parse_body("{" + nested(63) + "}"); }).openai == 200);
  BOOST_TEST(mentions(refused([] { parse_body("[]"); }).message, "must be a JSON object, is a list"));
}

BOOST_AUTO_TEST_CASE(escaped_nul_characters_are_refused_where_they_stand) {
  using serve::test::refused;
  for (const char* const text : {R"({"x": "a\u0000b"})", R"({"x": [{"y": "\u0000"}]})", R"({"x": {"\u0000": 1}})"}) {
    const auto was = refused([&] { parse_body(text); });
    BOOST_TEST(was.lorax == 422);
    BOOST_TEST(was.openai == 400);
    BOOST_TEST(was.param == "x");
  }
  BOOST_TEST(refused([] { parse_body(R"({"x": "\\u0000"})"); }).openai == 200);
  BOOST_TEST(refused([] { parse_body(R"({"prediction": {"content": "a\u0000b"}})"); }).openai == 200);
  BOOST_TEST(refused([] { parse_body(R"({"\u0000": "\u0000"})"); }).param == "\\x00");
}

BOOST_AUTO_TEST_CASE(a_body_of_too_many_values_is_refused_and_its_order_is_kept) {
  std::string many = R"({"a": [)";
  for (int i = 0; i < 600'000; ++i) many += "{},";
  BOOST_TEST(serve::test::refused([&] { parse_body(many + "{}]}"); }).openai == 400);
  BOOST_TEST(parse_body(R"({"z": {"y": 1, "b": 2}, "a": 3})").ordered().dump() == R"({"z":{"y":1,"b":2},"a":3})");
  BOOST_TEST((parse_body(R"({"n": 18446744073709551615})").json["n"] == 18446744073709551615U));
}

BOOST_AUTO_TEST_SUITE_END()
