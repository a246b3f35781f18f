#include "serve/api/lorax/lorax_request.h"

#include <boost/test/unit_test.hpp>

#include "refused.h"

BOOST_AUTO_TEST_SUITE(server_lorax_request)

using namespace serve;
using serve::test::mentions;
using serve::test::nested;
using serve::test::Refused;
using serve::test::times;

namespace {

const RequestLimits kLimits{.max_input_tokens = 768, .max_total_tokens = 1024};
const RequestContext kContext{
    .limits = kLimits,
    .base_names = {"base/model", "second"},
    .is_adapter = [](const std::string& name) { return name == "weather"; },
    .adapter_of_id = [](std::int64_t id) { return id == 3 ? std::optional<std::string>("team/a") : std::nullopt; }};

GenerateRequest parse(const std::string& body, Streaming streaming = Streaming::as_asked) {
  return parse_generate(body, kContext, streaming);
}
// `parameters`: the members of that object.
GenerateRequest with(const std::string& parameters, Streaming streaming = Streaming::as_asked) {
  return parse(R"({"inputs": "hi", "parameters": {)" + parameters + "}}", streaming);
}
Refused refused(const std::string& body) {
  return serve::test::refused([&] { parse(body); });
}
Refused refused_with(const std::string& parameters, Streaming streaming = Streaming::as_asked) {
  return serve::test::refused([&] { with(parameters, streaming); });
}

// 422 and a message that begins with `message`; the field is its first word in back quotes.
void check_invalid(const std::string& parameters, const std::string& message) {
  const Refused was = refused_with(parameters);
  BOOST_TEST(was.lorax == 422, parameters.substr(0, 100));
  BOOST_TEST(was.message.starts_with(message), parameters.substr(0, 100) << " -> " << was.message);
  if (message.starts_with('`')) BOOST_TEST(message.starts_with("`" + was.param), was.param);
}

}  // namespace

BOOST_AUTO_TEST_CASE(defaults) {
  for (const char* const body :
       {R"({"inputs": "hi"})", R"({"inputs": "hi", "parameters": null, "stream": null})",
        R"({"inputs": "hi", "parameters": {}, "future": null, "user": "u", "options": {"use_cache": false}})"}) {
    const GenerateRequest r = parse(body);
    BOOST_TEST(r.inputs == "hi");
    BOOST_TEST(!r.stream);
    BOOST_TEST(r.adapters.empty());
    BOOST_TEST(!r.max_new_tokens.has_value());
    BOOST_TEST(!r.sampling);
    BOOST_TEST(r.options.temperature == 0);
    BOOST_TEST(r.options.top_k == 0);
    BOOST_TEST(r.options.top_p == 1);
    BOOST_TEST(r.options.typical_p == 1);
    BOOST_TEST(r.options.repetition_penalty == 1);
    BOOST_TEST(r.options.frequency_penalty == 0);
    BOOST_TEST(r.options.presence_penalty == 0);
    BOOST_TEST(!r.options.ignore_eos);
    BOOST_TEST(r.options.top_logprobs == -1);
    BOOST_TEST(!r.seed_given);
    BOOST_TEST(r.best_of == 1);
    BOOST_TEST(r.stop.empty());
    BOOST_TEST((!r.details && !r.decoder_input_details && !r.return_full_text));
    BOOST_TEST(!r.truncate.has_value());
    BOOST_TEST(r.alternatives == 0);
    BOOST_TEST(!r.form.has_value());
  }
}

BOOST_AUTO_TEST_CASE(what_the_python_client_sends_when_nothing_is_set) {
  const GenerateRequest r =
      with(R"("adapter_id": null, "adapter_source": null, "merged_adapters": null, "api_token": null,
      "do_sample": false, "max_new_tokens": 20, "ignore_eos_token": false, "repetition_penalty": null,
      "return_full_text": false, "stop": [], "seed": null, "temperature": null, "top_k": null, "top_p": null,
      "truncate": null, "typical_p": null, "best_of": null, "watermark": false, "response_format": null,
      "decoder_input_details": false, "return_k_alternatives": null, "details": true)");
  BOOST_TEST(*r.max_new_tokens == 20U);
  BOOST_TEST(r.details);
  BOOST_TEST(!r.sampling);
  BOOST_TEST(r.options.top_logprobs == 0);
}

BOOST_AUTO_TEST_CASE(every_parameter_is_read) {
  const GenerateRequest r = with(R"("do_sample": true, "temperature": 0.5, "top_k": 7, "top_p": 0.25, "typical_p": 0.75,
      "repetition_penalty": 1.5, "frequency_penalty": -2, "presence_penalty": 2, "seed": 18446744073709551615,
      "max_new_tokens": 4294967295, "ignore_eos_token": true, "return_full_text": true, "details": true,
      "decoder_input_details": true, "truncate": 768, "return_k_alternatives": 20, "stop": ["a", "b"],
      "watermark": false, "api_token": "secret", "adapter_source": "local", "min_p": 0.25, "logit_bias": {"5": -1},
      "stop_token_ids": [7], "priority": -2, "skip_special_tokens": false, "top_n_tokens": 2, "parse_special": false,
      "add_special_tokens": false, "cache_salt": "s")");
  BOOST_TEST(r.sampling);
  BOOST_TEST(r.options.temperature == 0.5F);
  BOOST_TEST(r.options.top_k == 7);
  BOOST_TEST(r.options.top_p == 0.25F);
  BOOST_TEST(r.options.typical_p == 0.75F);
  BOOST_TEST(r.options.repetition_penalty == 1.5F);
  BOOST_TEST(r.options.frequency_penalty == -2);
  BOOST_TEST(r.options.presence_penalty == 2);
  BOOST_TEST(r.options.seed == 18446744073709551615U);
  BOOST_TEST(r.seed_given);
  BOOST_TEST(*r.max_new_tokens == 4294967295U);
  BOOST_TEST(r.options.ignore_eos);
  BOOST_TEST((r.return_full_text && r.details && r.decoder_input_details));
  BOOST_TEST(*r.truncate == 768);
  BOOST_TEST(r.alternatives == 20);
  BOOST_TEST(r.options.top_logprobs == 20);
  BOOST_TEST(r.options.prompt_logprobs == 0);
  BOOST_TEST(r.stop == (std::vector<std::string>{"a", "b"}));
  BOOST_TEST(r.options.stop.empty());
  BOOST_TEST(r.options.min_p == 0.25F);
  BOOST_TEST((r.options.logit_bias == std::vector<std::pair<tenon::TokenId, float>>{{5, -1.0F}}));
  BOOST_TEST((r.options.stop_ids == std::vector<tenon::TokenId>{7}));
  BOOST_TEST((r.options.priority == -2 && !r.options.skip_special_tokens && r.options.cache_salt == "s"));
  BOOST_TEST((r.top_tokens == 2 && !r.parse_special && !r.add_special_tokens));
  BOOST_TEST(with(R"("skip_special_tokens": null)").options.skip_special_tokens);
}

// report: peer_fields_ignored
BOOST_AUTO_TEST_CASE(spellings_of_peers) {
  for (const char* const name : {"max_tokens", "n_predict", "max_completion_tokens", "num_predict"})
    BOOST_TEST(*with('"' + std::string(name) + "\": 9").max_new_tokens == 9U, name);
  BOOST_TEST(with(R"("max_tokens": -1)").endless);
  check_invalid(R"("max_new_tokens": -1)", "`max_new_tokens` must be strictly positive");
  const auto endless = with(R"("n_predict": -1)");
  BOOST_TEST((!endless.max_new_tokens.has_value() && endless.endless));  // what is left, and not the default
  BOOST_TEST(!with(R"("n_predict": 5)").endless);
  check_invalid(R"("n_predict": -2)", "`n_predict` must be strictly positive");
  BOOST_TEST(with(R"("stop_sequences": ["a"])").stop == (std::vector<std::string>{"a"}));
  BOOST_TEST(with(R"("stop": [], "stop_sequences": ["a"])").stop == (std::vector<std::string>{"a"}));
  BOOST_TEST(with(R"("ignore_eos": true)").options.ignore_eos);
  BOOST_TEST(with(R"("min_tokens": 4, "max_new_tokens": 4)").options.min_new_tokens == 4);
  BOOST_TEST(with(R"("repeat_penalty": 1.5)").options.repetition_penalty == 1.5F);
  BOOST_TEST(*with(R"("truncate_prompt_tokens": 5)").truncate == 5);
  BOOST_TEST(with(R"("echo": true)").return_full_text);
  BOOST_TEST(*with(R"("max_tokens": 9, "max_new_tokens": 9)").max_new_tokens == 9U);
  check_invalid(R"("max_tokens": 9, "max_new_tokens": 8)",
                "`max_tokens` is another name of `max_new_tokens`, and the two differ");
  check_invalid(R"("stop": ["b"], "stop_sequences": ["a"])", "`stop_sequences` is another name of `stop`");
  check_invalid(R"("min_new_tokens": 5, "max_new_tokens": 4)", "`min_new_tokens` must be at most `max_new_tokens`");
  BOOST_TEST(with(R"("min_new_tokens": 5, "stop": ["a"])").options.min_new_tokens == 5);
}

// report: peer_fields_ignored
BOOST_AUTO_TEST_CASE(adapters_as_peers_name_them) {
  using Uses = std::vector<tenon::AdapterUse>;
  const Uses one{{"weather", 1}};
  for (const char* const named :
       {R"("adapter_id": "weather")", R"("adapter": "weather")", R"("adapter_name": "weather")",
        R"("lora_path": "weather")", R"("lora_name": "weather")", R"("lora_dir": "weather")",
        R"("adapters": ["weather"])", R"("adapters": "weather")", R"("lora_request": "weather")",
        R"("lora_request": {"lora_name": "weather", "lora_int_id": 1, "lora_path": "weather"})",
        R"("lora_request": {"name": "weather"})", R"("lora": [{"id": "weather", "scale": 1}])", R"("model": "weather")",
        R"("merged_adapters": {"ids": ["weather"], "weights": [1]})",
        R"("adapter_id": "weather", "lora_path": "weather")"}) {
    BOOST_TEST((with(named).adapters == one), named);
    BOOST_TEST((parse(R"({"inputs": "hi", )" + std::string(named) + "}").adapters == one), named);
  }
  BOOST_TEST(
      (with(R"("lora": [{"id": 3, "scale": 0.5}, {"id": "b", "scale": 0}])").adapters == Uses{{"team/a", 0.5F}}));
  BOOST_TEST((with(R"("adapters": ["a", "b"])").adapters == Uses{{"a", 1}, {"b", 1}}));
  check_invalid(R"("lora": [{"id": 4, "scale": 1}])", "`lora[0].id` must be an id that GET /lora-adapters lists");
  check_invalid(R"("lora": [{"id": 3}])", "`lora[0].scale` is missing");
  check_invalid(R"("lora": [{"id": 3, "scale": 1, "rank": 2}])", "`lora[0].rank` is not a field");
  check_invalid(R"("lora_request": {"lora_name": "a", "lora_path": "b"})", "`lora_request.lora_path` must be the name");
  check_invalid(R"("adapter_id": "a", "lora_path": "b")", "`lora_path` is another name of `adapter_id`");
  check_invalid(R"("adapter_id": "a", "lora": [{"id": "b", "scale": 1}])",
                "`lora` names another adapter than `adapter_id`");
  const Refused apart = refused(R"({"inputs": "hi", "adapter_id": "a", "parameters": {"adapter_id": "b"}})");
  BOOST_TEST((apart.lorax == 422 && mentions(apart.message, "`parameters.adapter_id` names another adapter")),
             apart.message);
}

// report: hf_inference_client_chat_404
BOOST_AUTO_TEST_CASE(names_that_clients_of_tgi_give_any_model) {
  for (const char* const name : {"tgi", "dummy", "base/model", "second", "__base_model__"})
    BOOST_TEST(with(R"("adapter_id": ")" + std::string(name) + '"').adapters.empty(), name);
  RequestContext context = kContext;
  context.is_adapter = [](const std::string& name) { return name == "dummy"; };
  const auto named = [&](const std::string& name) {
    return parse_generate(R"({"inputs": "x", "model": ")" + name + "\"}", context).adapters.size();
  };
  BOOST_TEST(named("dummy") == 1U);  // a folder of that name is meant
  BOOST_TEST(named("tgi") == 0U);
}

BOOST_AUTO_TEST_CASE(unknown_fields) {
  check_invalid(R"("no_such_field": 1)", "`no_such_field` is not a field that this server knows here");
  with(R"("no_such_field": null)");
  check_invalid(R"("no_such_field": false)", "`no_such_field` is not a field");
  check_invalid(R"("suffix": "x")", "`suffix` is a field of other routes");
  with(R"("suffix": "", "stream_options": {}, "top_logprobs": 0)");
  const Refused beside = refused(R"({"inputs": "hi", "max_new_tokens": 5})");
  BOOST_TEST((beside.lorax == 422 && beside.message == "`max_new_tokens` goes into `parameters` on this route"),
             beside.message);
  BOOST_TEST(refused(R"({"inputs": "hi", "no_such_field": 1})").param == "no_such_field");
  RequestContext lenient = kContext;
  lenient.lenient = true;
  const auto ignored = [&](const std::string& body) { return parse_generate(body, lenient).ignored; };
  BOOST_TEST(
      ignored(
          R"({"inputs": "x", "a": 1, "parameters": {"b": 2, "lora": [{"id": 3, "scale": 1, "c": 3}], "user": "u"}})") ==
      (std::vector<std::string>{"a", "b", "lora[0].c"}));
  BOOST_TEST(serve::test::refused([&] { ignored(R"({"inputs": "x", "parameters": {"watermark": true}})"); }).lorax ==
             422);  // known
}

BOOST_AUTO_TEST_CASE(a_conversation_in_the_inputs) {
  const GenerateRequest r = parse(
      R"({"inputs": "[{\"role\": \"user\", \"content\": \"hi\"}]", "parameters": {"apply_chat_template": true}})");
  BOOST_TEST(r.messages.size() == 1U);
  BOOST_TEST(r.messages.at(0)["content"] == "hi");
  BOOST_TEST(with(R"("apply_chat_template": false)").messages.is_null());
  for (const char* const inputs : {"hi", "{}", "[]", R"([{\"role\": \"x\"}])"}) {
    const Refused was =
        refused(R"({"inputs": ")" + std::string(inputs) + R"(", "parameters": {"apply_chat_template": true}})");
    BOOST_TEST((was.lorax == 422 && was.param.starts_with("inputs")), was.message);
  }
}

BOOST_AUTO_TEST_CASE(sampling_is_what_lorax_takes_for_it) {
  for (const char* const yes : {R"("do_sample": true)", R"("temperature": 0.5)", R"("temperature": 2)", R"("top_k": 1)",
                                R"("top_p": 0.9)", R"("typical_p": 0.9)", R"("min_p": 0.1)"}) {
    const GenerateRequest r = with(yes);
    BOOST_TEST(r.sampling, yes);
    BOOST_TEST(r.options.temperature > 0, yes);
  }
  for (const char* const no :
       {R"("temperature": 1)", R"("temperature": 1.0)", R"("top_p": 1)", R"("seed": 1)",
        R"("temperature": 0, "do_sample": true)", R"("temperature": 0, "top_k": 5, "top_p": 0.5)",
        R"("temperature": 1e-60, "do_sample": true)", R"("repetition_penalty": 2)"}) {
    const GenerateRequest r = with(no);
    BOOST_TEST(!r.sampling, no);
    BOOST_TEST(r.options.temperature == 0, no);
  }
}

BOOST_AUTO_TEST_CASE(streams) {
  BOOST_TEST(parse(R"({"inputs": "x", "stream": true})").stream);
  BOOST_TEST(!parse(R"({"inputs": "x", "stream": false})", Streaming::never).stream);
  BOOST_TEST(serve::test::refused([] { parse(R"({"inputs": "x", "stream": true})", Streaming::never); }).param ==
             "stream");
  BOOST_TEST(parse(R"({"inputs": "x"})", Streaming::always).stream);
  BOOST_TEST(parse(R"({"inputs": "x", "stream": true, "resumable": true})").resumable);
  BOOST_TEST(parse(R"({"inputs": "x", "resumable": true})", Streaming::always).resumable);
  BOOST_TEST(!parse(R"({"inputs": "x", "resumable": false})").resumable);
  for (const char* const body : {R"({"inputs": "x", "resumable": true})", R"({"inputs": "x", "resumable": 1})",
                                 R"({"inputs": "x", "parameters": {"resumable": true}})"})
    BOOST_TEST(refused(body).param == "resumable", body);
}

BOOST_AUTO_TEST_CASE(a_prediction_stands_beside_the_parameters) {
  const std::string begin = R"({"inputs": "x", "prediction": {"type": )";
  BOOST_TEST(parse(begin + R"("content", "content": "y z"}})").prediction.value() == "y z");
  BOOST_TEST(!parse(R"({"inputs": "x"})").prediction.has_value());
  BOOST_TEST(refused(begin + R"("text", "content": "y"}})").param == "prediction.type");
  BOOST_TEST(parse(R"({"inputs": "x"})", Streaming::always).options.top_logprobs == 0);  // each token has its own
}

BOOST_AUTO_TEST_CASE(inputs_and_the_body) {
  BOOST_TEST(refused(R"({"inputs": ""})").lorax == 422);
  BOOST_TEST(refused(R"({"inputs": ""})").message == "`inputs` cannot be empty");
  BOOST_TEST(refused(R"({"inputs": ""})").param == "inputs");
  for (const char* const body :
       {"{}", R"({"inputs": null})", R"({"inputs": 5})", R"({"inputs": ["x"]})", R"({"inputs": true})",
        R"({"inputs": "x", "parameters": []})", R"({"inputs": "x", "parameters": "y"})",
        R"({"inputs": "x", "stream": 1})", R"({"inputs": "a\u0000"})"}) {
    BOOST_TEST(refused(body).lorax == 422, body);
  }
  for (const std::string& body :
       {std::string("[]"), std::string("{"), std::string(R"({"inputs": "\ud800"})"),
        R"({"inputs": "x", )" + nested(100'000) + "}", std::string(R"({"inputs": "x", "inputs": "y"})"),
        std::string(R"({"inputs": "x", "parameters": {"temperature": 1e400}})")}) {
    BOOST_TEST(refused(body).lorax == 400, body.substr(0, 60));
  }
}

BOOST_AUTO_TEST_CASE(bounds_are_refused_in_lorax_words) {
  check_invalid(R"("temperature": -0.5)", "`temperature` must be non-negative");
  check_invalid(R"("temperature": 1e39)", "`temperature` must be non-negative");
  check_invalid(R"("top_k": 0)", "`top_k` must be strictly positive");
  check_invalid(R"("top_k": -1)", "`top_k` must be strictly positive");
  check_invalid(R"("top_k": 2147483648)", "`top_k` must be strictly positive");
  for (const char* const p : {"0", "-1", "1.5", "1e-60"})
    check_invalid(R"("top_p": )" + std::string(p), "`top_p` must be > 0.0 and <= 1.0");
  for (const char* const p : {"0", "1", "1.0", "0.999999999999"})
    check_invalid(R"("typical_p": )" + std::string(p), "`typical_p` must be > 0.0 and < 1.0");
  check_invalid(R"("repetition_penalty": 0)", "`repetition_penalty` must be strictly positive");
  check_invalid(R"("repetition_penalty": 1e300)", "`repetition_penalty`");
  check_invalid(R"("frequency_penalty": 2.5)", "`frequency_penalty` must be >= -2.0 and <= 2.0");
  check_invalid(R"("presence_penalty": -2.5)", "`presence_penalty` must be >= -2.0 and <= 2.0");
  check_invalid(R"("max_new_tokens": 0)", "`max_new_tokens` must be strictly positive");
  check_invalid(R"("max_new_tokens": -5)", "`max_new_tokens` must be strictly positive");
  for (const char* const n : {"4294967296", "9223372036854775808", "18446744073709551615", "18446744073709551616"})
    check_invalid(R"("max_new_tokens": )" + std::string(n), "`max_new_tokens` must be an integer");
  check_invalid(R"("truncate": 0)", "`truncate` must be > 0 and <= 768");
  check_invalid(R"("truncate": 769)", "`truncate` must be > 0 and <= 768");
  check_invalid(R"("return_k_alternatives": 0)", "`return_k_alternatives` must be > 0 and <= 20");
  check_invalid(R"("return_k_alternatives": 1000000)", "`return_k_alternatives` must be > 0 and <= 20");
}

BOOST_AUTO_TEST_CASE(what_would_change_the_answer_is_refused) {
  check_invalid(R"("watermark": true)", "`watermark` is not supported");
  check_invalid(R"("no_repeat_ngram_size": 2)", "`no_repeat_ngram_size` is not supported; use `frequency_penalty`");
  check_invalid(R"("do_sample": true, "num_beams": 4)", "`num_beams` is not supported");
  check_invalid(R"("include_stop_str_in_output": false)", "`include_stop_str_in_output` is not supported");
  check_invalid(R"("tools": [{}])", "`tools` is not supported");
  with(
      R"("no_repeat_ngram_size": 0, "num_beams": 1, "length_penalty": 1.0, "include_stop_str_in_output": true, "tools": [],
          "min_p": 0, "logit_bias": {}, "guided_json": null, "mirostat": 0, "mirostat_tau": 5, "cache_prompt": false)");
}

BOOST_AUTO_TEST_CASE(stop_sequences) {
  BOOST_TEST(with(R"("stop": [)" + times(10, R"("s")") + "]").stop.size() == 10U);
  check_invalid(R"("stop": [)" + times(11, R"("s")") + "]", "`stop` supports up to 10 stop sequences. Given: 11");
  check_invalid(R"("stop": [)" + times(10'000, R"("s")") + "]",
                "`stop` supports up to 10 stop sequences. Given: 10000");
  check_invalid(R"("stop": ["a", ""])", "`stop` must not hold an empty string");
  for (const char* const stop : {R"("a")", "{}", "5", "[5]", "[null]", "true"})
    check_invalid(R"("stop": )" + std::string(stop), "`stop` must be a list of strings");
}

BOOST_AUTO_TEST_CASE(seeds) {
  BOOST_TEST(with(R"("seed": 0)").seed_given);
  BOOST_TEST(!with(R"("seed": -1)").seed_given);
  for (const char* const seed : {"-2", "1.5", "12.0", "18446744073709551616", "1e3", "true", R"("7")", "[]"})
    check_invalid(R"("seed": )" + std::string(seed), "`seed` must be an integer from 0 to 2^64 - 1");
}

BOOST_AUTO_TEST_CASE(wrong_types_are_refused) {
  for (const char* const field :
       {"do_sample", "ignore_eos_token", "return_full_text", "details", "decoder_input_details"})
    for (const char* const value : {"1", R"("true")", "[]", "{}"})
      check_invalid('"' + std::string(field) + "\": " + value,
                    "`" + std::string(field) + "` must be true or false, is ");
  for (const char* const field : {"max_new_tokens", "top_k", "best_of", "truncate", "return_k_alternatives"})
    for (const char* const value : {"true", R"("ten")", "1.5", "12.0", "[1]", "{}"})
      check_invalid('"' + std::string(field) + "\": " + value, "`" + std::string(field) + "` must be an integer, is ");
  for (const char* const field :
       {"temperature", "top_p", "typical_p", "repetition_penalty", "frequency_penalty", "presence_penalty"})
    for (const char* const value : {"true", R"("0.5")", "[1]", "{}"})
      check_invalid('"' + std::string(field) + "\": " + value, "`" + std::string(field) + "` must be a number, is ");
}

BOOST_AUTO_TEST_CASE(best_of) {
  BOOST_TEST(with(R"("best_of": 2, "do_sample": true)").best_of == 2);
  BOOST_TEST(with(R"("best_of": 1)").best_of == 1);
  for (const char* const value : {"0", "-1", "3", "1000000"})
    check_invalid(R"("do_sample": true, "best_of": )" + std::string(value), "`best_of` must be > 0 and <= 2");
  check_invalid(R"("best_of": 2)", "`best_of` > 1 needs sampling");
  check_invalid(R"("best_of": 2, "do_sample": true, "temperature": 0)", "`best_of` > 1 needs sampling");
  check_invalid(R"("best_of": 2, "do_sample": true, "seed": 1)", "`seed` must not be set when `best_of` > 1");
  BOOST_TEST(mentions(refused_with(R"("best_of": 2, "do_sample": true)", Streaming::always).message, "streaming"));
}

BOOST_AUTO_TEST_CASE(details_of_the_input_are_not_streamed) {
  const Refused was = refused_with(R"("decoder_input_details": true)", Streaming::always);
  BOOST_TEST(was.lorax == 422);
  BOOST_TEST(was.message == "`decoder_input_details` == true is not supported when streaming tokens");
}

BOOST_AUTO_TEST_CASE(adapters) {
  for (const char* const base : {"null", R"("")", R"("__base_model__")", R"("base/model")"})
    BOOST_TEST(with(R"("adapter_id": )" + std::string(base)).adapters.empty(), base);
  const GenerateRequest r = with(R"("adapter_id": "team/weather-1.0_b")");
  BOOST_TEST((r.adapters == std::vector<tenon::AdapterUse>{{"team/weather-1.0_b", 1}}));
  BOOST_TEST(with(R"("adapter_id": "org/a", "adapter_source": "hub")").adapters.size() == 1U);  // the folder org/a
  for (const char* const source : {"s3", "pbase", "x"})
    check_invalid(R"("adapter_id": "a", "adapter_source": ")" + std::string(source) + '"',
                  "`adapter_source=" + std::string(source) + "` is not supported");
  check_invalid(R"("adapter_id": "a", "adapter_source": "pbase")",
                "`adapter_source=pbase` is not supported, only local, hub and s3");
  check_invalid(R"("adapter_source": 5)", "`adapter_source` must be a string");
  check_invalid(R"("adapter_id": 5)", "`adapter_id` must be a string");
}

BOOST_AUTO_TEST_CASE(sources_of_adapters) {
  RequestContext context = kContext;
  context.fetches = true;
  context.adapter_from = [](const std::string& name, const std::string& source) { return source + ">" + name; };
  const auto named = [&](const std::string& parameters) {
    const std::string body = R"({"inputs": "hi", "parameters": {)" + parameters + "}}";
    return parse_generate(body, context, Streaming::as_asked).adapters;
  };
  using Uses = std::vector<tenon::AdapterUse>;
  BOOST_TEST((named(R"("adapter_id": "a")") == Uses{{">a", 1}}));
  BOOST_TEST((named(R"("adapter_id": "a", "adapter_source": "")") == Uses{{">a", 1}}));
  BOOST_TEST((named(R"("adapter_id": "org/a@v2", "adapter_source": "hub")") == Uses{{"hub>org/a@v2", 1}}));
  BOOST_TEST((named(R"("adapter_id": "bucket/path/a", "adapter_source": "s3")") == Uses{{"s3>bucket/path/a", 1}}));
  BOOST_TEST((named(R"("adapter_id": "base/model", "adapter_source": "s3")").empty()));
  BOOST_TEST((named(R"("adapter_source": "s3", "merged_adapters": {"ids": ["a", "b/c"], "weights": [1, 2]})") ==
              Uses{{"s3>a", 1}, {"s3>b/c", 2}}));
  BOOST_TEST((named(R"("lora": [{"id": "a", "scale": 0.5}], "adapter_source": "local")") == Uses{{"local>a", 0.5F}}));
  const auto refused_body = [&](const std::string& body) {
    return serve::test::refused([&] { parse_generate(body, context, Streaming::as_asked); });
  };
  // The source of one object holds for the names of the other.
  const std::string both = R"({"inputs": "hi", "adapter_source": "s3", "parameters": {"adapter_id": "a/b/c"}})";
  BOOST_TEST((parse_generate(both, context, Streaming::as_asked).adapters == Uses{{"s3>a/b/c", 1}}));
  const Refused twice = refused_body(
      R"({"inputs": "hi", "adapter_source": "s3", "parameters": {"adapter_id": "a", "adapter_source": "hub"}})");
  BOOST_TEST((twice.lorax == 422 && twice.param == "adapter_source"));
  for (const auto& [id, source] : {std::pair{"a/b/c", "hub"},
                                   {"a/b/c", "local"},
                                   {"s3:a", "hub"},
                                   {"hub:a", "s3"},
                                   {"../a", "s3"},
                                   {"a/../b", "s3"},
                                   {"a/", "s3"},
                                   {"-a", "s3"},
                                   {"a@v", "s3"},
                                   {"a b", "s3"},
                                   {"s3:a", "local"},
                                   {"a@../b", "hub"}}) {
    const Refused was = refused_body(R"({"inputs": "hi", "parameters": {"adapter_id": ")" + std::string(id) +
                                     R"(", "adapter_source": ")" + source + R"("}})");
    BOOST_TEST((was.lorax == 422 && was.openai == 404), id << " of " << source);
    BOOST_TEST(was.param == "adapter_id");
  }
}

BOOST_AUTO_TEST_CASE(bad_names_of_adapters_are_refused) {
  for (const std::string& bad : {std::string("../../../../etc"),
                                 std::string("/etc"),
                                 std::string("a/../../b"),
                                 std::string(".."),
                                 std::string("."),
                                 std::string("a..b"),
                                 std::string("a/..b"),
                                 std::string(5000, 'x'),
                                 std::string("~/x"),
                                 std::string("C:\\\\x"),
                                 std::string("a//b"),
                                 std::string("a/b/c"),
                                 std::string("a/"),
                                 std::string("-a"),
                                 std::string(".a"),
                                 std::string("a b"),
                                 std::string("a\\nb"),
                                 std::string("caf\\u00e9"),
                                 std::string(129, 'a'),
                                 std::string("a%2fb")}) {
    const Refused was = refused_with(R"("adapter_id": ")" + bad + '"');
    BOOST_TEST(was.lorax == 422, bad.substr(0, 60));
    BOOST_TEST(was.openai == 404, bad.substr(0, 60));
    BOOST_TEST(was.message.size() < 500U);
  }
  check_invalid(R"("adapter_id": "a\u0000b")", "`parameters` must not hold a NUL");
  BOOST_TEST(with(R"("adapter_id": ")" + std::string(128, 'a') + "/" + std::string(128, 'b') + '"').adapters.size() ==
             1U);
}

BOOST_AUTO_TEST_CASE(merged_adapters) {
  const GenerateRequest r = with(R"("adapter_id": "", "merged_adapters": {"ids": ["a", "t/b"], "weights": [0.5, -1],
      "merge_strategy": "linear", "density": 0.3, "majority_sign_method": "frequency"})");
  BOOST_TEST((r.adapters == std::vector<tenon::AdapterUse>{{"a", 0.5F}, {"t/b", -1}}));
  BOOST_TEST(with(R"("merged_adapters": {"ids": ["a"], "weights": [2], "merge_strategy": null})").adapters[0].weight ==
             2);
  const auto refuses = [](const std::string& merged, const std::string& message) {
    check_invalid(R"("merged_adapters": )" + merged, message);
  };
  for (const char* const strategy : {"ties", "dare_linear", "dare_ties", "x"}) {
    refuses(R"({"ids": ["a"], "weights": [1], "merge_strategy": ")" + std::string(strategy) + "\"}",
            "`merged_adapters` with `merge_strategy=" + std::string(strategy) + "` is not supported");
  }
  refuses(R"({"ids": ["a", "b"], "weights": [1]})", "`merged_adapters.weights` must hold one weight for each");
  refuses(R"({"ids": ["a"]})", "`merged_adapters.weights`");
  refuses(R"({"ids": ["a"], "weights": 1})", "`merged_adapters.weights`");
  refuses(R"({"ids": ["a"], "weights": [true]})", "`merged_adapters.weights`");
  refuses(R"({"ids": ["a"], "weights": [1e39]})", "`merged_adapters.weights`");
  refuses(R"({"ids": [], "weights": []})", "`merged_adapters.ids`");
  refuses(R"({})", "`merged_adapters.ids`");
  refuses(R"({"ids": [5], "weights": [1]})", "`merged_adapters.ids`");
  refuses(R"({"ids": ["../a"], "weights": [1]})", "`merged_adapters.ids`");
  refuses("[]", "`merged_adapters` must be an object");
  check_invalid(R"("adapter_id": "a", "merged_adapters": {"ids": ["a"], "weights": [1]})",
                "at most one of `adapter_id` or `adapters` may be provided");
}

// report: response_format_schema_dropped
BOOST_AUTO_TEST_CASE(response_formats) {
  const auto schema = [](const std::string& format) {
    const auto found = with(R"("response_format": )" + format).form;
    return found ? found->schema.dump() : "none";
  };
  const std::string s = R"({"type":"object","properties":{"z":{},"a":{"minimum":2}}})";
  BOOST_TEST(schema(R"({"type": "text"})") == "none");
  for (const char* const nothing : {"{}", "null"}) BOOST_TEST(schema(nothing) == "none");
  const std::string shown =
      R"({"type":"object","properties":{"a":{}},"example":{"items":[1]}})";  // pydantic's json_schema_extra
  BOOST_TEST(schema(R"({"type": "json_object", "schema": )" + shown + "}") == shown);
  BOOST_TEST(schema(R"({"type": "json_object"})") == R"({"type":"object"})");
  for (const char* const type : {"json_object", "json_schema", "json"}) {
    const std::string head = R"({"type": ")" + std::string(type) + "\", ";
    for (const char* const key : {"schema", "value", "json_schema", "response_schema"}) {
      BOOST_TEST(schema(head + '"' + key + "\": " + s + "}") == s, type << ' ' << key);
      BOOST_TEST(schema(head + '"' + key + R"(": {"name": "x", "strict": true, "schema": )" + s + "}}") == s,
                 type << ' ' << key);
      BOOST_TEST(schema(head + '"' + key + R"(": {"name": "x", "parameters": )" + s + "}}") == s, type << ' ' << key);
    }
  }
  BOOST_TEST(schema(R"({"type": "json_object", "schema": {"const": 1}, "value": {"const": 1}})") == R"({"const":1})");
  for (const char* const bad :
       {"[]", R"({"type": "yaml"})", R"({"type": 5})", R"("json_object")", R"({"type": "json_schema"})",
        R"({"type": "json_object", "schema": "x"})", R"({"type": "json_object", "schema": []})", R"({"type": "json"})",
        R"({"type": "json_schema", "json_schema": []})", R"({"type": "json_schema", "json_schema": {"name": "x"}})",
        R"({"type": "json_schema", "json_schema": {"name": "x", "value": {"type": "string"}}})",
        R"({"type": "json_schema", "json_schema": {"json_schema": {"type": "string"}}})",
        R"({"type": "json_object", "schema": {"z": 1}})",
        R"({"type": "json_object", "schema": {"type": "object", "definition": {"properties": {}}}})",
        R"({"type": "text", "schema": {"type": "null"}})", R"({"type": "json_object", "regex": "a"})",
        R"({"type": "json_object", "schema": {"const": 1}, "value": {"const": 2}})", R"({"type": "regex"})"}) {
    check_invalid(R"("response_format": )" + std::string(bad), "`response_format` ");
  }
  BOOST_TEST(refused_with(R"("response_format": {"type": "json_object", "shema": {"z": 1}})").param ==
             "response_format.shema");
  check_invalid(
      R"("response_format": {"type": "json_object", "schema": {"enum": [")" + std::string(300'000, 'x') + R"("]}})",
      "`response_format` has a schema of more than 262144 bytes");
}

// report: response_format_schema_dropped
BOOST_AUTO_TEST_CASE(forms_as_peers_write_them) {
  using Kind = AnswerForm::Kind;
  const std::string s = R"({"title":"z","enum":["a"]})", text = R"("{\"title\":\"z\",\"enum\":[\"a\"]}")";
  for (const std::string& form :
       {R"("grammar": {"type": "json", "value": )" + s + "}",
        R"("grammar": {"type": "json_schema", "value": {"name": "x", "schema": )" + s + "}}", R"("guided_json": )" + s,
        R"("guided_json": )" + text, R"("json_schema": )" + s, R"("json_schema": )" + text, R"("schema": )" + s,
        R"("response_schema": )" + s, R"("format": )" + s,
        R"("guided_json": )" + s + R"(, "schema": {"enum":["a"],"title":"z"})",
        R"("structured_outputs": {"regex": "", "choice": null, "json": )" + s + "}",
        R"("structured_outputs": {"json": )" + s + "}", R"("structured_outputs": {"json": )" + text + "}",
        R"("guided_json": )" + s + R"(, "format": )" + s}) {
    const auto found = with(form).form;
    BOOST_REQUIRE_MESSAGE(found, form);
    BOOST_TEST((found->kind == Kind::schema && found->schema.dump() == s), form);
  }
  for (const char* const form :
       {R"("regex": "a+")", R"("guided_regex": "a+")", R"("structured_outputs": {"regex": "a+"})",
        R"("grammar": {"type": "regex", "value": "a+"})", R"("response_format": {"type": "regex", "pattern": "a+"})"}) {
    const auto found = with(form).form;
    BOOST_REQUIRE_MESSAGE(found, form);
    BOOST_TEST((found->kind == Kind::regex && found->text == "a+"), form);
  }
  for (const char* const form : {R"("choice": ["a", "b"])", R"("guided_choice": ["a", "b"])",
                                 R"("structured_outputs": {"choice": ["a", "b"]})"}) {
    const auto found = with(form).form;
    BOOST_REQUIRE_MESSAGE(found, form);
    BOOST_TEST((found->kind == Kind::choice && found->choices.size() == 2), form);
  }
  for (const char* const form :
       {R"("ebnf": "root ::= \"a\"")", R"("guided_grammar": "root ::= \"a\"")", R"("grammar": "root ::= \"a\"")",
        R"("structured_outputs": {"grammar": "root ::= \"a\""})"}) {
    const auto found = with(form).form;
    BOOST_REQUIRE_MESSAGE(found, form);
    BOOST_TEST((found->kind == Kind::grammar && found->text == "root ::= \"a\""), form);
  }
  BOOST_TEST(with(R"("format": "json")").form->schema.dump() == R"({"type":"object"})");
  BOOST_TEST(with(R"("structured_outputs": {"json_object": true})").form->schema.dump() == R"({"type":"object"})");
  BOOST_TEST(
      !with(R"("structured_outputs": {}, "guided_choice": null, "regex": "", "grammar": {}, "schema": null)").form);
  for (const char* const any : {R"("json_schema": {})", R"("guided_json": {})", R"("format": {})",
                                R"("response_format": {"type": "json_object", "schema": {}})"})
    BOOST_TEST(with(any).form->schema.dump() == "{}", any);
  BOOST_TEST(
      with(R"("response_format": {"type": "json_object", "schema": {"description": "x"}})").form->schema.dump() ==
      R"({"description":"x"})");
  check_invalid(R"("guided_choice": [])", "`guided_choice` must hold at least one text");
  check_invalid(R"("structured_outputs": {"choice": []})", "`structured_outputs.choice` must hold at least one text");
  check_invalid(R"("regex": [])", "`regex` must be a string");
  check_invalid(R"("choice": {})", "`choice` must be a list of strings");
  check_invalid(R"("guided_json": [])", "`guided_json` must be an object");
  check_invalid(R"("response_format": [])", "`response_format` must be an object");
  check_invalid(R"("regex": "a", "guided_json": {"type": "null"})", "`regex` asks for another form than `guided_json`");
  check_invalid(R"("guided_json": "x")", "`guided_json` must be an object, is a text that is no JSON");
  check_invalid(R"("structured_outputs": {"whitespace_pattern": " "})",
                "`structured_outputs.whitespace_pattern` is not supported");
  check_invalid(R"("structural_tag": {"a": 1})", "`structural_tag` is not supported");
  check_invalid(R"("format": "xml")", "`format` must be \"json\" or a schema");
}

BOOST_AUTO_TEST_CASE(lengths_of_answers) {
  BOOST_TEST(lorax_new_tokens(std::nullopt, 24, kLimits) == 1000);
  BOOST_TEST(lorax_new_tokens(1000, 24, kLimits) == 1000);
  const auto refusal = [](std::uint32_t asked, std::size_t input) {
    return serve::test::refused([&] { lorax_new_tokens(asked, input, kLimits); });
  };
  BOOST_TEST(refusal(1001, 24).lorax == 422);
  BOOST_TEST(refusal(1001, 24).message ==
             "`inputs` tokens + `max_new_tokens` must be <= 1024. Given: 24 `inputs` tokens and 1001 `max_new_tokens`");
  BOOST_TEST(refusal(4294967295U, 24).lorax == 422);
  BOOST_TEST(refusal(1, 769).message == "`inputs` must have at most 768 tokens. Given: 769 (--max-input-length)");
}

BOOST_AUTO_TEST_CASE(texts_to_tokenize) {
  BOOST_TEST(parse_tokenize(R"({"inputs": "x"})", kContext).add_special_tokens);
  BOOST_TEST(!parse_tokenize(R"({"inputs": "x", "add_special_tokens": false})", kContext).add_special_tokens);
  BOOST_TEST(parse_tokenize(R"({"inputs": "x"})", kContext).parse_special);
  BOOST_TEST(!parse_tokenize(R"({"inputs": "x", "parse_special": false})", kContext).parse_special);
  const TokenizeRequest vllm = parse_tokenize(R"({"prompt": "x", "return_token_strs": true})", kContext);
  BOOST_TEST((vllm.inputs == "x" && vllm.shape == TokenShape::vllm && vllm.with_pieces && vllm.add_special_tokens));
  const TokenizeRequest llama = parse_tokenize(R"({"content": ""})", kContext);
  BOOST_TEST((llama.inputs.empty() && llama.shape == TokenShape::llama_cpp && !llama.add_special_tokens));
  BOOST_TEST(parse_tokenize(R"({"content": "x", "add_special": true})", kContext).add_special_tokens);
  BOOST_TEST(serve::test::refused([] { parse_tokenize(R"({"text": "x"})", kContext); }).message ==
             "`text` is not supported; use `inputs`");
  BOOST_TEST((parse_detokenize(R"({"tokens": [5, 6]})", kContext).tokens == std::vector<tenon::TokenId>{5, 6}));
  BOOST_TEST(serve::test::refused([] { parse_detokenize(R"({"tokens": [-1]})", kContext); }).lorax == 422);
  BOOST_TEST(serve::test::refused([] { parse_tokenize(R"({"inputs": ""})", kContext); }).lorax == 422);
  BOOST_TEST(serve::test::refused([] {
               parse_tokenize(R"({"inputs": "x", "add_special_tokens": 1})", kContext);
             }).lorax == 422);
}

BOOST_AUTO_TEST_SUITE_END()
