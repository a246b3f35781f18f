#include "serve/api/heads/head_writer.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>

#include "../io/scratch.h"
#include "serve/api/heads/activation.h"
#include "serve/api/heads/head_recipe.h"
#include "tenon/io/json.h"
#include "tenon/tokenizer/bpe.h"

BOOST_AUTO_TEST_SUITE(server_head_writer)

using namespace serve;
using tenon::Json;
using Numbers = std::vector<float>;

namespace {

const HeadAnswer kAnswer{.id = "x-1", .model = "m", .created = 7, .prompt_tokens = 9};

std::string label(std::size_t i, std::size_t labels) { return std::to_string(i) + " of " + std::to_string(labels); }

tenon::Event ended(int choice, std::vector<float> embedding) {
  tenon::Scores scores;
  scores.embedding = std::move(embedding);
  tenon::Event event;
  event.kind = tenon::Event::Kind::finished;
  event.choice = choice;
  event.scores = std::make_shared<const tenon::Scores>(std::move(scores));
  return event;
}

}  // namespace

BOOST_AUTO_TEST_CASE(base64_has_the_bytes_of_the_numbers) {
  BOOST_TEST(base64_of({}) == "");
  BOOST_TEST(base64_of({1.0f}) == "AACAPw==");
  BOOST_TEST(base64_of({1.0f, -2.5f}) == "AACAPwAAIMA=");
  BOOST_TEST(base64_of({0.0f, 0.0f, 0.0f}) == "AAAAAAAAAAAAAAAA");
}

BOOST_AUTO_TEST_CASE(scores_of_logits) {
  BOOST_TEST((activated(Numbers{3, -1}, HeadActivation::none) == Numbers{3, -1}));
  BOOST_TEST((activated(Numbers{0}, HeadActivation::sigmoid) == Numbers{0.5f}));
  BOOST_TEST((activated(Numbers{2, 2}, HeadActivation::softmax) == Numbers{0.5f, 0.5f}));
  BOOST_TEST((activated(Numbers{}, HeadActivation::softmax).empty()));
  const float huge = std::numeric_limits<float>::max();
  BOOST_TEST((activated(Numbers{huge, -huge}, HeadActivation::sigmoid) == Numbers{1, 0}));
  BOOST_TEST((activated(Numbers{huge, -huge}, HeadActivation::softmax) == Numbers{1, 0}));
  for (const float x : {-20.0f, -1.5f, -0.1f, 0.3f, 4.0f, 19.0f}) {
    const double wanted = 1 / (1 + std::exp(-double{x}));
    BOOST_TEST(std::abs(sigmoid(x) - wanted) <= 3e-7 * wanted);  // some roundings of float32
    // Qwen3-Reranker: the softmax of two logits.
    BOOST_TEST(std::abs(activated(Numbers{x, 0}, HeadActivation::softmax)[0] - wanted) <= 3e-7 * wanted);
  }
}

BOOST_AUTO_TEST_CASE(ranks_fall_and_equal_scores_keep_their_order) {
  const HeadAnswerWriter::Results scores{{0.5f}, {0.75f}, {0.5f}, {0.25f}};
  std::vector<std::size_t> order;
  for (const Rank& each : ranked(scores, 9)) order.push_back(each.index);
  BOOST_TEST((order == std::vector<std::size_t>{1, 0, 2, 3}));
  BOOST_TEST(ranked(scores, 2).size() == 2u);
  BOOST_TEST(ranked(scores, 2)[1].index == 0u);
}

BOOST_AUTO_TEST_CASE(bodies) {
  const HeadAnswerWriter::Results two{{0.1f, 2}, {-3, 4}};
  Json body = Json::parse(openai_embeddings(kAnswer, two, false));
  BOOST_TEST(body ==
             Json::parse(R"({"object": "list", "model": "m", "usage": {"prompt_tokens": 9, "total_tokens": 9}, "data": [
      {"object": "embedding", "index": 0, "embedding": [0.1, 2]}, {"object": "embedding", "index": 1, "embedding": [-3, 4]}]})"));
  body = Json::parse(openai_embeddings(kAnswer, {{1}}, true));
  BOOST_TEST(body["data"][0]["embedding"] == "AACAPw==");
  BOOST_TEST(Json::parse(lorax_embeddings(two, true)) == Json::parse("[[0.1, 2], [-3, 4]]"));
  BOOST_TEST(Json::parse(lorax_embeddings({{1, 2}}, false)) == Json::parse(R"({"embeddings": [1, 2]})"));
  BOOST_TEST(Json::parse(lorax_classes(two, true, label)) ==
             Json::parse(R"([[{"label": "1 of 2", "score": 2}, {"label": "0 of 2", "score": 0.1}],
                             [{"label": "1 of 2", "score": 4}, {"label": "0 of 2", "score": -3}]])"));
  BOOST_TEST(Json::parse(lorax_classes({{1}}, false, label)) == Json::parse(R"([{"label": "0 of 1", "score": 1}])"));
  BOOST_TEST(Json::parse(vllm_classes(kAnswer, two, label)) ==
             Json::parse(R"({"id": "x-1", "object": "list", "created": 7, "model": "m",
      "data": [{"index": 0, "label": "1 of 2", "probs": [0.1, 2], "num_classes": 2}, {"index": 1, "label": "1 of 2", "probs": [-3, 4], "num_classes": 2}],
      "usage": {"prompt_tokens": 9, "completion_tokens": 0, "total_tokens": 9}})"));
  const std::vector<Rank> ranks{{1, 0.5f}, {0, 0.25f}};
  BOOST_TEST(Json::parse(cohere_ranks(kAnswer, ranks, {"a", "\"b\n"})) ==
             Json::parse(R"({"id": "x-1", "model": "m", "usage": {"prompt_tokens": 9, "total_tokens": 9}, "results": [
      {"index": 1, "document": {"text": "\"b\n"}, "relevance_score": 0.5}, {"index": 0, "document": {"text": "a"}, "relevance_score": 0.25}]})"));
  BOOST_TEST(!Json::parse(cohere_ranks(kAnswer, ranks, {}))["results"][0].contains("document"));
  BOOST_TEST(Json::parse(tei_ranks(ranks, {})) ==
             Json::parse(R"([{"index": 1, "score": 0.5}, {"index": 0, "score": 0.25}])"));
  BOOST_TEST(Json::parse(tei_ranks(ranks, {"a", "b"}))[0]["text"] == "b");
  BOOST_TEST(
      Json::parse(vllm_scores(kAnswer, {{0.5f}})) ==
      Json::parse(
          R"({"id": "x-1", "object": "list", "created": 7, "model": "m", "data": [{"index": 0, "object": "score", "score": 0.5}],
      "usage": {"prompt_tokens": 9, "completion_tokens": 0, "total_tokens": 9}})"));
}

BOOST_AUTO_TEST_CASE(results_stand_at_the_place_of_their_input) {
  HeadAnswerWriter writer({.dialect = Dialect::openai,
                           .inputs = 2,
                           .prompt_tokens = 9,
                           .result = [](const tenon::Scores& scores) { return scores.embedding; },
                           .body = [](const HeadAnswerWriter::Results& all) { return lorax_embeddings(all, true); },
                           .needed = "a head"});
  writer.take(ended(1, {2}));
  BOOST_TEST(!writer.complete());
  writer.take(ended(0, {1}));
  BOOST_TEST(writer.complete());
  BOOST_TEST(writer.whole() == "[[1], [2]]");
  BOOST_TEST((writer.usage().prompt_tokens == 9 && writer.usage().generated_tokens == 0));
}

BOOST_AUTO_TEST_CASE(failures) {
  const auto kind = [](tenon::Error::Kind of, const char* text) {
    HeadAnswerWriter writer({.dialect = Dialect::lorax, .inputs = 1, .result = {}, .body = {}, .needed = "a head"});
    tenon::Event event;
    event.kind = tenon::Event::Kind::error;
    event.error_kind = of;
    event.error = text;
    try {
      writer.take(event);
    } catch (const ApiError& error) {
      return error.kind;
    }
    return ApiError::Kind::not_found;
  };
  BOOST_TEST((kind(tenon::Error::Kind::invalid_request,
                   "adapter: has no classification head, and neither has the model") == ApiError::Kind::no_head));
  BOOST_TEST((kind(tenon::Error::Kind::invalid_request,
                   "adapter: is for embeddings (task_type FEATURE_EXTRACTION): it gives neither text nor classes") ==
              ApiError::Kind::no_head));
  BOOST_TEST((kind(tenon::Error::Kind::internal, "x") == ApiError::Kind::engine));
  BOOST_TEST((kind(tenon::Error::Kind::invalid_request, "x") == ApiError::Kind::invalid));
}

// The templates of pairs of Llama 3 (begin of text twice), of a file without one, and of a file that changes the end.
BOOST_AUTO_TEST_CASE(tokens_around_pairs) {
  using Ids = std::vector<tenon::TokenId>;
  const auto read = [](const std::string& processor) {
    const tenon::test::Scratch scratch;
    scratch.write(
        "tokenizer.json",
        R"({"version": "1.0", "added_tokens": [{"id": 2, "content": "<s>", "special": true, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false},
        {"id": 3, "content": "</s>", "special": true, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false}],
        "normalizer": null, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "decoder": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}, "post_processor": )" +
            processor + R"(, "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "<s>": 2, "</s>": 3}, "merges": []}})");
    return read_pair_template(scratch.folder(), tenon::Tokenizer::load(scratch.folder()));
  };
  const std::string special =
      R"("special_tokens": {"<s>": {"id": "<s>", "ids": [2], "tokens": ["<s>"]}, "</s>": {"id": "</s>", "ids": [3], "tokens": ["</s>"]}}})";
  const auto piece = [](const std::string& kind, const std::string& id) {
    return "{\"" + kind + R"(": {"id": ")" + id + R"(", "type_id": 0}})";
  };
  const std::string a = piece("Sequence", "A"), b = piece("Sequence", "B"), begin = piece("SpecialToken", "<s>"),
                    end = piece("SpecialToken", "</s>");
  const auto around = [&](const std::string& single, const std::string& pair) {
    const PairTemplate t =
        read(R"({"type": "TemplateProcessing", "single": [)" + single + R"(], "pair": [)" + pair + "], " + special);
    return std::vector<Ids>{t.before, t.between, t.after};
  };
  const PairTemplate none = read("null");
  BOOST_TEST((none.before.empty() && none.between.empty() && none.after.empty()));
  BOOST_TEST((around(begin + "," + a, begin + "," + a + "," + begin + "," + b) == std::vector<Ids>{{2}, {2}, {}}));
  BOOST_TEST((around(begin + "," + a + "," + end, begin + "," + a + "," + end + "," + b + "," + end) ==
              std::vector<Ids>{{2}, {3}, {3}}));
  BOOST_TEST((around(begin + "," + a + "," + end, "") == std::vector<Ids>{{2}, {3, 2}, {3}}));
}

BOOST_AUTO_TEST_SUITE_END()
