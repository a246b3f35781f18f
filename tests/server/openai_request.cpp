#include "serve/api/openai/openai_request.h"

#include <boost/test/unit_test.hpp>

#include "refused.h"

BOOST_AUTO_TEST_SUITE(server_openai_request)

using namespace serve;
using serve::test::mentions;
using serve::test::nested;
using serve::test::Refused;
using serve::test::times;
using Ids = std::vector<tenon::TokenId>;

namespace {

const RequestLimits kLimits{.max_input_tokens = 768, .max_total_tokens = 1024};

const RequestContext kContext{.limits = kLimits, .base_names = {"base"}};

CompletionRequest completion(const std::string& body) { return parse_completion(body, kContext); }
ChatRequest chat(const std::string& body) { return parse_chat(body, kContext); }

std::string completion_body(const std::string& fields) {
  return R"({"prompt": "hi")" + (fields.empty() ? "" : ", " + fields) + "}";
}
std::string chat_body(const std::string& fields) {
  return R"({"messages": [{"role": "user", "content": "hi"}])" + (fields.empty() ? "" : ", " + fields) + "}";
}
CompletionRequest with(const std::string& fields) { return completion(completion_body(fields)); }
ChatRequest chat_with(const std::string& fields) { return chat(chat_body(fields)); }

void check(const Refused& was, const std::string& param, const std::string& of) {
  BOOST_TEST(was.openai == 400, of.substr(0, 100));
  BOOST_TEST(was.param == param, of.substr(0, 100) << " -> " << was.message);
  BOOST_TEST(mentions(was.message, "`" + param + "`"), was.message);
}
void check_completion(const std::string& body, const std::string& param) {
  check(serve::test::refused([&] { completion(body); }), param, body);
}
void check_chat(const std::string& body, const std::string& param) {
  check(serve::test::refused([&] { chat(body); }), param, body);
}
// On both routes.
void check_both(const std::string& fields, const std::string& param) {
  check_completion(completion_body(fields), param);
  check_chat(chat_body(fields), param);
}
void check_each(const std::string& field, std::initializer_list<const char*> values) {
  for (const char* const value : values) check_both('"' + field + "\": " + value, field);
}

}  // namespace

BOOST_AUTO_TEST_CASE(defaults) {
  const CompletionRequest r = with(R"("future": null, "user": "u", "metadata": {}, "store": true, "temperature": null,
                                      "stop": null, "stream_options": null, "response_format": null, "suffix": null)");
  BOOST_TEST(r.model.empty());
  BOOST_TEST(r.adapters.empty());
  BOOST_TEST(r.options.temperature == 1);
  BOOST_TEST(r.options.top_p == 1);
  BOOST_TEST(r.options.top_k == 0);
  BOOST_TEST(r.options.min_p == 0);
  BOOST_TEST(r.options.repetition_penalty == 1);
  BOOST_TEST((r.options.presence_penalty == 0 && r.options.frequency_penalty == 0));
  BOOST_TEST(r.options.logit_bias.empty());
  BOOST_TEST(r.options.min_new_tokens == 0);
  BOOST_TEST(r.options.n == 1);
  BOOST_TEST(r.options.stop.empty());
  BOOST_TEST(r.options.top_logprobs == -1);
  BOOST_TEST((!r.options.ignore_eos && !r.seed_given && !r.stream && !r.include_usage && !r.echo));
  BOOST_TEST(*r.max_tokens == 16);
  BOOST_TEST(!r.logprobs.has_value());
  BOOST_TEST(!r.form.has_value());
  BOOST_TEST((r.options.skip_special_tokens && r.parse_special && r.add_special_tokens));
  BOOST_TEST((r.prompts == std::vector<CompletionRequest::Prompt>{"hi"}));
  BOOST_TEST(!chat_with("").max_tokens.has_value());
}

BOOST_AUTO_TEST_CASE(every_shared_field_is_read_on_both_routes) {
  const std::string fields = R"("model": "team/a", "temperature": 2, "top_p": 0.5, "top_k": 5, "min_p": 0.1,
      "repetition_penalty": 1.5, "presence_penalty": -2, "frequency_penalty": 2, "logit_bias": {"0": -100, "50": 1.5},
      "seed": 7, "n": 8, "stop": ["a", "b"], "stream": true, "stream_options": {"include_usage": true}, "max_tokens": 9,
      "adapter_source": "local", "api_token": "x", "service_tier": "auto")";
  for (const SamplingRequest& r : {SamplingRequest(with(fields)), SamplingRequest(chat_with(fields))}) {
    BOOST_TEST(r.model == "team/a");
    BOOST_TEST((r.adapters == std::vector<tenon::AdapterUse>{{"team/a", 1}}));
    BOOST_TEST(r.adapter_field == "model");
    const tenon::Options& o = r.options;
    BOOST_TEST((o.temperature == 2 && o.top_p == 0.5F && o.top_k == 5 && o.min_p == 0.1F));
    BOOST_TEST((o.repetition_penalty == 1.5F && o.presence_penalty == -2 && o.frequency_penalty == 2));
    BOOST_TEST((o.logit_bias == std::vector<std::pair<tenon::TokenId, float>>{{0, -100.0F}, {50, 1.5F}}));
    BOOST_TEST((o.seed == 7 && r.seed_given));
    BOOST_TEST(o.n == 8);
    BOOST_TEST(o.stop == (std::vector<std::string>{"a", "b"}));
    BOOST_TEST((r.stream && r.include_usage));
    BOOST_TEST(*r.max_tokens == 9);
    BOOST_TEST(r.length_field == "max_tokens");
  }
}

BOOST_AUTO_TEST_CASE(shared_bounds_and_types) {
  check_each("temperature", {"-1", "-0.5", "2.5", "1e39", "true", R"("1")", "[]", "{}"});
  check_each("top_p", {"-1", "2", "true", R"("1")"});
  const tenon::Options greedy = chat_with(R"("top_p": 0)").options;
  BOOST_TEST((greedy.temperature == 0 && greedy.top_p == 1));
  check_completion(completion_body(R"("top_p": 0)"), "top_p");
  check_each("top_k", {"-2", "2147483648", "1.5", "12.0", "true", R"("1")"});
  check_each("min_p", {"-0.1", "1.1", "false"});
  check_each("repetition_penalty", {"0", "-1", "1e39", "{}"});
  check_each("presence_penalty", {"9", "-2.5", "true"});
  check_each("frequency_penalty", {"9", "-2.5", R"("0")"});
  check_each("n", {"0", "-1", "9", "1000000000", "9223372036854775808", "1.0", "true", R"("1")", "[1]"});
  check_each("stream", {"1", R"("true")", "{}"});
  check_each("ignore_eos", {"1", R"("true")"});
  check_each("ignore_eos_token", {"1"});
  check_each("min_tokens", {"-1", "2147483648", "1.5", "true"});
  check_each("max_tokens", {"0", "-5", "-2", "9223372036854775808", "18446744073709551616", R"("ten")", "1.5", "true"});
  check_each("model", {"5", "true", "[]"});
  check_each("logit_bias", {"[]", "5", R"({"x": 1})", R"({"-1": 1})", R"({"01": 1})", R"({"1.5": 1})", R"({"": 1})",
                            R"({"4294967297": 1})", R"({"1": 100.5})", R"({"1": true})", R"({"1": null})"});
  check_each("adapter_id", {"5", "[]"});
  check_each("adapter_source", {"5"});
  BOOST_TEST(with(R"("top_k": -1)").options.top_k == 0);
  BOOST_TEST(with(R"("ignore_eos": true)").options.ignore_eos);
  BOOST_TEST(with(R"("ignore_eos_token": true)").options.ignore_eos);
  check_both(R"("ignore_eos_token": true, "ignore_eos": false)", "ignore_eos_token");
  const Refused source = serve::test::refused([] { with(R"("adapter_source": "s3")"); });
  BOOST_TEST(source.message ==
             "`adapter_source=s3` is not supported by this server: it fetches no adapters (--adapter-fetch)");
}

BOOST_AUTO_TEST_CASE(seeds_are_integers_of_64_bits) {
  BOOST_TEST(with(R"("seed": 18446744073709551615)").options.seed == 18446744073709551615U);
  BOOST_TEST(!with(R"("seed": -1)").seed_given);  // vLLM's and llama.cpp's word for a random one
  BOOST_TEST(with(R"("seed": -2)").options.seed == 18446744073709551614U);
  BOOST_TEST(with(R"("seed": -9223372036854775808)").options.seed == 9223372036854775808U);
  BOOST_TEST(with(R"("seed": 0)").seed_given);
  BOOST_TEST(!with(R"("seed": null)").seed_given);
  check_each("seed", {"1.5", "12.0", "18446744073709551616", "-9223372036854775809", "true", R"("7")", "[]"});
}

BOOST_AUTO_TEST_CASE(stop_strings) {
  BOOST_TEST(with(R"("stop": "a")").options.stop == (std::vector<std::string>{"a"}));
  BOOST_TEST(with(R"("stop": [])").options.stop.empty());
  BOOST_TEST(with(R"("stop": [)" + times(10, R"("s")") + "]").options.stop.size() == 10U);
  check_each("stop", {R"("")", R"([""])", "5", "{}", "true", "[5]", "[null]", R"([["a"]])"});
  check_both(R"("stop": [)" + times(11, R"("s")") + "]", "stop");
  check_both(R"("stop": [)" + times(20'000, R"("s")") + "]", "stop");
}

BOOST_AUTO_TEST_CASE(resumable_streams_have_one_answer) {
  BOOST_TEST(with(R"("stream": true, "resumable": true)").resumable);
  BOOST_TEST(!with(R"("stream": true, "resumable": false)").resumable);
  check_both(R"("resumable": true)", "resumable");
  check_both(R"("stream": true, "resumable": 1)", "resumable");
  check_both(R"("stream": true, "resumable": true, "n": 2)", "resumable");
  const auto of_prompts = [](const std::string& list) {
    return serve::test::refused(
        [&] { parse_completion(R"({"stream": true, "resumable": true, "prompt": )" + list + "}", kContext); });
  };
  BOOST_TEST(of_prompts(R"(["a", "b"])").param == "resumable");
  for (const char* const one : {R"("a")", R"(["a"])", "[1, 2]"}) BOOST_TEST(of_prompts(one).openai == 200, one);
}

BOOST_AUTO_TEST_CASE(stream_options_are_for_streams) {
  check_both(R"("stream_options": {"include_usage": true})", "stream_options");
  BOOST_TEST(!with(R"("stream": false, "stream_options": {})").stream);  // asks for nothing
  check_both(R"("stream": true, "stream_options": 5)", "stream_options");
  check_both(R"("stream": true, "stream_options": {"include_usage": 1})", "stream_options.include_usage");
  BOOST_TEST(!with(R"("stream": true, "stream_options": {})").include_usage);
}

BOOST_AUTO_TEST_CASE(models_and_adapters) {
  for (const char* const base : {R"("model": "")", R"("model": "base")", R"("model": null)", R"("adapter_id": "base")",
                                 R"("adapter_id": "", "model": "base")", R"("adapter_id": "__base_model__")"})
    BOOST_TEST(with(base).adapters.empty(), base);
  const CompletionRequest r = with(R"("adapter_id": "a", "model": "base")");
  BOOST_TEST((r.adapters == std::vector<tenon::AdapterUse>{{"a", 1}}));
  BOOST_TEST(r.model == "base");
  BOOST_TEST(r.adapter_field == "adapter_id");
  check_both(R"("adapter_id": "a", "model": "b")", "adapter_id");
  for (const std::string& bad : {std::string("../base"), std::string("/etc/passwd"), std::string(".."),
                                 std::string("a/../b"), std::string("~/x"), std::string(5000, 'x')}) {
    for (const char* const field : {"model", "adapter_id"}) {
      const Refused was = serve::test::refused([&] { with('"' + std::string(field) + R"(": ")" + bad + '"'); });
      BOOST_TEST(was.openai == 404, bad.substr(0, 60));
      BOOST_TEST(was.param == field);
      BOOST_TEST(was.message.size() < 500U);
    }
  }
  // The name is wrong, whatever stands beside it.
  BOOST_TEST(serve::test::refused([] { with(R"("adapter_id": "../a", "model": "b")"); }).openai == 404);
}

BOOST_AUTO_TEST_CASE(response_formats) {
  const auto schema = [](const std::string& format) {
    const auto found = chat_with(R"("response_format": )" + format).form;
    return found ? found->schema.dump() : "none";
  };
  BOOST_TEST(schema(R"({"type": "text"})") == "none");
  BOOST_TEST(schema(R"({"type": "json_object"})") == R"({"type":"object"})");
  BOOST_TEST(schema(R"({"type": "json_object", "schema": {"type": "string", "const": "a"}})") ==
             R"({"type":"string","const":"a"})");
  BOOST_TEST(schema(R"({"type": "json_schema", "json_schema": {"name": "x", "strict": true,
                        "schema": {"properties": {"z": {}, "a": {}}, "$defs": {}}}})") ==
             R"({"properties":{"z":{},"a":{}},"$defs":{}})");
  // report: response_format_schema_dropped
  for (const char* const type : {"json_object", "json_schema"}) {
    for (const char* const key : {"value", "schema", "json_schema", "response_schema"})
      BOOST_TEST(schema(R"({"type": ")" + std::string(type) + "\", \"" + key +
                        R"(": {"type": "string", "const": "a"}})") == R"({"type":"string","const":"a"})",
                 key);
    BOOST_TEST(schema(R"({"type": ")" + std::string(type) + R"(", "json_schema": {"parameters": {"const": 1}}})") ==
               R"({"const":1})");
  }
  check_each(
      "response_format",
      {R"({"type": "yaml"})", R"({"type": 5})", R"("json_object")", "true", R"({"type": "json_schema"})",
       R"({"type": "json_schema", "json_schema": {}})", R"({"type": "json_schema", "json_schema": {"schema": null}})",
       R"({"type": "json_schema", "json_schema": {"schema": "x"}})", R"({"type": "json_schema", "json_schema": 5})",
       R"({"type": "json_object", "schema": [1]})"});
  check_both(
      R"("response_format": {"type": "json_object", "schema": {"enum": [")" + std::string(300'000, 'x') + R"("]}})",
      "response_format");
}

BOOST_AUTO_TEST_CASE(least_lengths) {
  BOOST_TEST(with(R"("min_tokens": 16)").options.min_new_tokens == 16);
  BOOST_TEST(chat_with(R"("min_tokens": 500)").options.min_new_tokens == 500);
  check_completion(completion_body(R"("min_tokens": 17)"), "min_tokens");
  check_both(R"("min_tokens": 6, "max_tokens": 5)", "min_tokens");
  BOOST_TEST(with(R"("min_tokens": 1, "stop": "a")").options.stop.size() == 1U);
  check_both(R"("min_tokens": 1, "response_format": {"type": "json_object"})", "min_tokens");
  BOOST_TEST(with(R"("min_tokens": 0, "stop": "a")").options.stop.size() == 1U);
}

BOOST_AUTO_TEST_CASE(prompts_of_completions) {
  const auto prompts = [](const std::string& prompt) { return completion(R"({"prompt": )" + prompt + "}").prompts; };
  using Prompts = std::vector<CompletionRequest::Prompt>;
  BOOST_TEST((prompts(R"("a")") == Prompts{"a"}));
  BOOST_TEST((prompts(R"(["a", "b"])") == Prompts{"a", "b"}));
  BOOST_TEST((prompts("[1, 2, 0]") == Prompts{Ids{1, 2, 0}}));
  BOOST_TEST((prompts("[[1, 2], [3]]") == Prompts{Ids{1, 2}, Ids{3}}));
  BOOST_TEST((prompts("[1000000000]") == Prompts{Ids{1000000000}}));  // the vocabulary is the engine's to know
  BOOST_TEST(prompts("[" + times(128, R"("a")") + "]").size() == 128U);
  BOOST_TEST(std::get<Ids>(prompts("[" + times(5000, "7") + "]").front()).size() == 5000U);
  const auto refuses = [](const std::string& prompt, const std::string& param = "prompt") {
    check_completion(R"({"prompt": )" + prompt + "}", param);
  };
  for (const char* const bad :
       {R"("")", "[]", "null", "5", "true", R"({"a": 1})", "[true]", "[null]", "[1.5]", "[1, 2.0]", "[-1, 3]",
        "[2147483648]", "[1, true]", R"([1, "a"])", R"(["a", 1])", R"(["a", [1]])", R"([[1], "a"])", "[{}]"})
    refuses(bad);
  refuses(R"(["a", ""])", "prompt[1]");
  refuses("[[1], []]", "prompt[1]");
  refuses("[[]]", "prompt[0]");
  refuses(R"([["a"]])", "prompt[0]");
  refuses("[[[1]]]", "prompt[0]");
  refuses("[" + times(129, R"("a")") + "]");
  check_completion("{}", "prompt");
  check_completion(R"({"prompt": [)" + times(17, R"("a")") + R"(], "n": 8})", "n");
  BOOST_TEST(completion(R"({"prompt": [)" + times(16, R"("a")") + R"(], "n": 8})").prompts.size() == 16U);
}

BOOST_AUTO_TEST_CASE(fields_of_completions) {
  const CompletionRequest r =
      with(R"("logprobs": 5, "echo": true, "suffix": "", "best_of": 2, "n": 2, "max_tokens": 1)");
  BOOST_TEST(*r.logprobs == 5);
  BOOST_TEST(r.echo);
  BOOST_TEST(r.options.top_logprobs == 5);
  BOOST_TEST(r.options.prompt_logprobs == 5);
  BOOST_TEST(*r.max_tokens == 1);
  BOOST_TEST(*with(R"("max_tokens": null)").max_tokens == 16);
  BOOST_TEST(with(R"("logprobs": 0)").options.top_logprobs == 0);
  BOOST_TEST(!with(R"("logprobs": false)").logprobs.has_value());
  BOOST_TEST(with(R"("logprobs": 0)").options.prompt_logprobs == -1);
  BOOST_TEST(with(R"("logprobs": null, "echo": null)").options.top_logprobs == -1);
  const auto refuses = [](const char* field, std::initializer_list<const char*> values) {
    for (const char* const value : values)
      check_completion(completion_body('"' + std::string(field) + "\": " + value), field);
  };
  BOOST_TEST(*with(R"("logprobs": 20)").logprobs == 20);
  refuses("logprobs", {"21", "-1", "99", "1000000", "true", R"("1")", "1.0"});
  refuses("echo", {"1", R"("yes")"});
  refuses("suffix", {R"("x")", "5", "[1]"});
  refuses("best_of", {"0", "2", "1000000", "true", "1.0"});
  check_completion(completion_body(R"("n": 2, "best_of": 3)"), "best_of");
}

BOOST_AUTO_TEST_CASE(messages_of_chats) {
  const ChatRequest r = chat(R"({"messages": [{"role": "system", "content": "be"}, {"role": "developer", "content": ""},
      {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "name": "ann"},
      {"role": "assistant", "content": null, "tool_calls": []}, {"role": "assistant"},
      {"role": "tool", "content": "x", "tool_call_id": "1"}]})");
  const tenon::OrderedJson expected = tenon::OrderedJson::parse(
      R"([{"role": "system", "content": "be"}, {"role": "developer", "content": ""},
          {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "name": "ann"},
          {"role": "assistant", "content": ""}, {"role": "assistant", "content": ""},
          {"role": "tool", "content": "x", "tool_call_id": "1"}])");
  BOOST_TEST(r.conversation.messages.dump() == expected.dump());
  const auto refuses = [](const std::string& list, const std::string& param) {
    check_chat(R"({"messages": )" + list + "}", param);
  };
  check_chat("{}", "messages");
  for (const char* const bad : {"null", "[]", R"("hi")", "5", "{}"}) refuses(bad, "messages");
  refuses("[5]", "messages[0]");
  refuses(R"([{"content": "x"}])", "messages[0].role");
  refuses(R"([{"role": 5, "content": "x"}])", "messages[0].role");
  refuses(R"([{"role": "nobody", "content": "x"}])", "messages[0].role");
  refuses(R"([{"role": "user", "content": "x"}, {"role": "user"}])", "messages[1].content");
  refuses(R"([{"role": "user", "content": null}])", "messages[0].content");
  refuses(R"([{"role": "user", "content": 5}])", "messages[0].content");
  refuses(R"([{"role": "user", "content": {}}])", "messages[0].content");
  refuses(R"([{"role": "user", "content": []}])", "messages[0].content");
  refuses(R"([{"role": "user", "content": ["x"]}])", "messages[0].content[0]");
  refuses(R"([{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}])", "messages[0].content[0].type");
  refuses(R"([{"role": "user", "content": [{"text": "x"}]}])", "messages[0].content[0].type");
  refuses(R"([{"role": "user", "content": [{"type": "text"}]}])", "messages[0].content[0].text");
  refuses(R"([{"role": "user", "content": "x", "name": 5}])", "messages[0].name");
  refuses(R"([{"role": "assistant", "tool_calls": [{}]}])", "messages[0].tool_calls[0].function");
  refuses(R"([{"role": "assistant", "tool_calls": {}}])", "messages[0].tool_calls");
  refuses(R"([{"role": "user", "content": "x", "tool_calls": [{"function": {"name": "f"}}]}])",
          "messages[0].tool_calls");
  for (const char* const arguments :
       {R"("[]")", R"("{")", "5", "{}", R"("{\"a\": [\"\\u0000\"]}")", R"("{\"\\u0000\": 1}")"})
    refuses(R"([{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": )" +
                std::string(arguments) + "}}]}]",
            "messages[0].tool_calls[0].function.arguments");
  // Deeper than a body may be: copies of JSON recurse.
  refuses(R"([{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{\"a\": )" +
              std::string(100'000, '[') + std::string(100'000, ']') + R"(}"}}]}])",
          "messages[0].tool_calls[0].function.arguments");
  refuses(R"([{"role": "assistant", "function_call": {"name": "f"}}])", "messages[0].function_call");
  const std::string one = R"({"role": "user", "content": "x"})";
  BOOST_TEST(chat(R"({"messages": [)" + times(1024, one) + "]}").conversation.messages.size() == 1024U);
  refuses("[" + times(1025, one) + "]", "messages");
}

BOOST_AUTO_TEST_CASE(fields_of_chats) {
  const ChatRequest r = chat_with(R"("logprobs": true, "top_logprobs": 20, "max_completion_tokens": 5, "max_tokens": 5,
      "tools": [], "functions": null, "tool_choice": "none")");
  BOOST_TEST(r.logprobs);
  BOOST_TEST(r.top_logprobs == 20);
  BOOST_TEST(r.options.top_logprobs == 20);
  BOOST_TEST(*r.max_tokens == 5);
  BOOST_TEST(r.length_field == "max_completion_tokens");
  BOOST_TEST(chat_with(R"("logprobs": true)").options.top_logprobs == 0);
  BOOST_TEST(chat_with(R"("logprobs": false, "top_logprobs": 0, "tool_choice": "auto")").options.top_logprobs == -1);
  const auto refuses = [](const char* field, std::initializer_list<const char*> values) {
    for (const char* const value : values) check_chat(chat_body('"' + std::string(field) + "\": " + value), field);
  };
  refuses("logprobs", {"1", "0", R"("x")"});
  refuses("top_logprobs", {"3", "21", "-1", "true"});
  check_chat(chat_body(R"("logprobs": true, "top_logprobs": 99)"), "top_logprobs");
  check_chat(chat_body(R"("logprobs": false, "top_logprobs": 1)"), "top_logprobs");
  refuses("max_completion_tokens", {"0", "-2", R"("5")", "true"});
  check_chat(chat_body(R"("max_completion_tokens": 5, "max_tokens": 0)"), "max_tokens");
  refuses("tools", {"5", "{}"});
  refuses("functions", {R"([{"name": "f"}])"});
  refuses("tool_choice", {R"("required")", R"("any")", R"({"type": "function"})", "5"});
  refuses("function_call", {R"({"name": "f"})"});
  refuses("reasoning_format", {R"("x")", "5"});
  refuses("web_search_options", {"{}", "false"});
}

BOOST_AUTO_TEST_CASE(reasoning_is_told_to_the_template) {
  const auto kwargs = [](const std::string& fields) { return chat_with(fields).conversation.kwargs.dump(); };
  const std::string off = R"({"enable_thinking":false,"thinking":false,"thinking_budget":0})";
  const std::string on = R"({"enable_thinking":true,"thinking":true})";
  for (const char* const field : {"enable_thinking", "think", "thinking", "reasoning"}) {
    BOOST_TEST(kwargs('"' + std::string(field) + "\": false") == off, field);
    BOOST_TEST(kwargs('"' + std::string(field) + "\": true") == on, field);
    for (const char* const nothing : {"null", "\"\"", "[]", "{}"})
      BOOST_TEST(kwargs('"' + std::string(field) + "\": " + nothing) == "{}", field << nothing);
  }
  BOOST_TEST(kwargs(R"("thinking": {"type": "disabled"})") == off);
  BOOST_TEST(kwargs(R"("thinking": {"type": "adaptive"})") == on);
  BOOST_TEST(kwargs(R"("thinking": {"type": "enabled", "budget_tokens": 1024})") ==
             R"({"enable_thinking":true,"thinking":true,"thinking_budget":1024})");
  const std::string low = R"({"enable_thinking":true,"thinking":true,"reasoning_effort":"low"})";
  for (const char* const fields :
       {R"("reasoning_effort": "low")", R"("think": "low")", R"("reasoning": {"effort": "low", "summary": null})"})
    BOOST_TEST(kwargs(fields) == low, fields);
  BOOST_TEST(kwargs(R"("reasoning_effort": "none")") ==
             R"({"enable_thinking":false,"thinking":false,"reasoning_effort":"none","thinking_budget":0})");
  BOOST_TEST(kwargs(R"("chat_template_kwargs": {"thinking": 5}, "enable_thinking": true)") ==
             R"({"thinking":5,"enable_thinking":true})");
  check_chat(chat_body(R"("enable_thinking": false, "reasoning_effort": "low")"), "reasoning_effort");
  check_chat(chat_body(R"("reasoning_effort": "loud")"), "reasoning_effort");
  check_chat(chat_body(R"("reasoning": {"effort": 5})"), "reasoning.effort");
  check_chat(chat_body(R"("reasoning": {"exclude": true})"), "reasoning.exclude");
  check_chat(chat_body(R"("thinking": {"type": "x"})"), "thinking.type");
  check_chat(chat_body(R"("thinking": 5)"), "thinking");
}

BOOST_AUTO_TEST_CASE(some_of_the_functions_may_be_allowed) {
  const std::string tools =
      R"("tools": [{"type": "function", "function": {"name": "a"}}, {"type": "function", "function": {"name": "b"}}])";
  const auto allowed = [&](const std::string& members) {
    return tools + R"(, "tool_choice": {"type": "allowed_tools", "allowed_tools": {)" + members + "}}";
  };
  const std::string only_b = R"("tools": [{"type": "function", "function": {"name": "b"}}])";
  for (const auto& [mode, kind] :
       {std::pair("auto", ToolChoice::Kind::automatic), std::pair("required", ToolChoice::Kind::required)}) {
    const ChatRequest r = chat_with(allowed(R"("mode": ")" + std::string(mode) + "\", " + only_b));
    BOOST_TEST((r.tools.kind == kind));
    BOOST_TEST((r.tools.functions.size() == 1 && r.tools.functions[0].name == "b"));
    BOOST_TEST(r.conversation.tools.size() == 2U);  // the template is told of both
  }
  check_chat(chat_body(allowed(R"("mode": "none", )" + only_b)), "tool_choice.allowed_tools.mode");
  check_chat(chat_body(allowed(R"("mode": "auto", "tools": [])")), "tool_choice");
  check_chat(chat_body(allowed(R"("mode": "auto", "tools": [{"function": {"name": "c"}}])")), "tool_choice");
}

// Arguments of calls reach templates as objects with their keys as written, as Hugging Face passes them.
BOOST_AUTO_TEST_CASE(calls_in_messages) {
  const ChatRequest r = chat(R"({"messages": [{"role": "user", "content": "x"}, {"content": null, "role": "assistant",
      "tool_calls": [{"id": "1", "index": 0, "type": "function",
                      "function": {"name": "f", "arguments": "{\"z\": 1, \"a\": {}}"}},
                     {"id": "2", "function": {"name": "g", "arguments": ""}}]}]})");
  BOOST_TEST(r.conversation.messages[1].dump() ==
             R"({"content":"","role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"f",)"
             R"("arguments":{"z":1,"a":{}}}},{"id":"2","function":{"name":"g","arguments":{}}}]})");
}

BOOST_AUTO_TEST_CASE(tools_of_chats) {
  const std::string f = R"({"type": "function", "function": {"name": "f", "parameters": {"type": "object",
      "properties": {"z": {"type": "string"}, "a": {"type": "null"}}}}})";
  const std::string g = R"({"type": "function", "function": {"name": "g", "strict": true}})";
  const auto with_tools = [&](const std::string& more) {
    return chat_with(R"("tools": [)" + f + ", " + g + "]" + more);
  };
  using Choice = ToolChoice::Kind;
  const ChatRequest r = with_tools("");
  BOOST_TEST((r.tools.kind == Choice::automatic && r.tools.parallel));
  BOOST_TEST(r.tools.functions.size() == 2U);
  BOOST_TEST(r.tools.functions[0].parameters ==
             R"({"type":"object","properties":{"z":{"type":"string"},"a":{"type":"null"}}})");
  BOOST_TEST((r.tools.functions[1].strict && !r.tools.functions[0].strict));
  BOOST_TEST(r.conversation.tools.size() == 2U);
  BOOST_TEST(
      (with_tools(R"(, "tool_choice": "required", "parallel_tool_calls": false)").tools.kind == Choice::required));
  const ChatRequest named = with_tools(R"(, "tool_choice": {"type": "function", "function": {"name": "g"}})");
  BOOST_TEST((named.tools.is_forced() && named.tools.functions.size() == 1U && !named.tools.parallel));
  BOOST_TEST(named.conversation.tools.size() == 2U);  // the model reads about both
  const ChatRequest none = with_tools(R"(, "tool_choice": "none", "response_format": {"type": "json_object"})");
  BOOST_TEST((none.tools.kind == Choice::none && none.conversation.tools.is_null() && none.tools.functions.empty()));
  const auto refuses = [](const std::string& fields, const char* param) { check_chat(chat_body(fields), param); };
  const std::string form = R"(, "response_format": {"type": "json_object"})";
  BOOST_TEST((none.form && with_tools(form).form));
  BOOST_TEST(!with_tools(form + R"(, "tool_choice": "required")").form);  // the answer has no text
  refuses(R"("tools": [)" + f + R"(], "tool_choice": {"type": "function", "function": {"name": "h"}})", "tool_choice");
  refuses(R"("tools": [)" + f + ", " + f + "]", "tools");
  refuses(R"("tools": [{"type": "web_search"}])", "tools[0].type");
  refuses(R"("tools": [{"type": "function"}])", "tools[0].function");
  refuses(R"("tools": [{"type": "function", "function": {}}])", "tools[0].function.name");
  refuses(R"("tools": [{"type": "function", "function": {"name": "a b"}}])", "tools[0].function.name");
  refuses(R"("tools": [{"type": "function", "function": {"name": "f", "parameters": []}}])",
          "tools[0].function.parameters");
  refuses(R"("tools": [{"type": "function", "function": {"name": "f", "mood": 1}}])", "tools[0].function.mood");
}

BOOST_AUTO_TEST_CASE(what_templates_are_told) {
  const ChatRequest r = chat_with(R"("chat_template_kwargs": {"z": 1, "a": [2]}, "documents": [{"title": "t"}])");
  BOOST_TEST(r.conversation.kwargs.dump() == R"({"z":1,"a":[2]})");
  BOOST_TEST(r.conversation.documents.size() == 1U);
  BOOST_TEST((r.conversation.add_generation_prompt && !r.conversation.continue_final_message));
  BOOST_TEST(!chat_with(R"("continue_final_message": true)").conversation.add_generation_prompt);
  BOOST_TEST(!chat_with(R"("add_generation_prompt": false)").conversation.add_generation_prompt);
  const auto refuses = [](const std::string& fields, const char* param) { check_chat(chat_body(fields), param); };
  refuses(R"("continue_final_message": true, "add_generation_prompt": true)", "continue_final_message");
  refuses(R"("chat_template_kwargs": {"messages": []})", "chat_template_kwargs");
  refuses(R"("chat_template_kwargs": [])", "chat_template_kwargs");
  refuses(R"("documents": ["x"])", "documents");
}

BOOST_AUTO_TEST_CASE(lengths_of_answers) {
  BOOST_TEST(openai_new_tokens(std::nullopt, 24, kLimits) == 1000);
  BOOST_TEST(openai_new_tokens(1000, 24, kLimits) == 1000);
  const auto refusal = [](int asked, std::size_t prompt) {
    return serve::test::refused([&] { openai_new_tokens(asked, prompt, kLimits, "max_completion_tokens"); });
  };
  check(refusal(1001, 24), "max_completion_tokens", "1001");
  check(refusal(2147483647, 24), "max_completion_tokens", "2147483647");
  BOOST_TEST(refusal(1, 769).openai == 400);
  BOOST_TEST(refusal(1, 769).param == "prompt");
  BOOST_TEST(serve::test::refused([] { openai_new_tokens(1, 769, kLimits, "max_tokens", "messages"); }).param ==
             "messages");
}

BOOST_AUTO_TEST_CASE(hostile_bodies) {
  for (const std::string& body :
       {std::string("{not json"), std::string("[]"), std::string(R"({"prompt": "x", "prompt": "y"})"),
        std::string(R"({"prompt": "\ud800"})"), std::string(R"({"prompt": "x", "temperature": 1e400})"),
        R"({"prompt": "x", )" + nested(100'000) + "}", std::string(R"({"model": )"),
        std::string("{\"prompt\": \"\xff\"}"), R"({"prompt": [)" + times(500'000, "1") + "]}"}) {
    const Refused was = serve::test::refused([&] { completion(body); });
    BOOST_TEST(was.openai == 400, body.substr(0, 60));
    BOOST_TEST(serve::test::refused([&] { chat(body); }).openai == 400, body.substr(0, 60));
  }
  check_completion(R"({"prompt": "a\u0000"})", "prompt");
  check_both(R"("stop": "\u0000")", "stop");
}

// report: peer_fields_ignored
BOOST_AUTO_TEST_CASE(fields_of_peers_that_are_not_honoured_are_refused) {
  for (const char* field :
       {R"("use_beam_search": true)", R"("bad_words": ["x"])", R"("allowed_token_ids": [5])", R"("do_sample": false)",
        R"("prompt_embeds": "AA==")", R"("chat_template": "x")", R"("length_penalty": 0.5)",
        R"("no_repeat_ngram_size": 2)", R"("mirostat": 2)", R"("top_n_tokens": 2)", R"("n_probs": 2)",
        R"("options": {"num_predict": 1})", R"("stop_regex": "a")"}) {
    BOOST_CHECK_EXCEPTION(with(field), ApiError,
                          [](const ApiError& error) { return mentions(error.what(), "is not supported; "); });
    BOOST_CHECK_EXCEPTION(chat_with(field), ApiError,
                          [](const ApiError& error) { return mentions(error.what(), "is not supported; "); });
  }
  check_chat(chat_body(R"("add_special_tokens": true)"), "add_special_tokens");
  check_both(R"("some_future_field": {"a": 1})", "some_future_field");
  check_both(R"("stream": true, "stream_options": {"a": 1})", "stream_options.a");
  check_chat(R"({"messages": [{"role": "user", "content": "x", "mood": "glad"}]})", "messages[0].mood");
  check_chat(R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "a", "mood": 1}]}]})",
             "messages[0].content[0].mood");
  chat_with(
      R"("add_generation_prompt": true, "modalities": ["text"], "reasoning_effort": "none", "verbosity": "medium")");
  with(
      R"("length_penalty": 1.0, "guided_json": null, "use_beam_search": false, "stop_token_ids": [], "do_sample": true, "num_beams": 1)");
  BOOST_TEST(with(R"("typical_p": 0.5)").options.typical_p == 0.5f);
}

// report: peer_fields_ignored
BOOST_AUTO_TEST_CASE(spellings_of_peers) {
  for (const char* const name :
       {"max_tokens", "n_predict", "max_completion_tokens", "max_new_tokens", "max_output_tokens"}) {
    const std::string field = '"' + std::string(name) + "\": 9";
    BOOST_TEST(*with(field).max_tokens == 9, name);
    BOOST_TEST(*chat_with(field).max_tokens == 9, name);
    BOOST_TEST(chat_with(field).length_field == name);
  }
  for (const char* const name : {"max_tokens", "n_predict", "max_completion_tokens", "max_output_tokens"})
    BOOST_TEST(!chat_with('"' + std::string(name) + "\": -1").max_tokens.has_value(), name);  // what is left
  BOOST_TEST(!with(R"("n_predict": -1)").max_tokens.has_value());
  check_completion(completion_body(R"("max_tokens": -1)"), "max_tokens");
  check_both(R"("max_completion_tokens": 5, "max_tokens": 6)", "max_tokens");
  BOOST_TEST(with(R"("stop_sequences": ["a"])").options.stop == (std::vector<std::string>{"a"}));
  BOOST_TEST(with(R"("min_new_tokens": 3)").options.min_new_tokens == 3);
  BOOST_TEST(with(R"("repeat_penalty": 1.5)").options.repetition_penalty == 1.5F);
  BOOST_TEST((with(R"("stop_token_ids": [5, 6])").options.stop_ids == Ids{5, 6}));
  BOOST_TEST(with(R"("include_stop_str_in_output": true)").options.include_stop);
  BOOST_TEST(!with(R"("skip_special_tokens": false)").options.skip_special_tokens);
  BOOST_TEST(!with(R"("add_special_tokens": false)").add_special_tokens);
  BOOST_TEST(!with(R"("parse_special": false)").parse_special);
  BOOST_TEST(*with(R"("truncate": 7)").truncate == 7);
  BOOST_TEST(*chat_with(R"("truncate_prompt_tokens": -1)").truncate == 768);
  BOOST_TEST(*chat_with(R"("truncate_prompt_tokens": -1, "max_tokens": 300)").truncate == 724);
  BOOST_TEST(*chat_with(R"("truncate_prompt_tokens": -1, "max_tokens": 5000)").truncate == 1);  // refused later
  BOOST_TEST(*with(R"("prompt_logprobs": 2)").prompt_logprobs == 2);
  BOOST_TEST(with(R"("prompt_logprobs": 2)").options.prompt_logprobs == 2);
  BOOST_TEST(with(R"("return_token_ids": true, "priority": 4)").return_token_ids);
  BOOST_TEST(*completion(R"({"prompt": "x", "max_tokens": 0, "echo": true})").max_tokens == 0);
  check_completion(R"({"prompt": "x", "max_tokens": 0})", "max_tokens");
  check_each("truncate_prompt_tokens", {"0", "-2", "769", "true"});
  check_each("stop_token_ids", {"5", "[-1]", "[true]", "[1.5]"});
  check_each("prompt_logprobs", {"-1", "21", "true"});
  check_both(R"("prompt_logprobs": 1, "stream": true)", "prompt_logprobs");
  BOOST_TEST((with(R"("lora_path": "a", "model": "base")").adapters == std::vector<tenon::AdapterUse>{{"a", 1}}));
  BOOST_TEST((with(R"("lora_path": "a", "model": "a")").adapters == std::vector<tenon::AdapterUse>{{"a", 1}}));
  BOOST_TEST((with(R"("merged_adapters": {"ids": ["a", "b"], "weights": [1, 2]})").adapters ==
              std::vector<tenon::AdapterUse>{{"a", 1}, {"b", 2}}));
  check_both(R"("lora_path": "a", "model": "b")", "lora_path");
  for (const char* const name : {"tgi", "dummy"})
    BOOST_TEST(chat_with(R"("model": ")" + std::string(name) + '"').adapters.empty());
}

BOOST_AUTO_TEST_SUITE_END()
