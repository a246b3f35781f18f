#include "serve/api/heads/head_request.h"

#include <boost/test/unit_test.hpp>

#include "refused.h"

BOOST_AUTO_TEST_SUITE(server_head_request)

using namespace serve;
using serve::test::mentions;
using serve::test::Refused;
using serve::test::times;
using Ids = std::vector<tenon::TokenId>;

namespace {

const RequestContext kContext{.limits = {.max_input_tokens = 768, .max_total_tokens = 1024}, .base_names = {"base"}};

EmbeddingRequest embeddings(const std::string& body) { return parse_embeddings(body, kContext); }
EmbeddingRequest embed(const std::string& body) { return parse_embed(body, kContext); }
ClassifyRequest classify(const std::string& body) { return parse_classify(body, kContext); }
PairRequest rerank(const std::string& body) { return parse_rerank(body, kContext); }
PairRequest score(const std::string& body) { return parse_score(body, kContext); }

std::string with(const std::string& base, const std::string& fields) {
  return "{" + base + (fields.empty() ? "" : ", " + fields) + "}";
}

template <class Parse>
void check(Parse parse, const std::string& body, const std::string& param) {
  const Refused was = serve::test::refused([&] { parse(body); });
  BOOST_TEST(was.openai == 400, body.substr(0, 100));
  BOOST_TEST(was.lorax == 422, body.substr(0, 100));
  BOOST_TEST(was.param == param, body.substr(0, 100) << " -> " << was.message);
  BOOST_TEST(mentions(was.message, "`" + param + "`"), was.message);
}

// On each of the five routes.
void check_all(const std::string& fields, const std::string& param) {
  check(embeddings, with(R"("input": "a")", fields), param);
  check(embed, with(R"("inputs": "a")", fields), param);
  check(classify, with(R"("inputs": "a")", fields), param);
  check(rerank, with(R"("query": "a", "documents": ["b"])", fields), param);
  check(score, with(R"("text_1": "a", "text_2": "b")", fields), param);
}

const std::string& text_of(const HeadInput& input) { return std::get<std::string>(input); }

using Pairs = std::vector<std::pair<std::string, std::string>>;

Pairs pairs_of(const PairRequest& request) {
  Pairs all;
  for (std::size_t i = 0; i < request.second.size(); ++i) all.emplace_back(request.first_of(i), request.second[i]);
  return all;
}

}  // namespace

BOOST_AUTO_TEST_CASE(each_form_of_an_input) {
  HeadInputs one = embeddings(R"({"input": "a text"})").inputs;
  BOOST_TEST((one.each.size() == 1u && text_of(one.each[0]) == "a text" && !one.listed && one.field == "input"));
  one = embeddings(R"({"input": ["a", "b"]})").inputs;
  BOOST_TEST((one.each.size() == 2u && text_of(one.each[1]) == "b" && one.listed));
  one = embeddings(R"({"input": [5, 6, 7]})").inputs;
  BOOST_TEST((one.each.size() == 1u && std::get<Ids>(one.each[0]) == Ids{5, 6, 7} && !one.listed));
  one = embeddings(R"({"input": [[5], [6, 7]]})").inputs;
  BOOST_TEST((one.each.size() == 2u && std::get<Ids>(one.each[1]) == Ids{6, 7} && one.listed));
  BOOST_TEST(embeddings(R"({"input": [)" + times(2048, R"("a")") + "]}").inputs.each.size() == 2048u);
}

BOOST_AUTO_TEST_CASE(inputs_that_are_refused) {
  for (const char* const value :
       {R"("")", "[]", "5", "{}", "null", "true", R"(["a", 5])", R"([5, "a"])", R"(["a", ["b"]])"})
    check(embeddings, with("\"input\": " + std::string(value), ""), "input");
  check(embeddings, "{}", "input");
  check(embeddings, R"({"input": ["a", ""]})", "input[1]");
  check(embeddings, R"({"input": [[5], []]})", "input[1]");
  check(embeddings, R"({"input": [[5], [-1]]})", "input[1]");
  check(embeddings, R"({"input": [5, 1.5]})", "input");
  check(embeddings, R"({"input": [)" + times(2049, R"("a")") + "]}", "input");
  check(embed, R"({"inputs": ["a", ""]})", "inputs[1]");
  check(embed, R"({"input": "a"})", "input");
  check(embeddings, R"({"inputs": "a"})", "inputs");
  check(classify, R"({"input": "a", "inputs": "a"})", "input");
  check(classify, "{}", "inputs");
}

// LoRAX's client sends what it sends to /generate, with null parameters.
BOOST_AUTO_TEST_CASE(clients_of_lorax) {
  const EmbeddingRequest r = embed(R"({"inputs": "a", "parameters": null, "stream": false})");
  BOOST_TEST((r.form == EmbeddingRequest::Form::lorax && r.normalize && !r.base64 && r.adapters.empty()));
  BOOST_TEST(classify(R"({"inputs": "a", "parameters": {"adapter_id": "sun", "api_token": null}})").adapters[0].name ==
             "sun");
  BOOST_TEST(embeddings(R"({"input": "a", "model": "base", "parameters": {"adapter_id": "sun"}})").adapters[0].name ==
             "sun");
  check(embed, R"({"inputs": "a", "stream": true})", "stream");
  check(embed, R"({"inputs": "a", "parameters": {"adapter_id": "sun"}, "adapter_id": "moon"})",
        "parameters.adapter_id");
  check(embed, R"({"inputs": "a", "parameters": {"max_new_tokens": 5}})", "parameters.max_new_tokens");
  check(embed, R"({"inputs": "a", "parameters": 5})", "parameters");
}

BOOST_AUTO_TEST_CASE(fields_of_openai) {
  const EmbeddingRequest r = embeddings(
      R"({"input": "a", "model": "sun", "encoding_format": "base64", "dimensions": 8, "user": "u", "normalize": false})");
  BOOST_TEST((r.model == "sun" && r.adapters[0].name == "sun" && r.adapter_field == "model"));
  BOOST_TEST((r.base64 && r.dimensions == 8 && !r.normalize && r.form == EmbeddingRequest::Form::openai));
  BOOST_TEST(!embeddings(R"({"input": "a", "encoding_format": "float"})").base64);
  BOOST_TEST(!embeddings(R"({"input": "a", "use_activation": false})").normalize);
  check(embeddings, R"({"input": "a", "encoding_format": "hex"})", "encoding_format");
  check(embeddings, R"({"input": "a", "dimensions": 0})", "dimensions");
  check(embeddings, R"({"input": "a", "dimensions": 8.0})", "dimensions");
  check(embeddings, R"({"input": "a", "embed_dtype": "float16"})", "embed_dtype");
  check(embeddings, R"({"input": "a", "use_activation": false, "normalize": true})", "use_activation");
}

BOOST_AUTO_TEST_CASE(what_all_routes_have) {
  const HeadRequest plain = embeddings(R"({"input": "a"})");
  BOOST_TEST((!plain.cut && plain.add_special_tokens && !plain.parse_special && plain.options.priority == 0));
  const HeadRequest r = embeddings(
      R"({"input": "a", "priority": -3, "cache_salt": "s", "parse_special": false, "add_special_tokens": false})");
  BOOST_TEST(
      (r.options.priority == -3 && r.options.cache_salt == "s" && r.parse_special == false && !r.add_special_tokens));
  for (const char* const field : {"priority", "cache_salt", "parse_special", "add_special_tokens", "truncate", "model",
                                  "truncate_prompt_tokens", "truncation_direction", "adapter_id", "no_such"})
    check_all('"' + std::string(field) + "\": {\"a\": 1}", field);
  check_all(R"("padding": "max_length")", "padding");
  check_all(R"("temperature": 0.5)", "temperature");
}

BOOST_AUTO_TEST_CASE(cuts) {
  const auto cut = [](const std::string& fields) { return embed(with(R"("inputs": "a")", fields)).cut; };
  BOOST_TEST((!cut("") && !cut(R"("truncate": false)") && !cut(R"("truncation_direction": "Left")")));
  BOOST_TEST((cut(R"("truncate": true)")->tokens == 1024 && cut(R"("truncate": true)")->keeps_first));
  BOOST_TEST(!cut(R"("truncate": true, "truncation_direction": "Left")")->keeps_first);
  BOOST_TEST(cut(R"("truncate_prompt_tokens": 5)")->tokens == 5);
  BOOST_TEST(!cut(R"("truncate_prompt_tokens": -1, "truncation_side": "left")")->keeps_first);
  BOOST_TEST(cut(R"("truncate_prompt_tokens": -1)")->tokens == 1024);
  for (const char* const value : {"0", "-2", "1025", "1.5"})
    check_all("\"truncate_prompt_tokens\": " + std::string(value), "truncate_prompt_tokens");
  check_all(R"("truncation_side": "middle")", "truncation_side");
}

BOOST_AUTO_TEST_CASE(classes) {
  ClassifyRequest r = classify(R"({"inputs": ["a", "b"], "raw_scores": true})");
  BOOST_TEST((r.form == ClassifyRequest::Form::lorax && r.raw_scores && r.inputs.listed));
  r = classify(R"({"input": "a", "model": "base", "use_activation": false})");
  BOOST_TEST((r.form == ClassifyRequest::Form::vllm && r.raw_scores && r.adapters.empty()));
  BOOST_TEST(!classify(R"({"input": "a", "use_activation": true, "raw_scores": false})").raw_scores);
  check(classify, R"({"input": "a", "use_activation": true, "raw_scores": true})", "use_activation");
  check(classify, R"({"inputs": "a", "dimensions": 5})", "dimensions");
}

BOOST_AUTO_TEST_CASE(ranks) {
  PairRequest r =
      rerank(R"({"query": "q", "documents": ["a", {"text": "b"}, ""], "top_n": 2, "return_documents": false})");
  BOOST_TEST((r.form == PairRequest::Form::rerank && pairs_of(r).size() == 3u && r.top_n == 2u && !r.return_texts));
  BOOST_TEST((pairs_of(r) == Pairs{{"q", "a"}, {"q", "b"}, {"q", ""}}));
  BOOST_TEST(r.first.size() == 1u);  // kept once
  BOOST_TEST((r.begins_anew(0) && !r.begins_anew(1)));
  BOOST_TEST(r.second_field == "documents");
  BOOST_TEST((rerank(R"({"query": "q", "documents": ["a"]})").return_texts));
  BOOST_TEST((!rerank(R"({"query": "q", "documents": ["a"], "top_n": 0})").top_n));
  r = rerank(R"({"query": "q", "texts": ["a"], "raw_scores": true})");
  BOOST_TEST((r.form == PairRequest::Form::tei && !r.return_texts && r.raw_scores));
  BOOST_TEST(rerank(R"({"query": "q", "texts": ["a"], "return_text": true})").return_texts);
  check(rerank, R"({"query": "q"})", "documents");
  check(rerank, R"({"documents": ["a"]})", "query");
  check(rerank, R"({"query": "", "documents": ["a"]})", "query");
  check(rerank, R"({"query": "q", "documents": []})", "documents");
  check(rerank, R"({"query": "q", "documents": "a"})", "documents");
  check(rerank, R"({"query": "q", "documents": [5]})", "documents[0]");
  check(rerank, R"({"query": "q", "documents": [{"body": "a"}]})", "documents[0].body");
  check(rerank, R"({"query": "q", "documents": [{}]})", "documents[0].text");
  check(rerank, R"({"query": "q", "documents": ["a"], "texts": ["a"]})", "texts");
  check(rerank, R"({"query": "q", "texts": [{"text": "a"}]})", "texts[0]");
  check(rerank, R"({"query": "q", "texts": ["a"], "return_documents": true})", "return_documents");
  check(rerank, R"({"query": "q", "documents": ["a"], "return_text": true})", "return_text");
  check(rerank, R"({"query": "q", "documents": ["a"], "top_n": -1})", "top_n");
  check(rerank, R"({"query": "q", "documents": ["a"], "rank_fields": ["title"]})", "rank_fields");
  check(rerank, R"({"query": "q", "documents": [)" + times(2049, R"("a")") + "]}", "documents");
}

BOOST_AUTO_TEST_CASE(scores) {
  BOOST_TEST((pairs_of(score(R"({"text_1": "a", "text_2": "b"})")) == Pairs{{"a", "b"}}));
  BOOST_TEST((pairs_of(score(R"({"text_1": "a", "text_2": ["b", "c"]})")) == Pairs{{"a", "b"}, {"a", "c"}}));
  BOOST_TEST((pairs_of(score(R"({"queries": ["a", "d"], "documents": ["b", "c"]})")) == Pairs{{"a", "b"}, {"d", "c"}}));
  BOOST_TEST((score(R"({"text_1": "a", "text_2": "b", "instruction": "i"})").instruction == "i"));
  check(score, R"({"text_1": "a"})", "text_2");
  check(score, R"({"text_1": ["a", "b"], "text_2": "c"})", "text_1");
  check(score, R"({"queries": ["a", "b"], "items": ["c", "d", "e"]})", "queries");
  check(score, R"({"text_1": "a", "queries": "b", "text_2": "c"})", "text_1");
  check(score, R"({"text_1": "a", "text_2": []})", "text_2");
  check(score, R"({"text_1": 5, "text_2": "c"})", "text_1");
}

BOOST_AUTO_TEST_SUITE_END()
