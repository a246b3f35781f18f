// Embeddings and classifications: bit-equal alone and in any batch, beside text, in chunks, after preemption, and with
// any cache.
#include <tenon/tenon.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "tenon/cache/contiguous.h"
#include "tenon/cache/no_cache.h"
#include "tenon/model/random.h"
#include "tenon/schedule/sequential.h"
#include "tiny.h"

BOOST_AUTO_TEST_SUITE(engine_heads)

using namespace tenon;

namespace {

// A model with a language head and a classification head, so that both run in one batch.
ModelConfig with_labels(std::optional<TokenId> pad = {}) {
  ModelConfig c = tiny_gpt2();
  c.labels = {"a", "b", "c", "d", "e"};
  c.pad = pad;
  return c;
}

std::vector<TokenId> text(int number, int length) {
  std::vector<TokenId> ids;
  for (int i = 0; i < length; ++i) ids.push_back((number * 37 + i * i * 11 + 5) % 299);
  return ids;
}

Request pooled(std::vector<TokenId> ids, Pooling pooling) {
  return {.input_ids = std::move(ids), .options = {.max_new_tokens = 0, .pooling = pooling}};
}

const std::vector<float>& result(const Completion& completion) {
  BOOST_TEST_REQUIRE(completion.error == "");
  BOOST_TEST_REQUIRE(completion.scores != nullptr);
  return completion.scores->class_logits.empty() ? completion.scores->embedding : completion.scores->class_logits;
}

// All kinds of requests, texts of many lengths, and prompts that share a prefix.
std::vector<Request> requests() {
  std::vector<Request> all;
  const std::vector<TokenId> shared = text(90, 70);
  for (int i = 0; i < 24; ++i) {
    std::vector<TokenId> ids = text(i, 1 + i * 5);
    if (i % 2 == 0) {
      std::vector<TokenId> longer = shared;
      longer.insert(longer.end(), ids.begin(), ids.end());
      ids = longer;
    }
    if (i % 4 == 3)
      all.push_back({.input_ids = std::move(ids), .options = {.max_new_tokens = 9, .ignore_eos = true}});
    else
      all.push_back(pooled(std::move(ids), i % 4 == 0   ? Pooling::classify
                                           : i % 4 == 1 ? Pooling::last
                                                        : Pooling::mean));
  }
  return all;
}

template <class E>
std::vector<Completion> one_by_one(E& engine) {
  std::vector<Completion> all;
  for (Request& each : requests()) all.push_back(engine.complete(std::move(each)));
  return all;
}

void check_equal(const std::vector<Completion>& got, const std::vector<Completion>& wanted) {
  BOOST_TEST_REQUIRE(got.size() == wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    BOOST_TEST(got[i].error == "");
    BOOST_TEST(got[i].ids == wanted[i].ids, i);
    if (wanted[i].scores) BOOST_TEST((result(got[i]) == result(wanted[i])), i);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(bits_are_equal_alone_and_in_any_batch) {
  const ModelFiles files = random_checkpoint(with_labels(), 3);
  using Alone = Engine<Gpt2, Cache<NoCache>, Scheduler<SequentialPolicy>>;
  Alone alone{files, EngineOptions{.token_budget = 1 << 16, .batch = 1, .threads = 1, .prefix_reuse = false}};
  const std::vector<Completion> wanted = one_by_one(alone);
  for (const int budget : {3, 17, 64, 512}) {
    for (const int threads : {1, 3}) {
      Engine<Gpt2> engine{files, {.token_budget = budget, .threads = threads}};
      check_equal(engine.complete(requests()), wanted);
      check_equal(engine.complete(requests()), wanted);  // prefixes are in the cache now
    }
  }
  Engine<Gpt2, Cache<ContiguousKV>> contiguous{files, {.token_budget = 40, .threads = 1}};
  check_equal(contiguous.complete(requests()), wanted);
}

BOOST_AUTO_TEST_CASE(preempted_requests_pool_each_row_once) {
  const ModelFiles files = random_checkpoint(with_labels(), 3);
  const auto crowd = [] {
    std::vector<Request> all;
    for (int i = 0; i < 8; ++i) {
      all.push_back({.input_ids = text(i, 4 + i), .options = {.max_new_tokens = 120, .ignore_eos = true}});
      all.push_back(pooled(text(20 + i, 90 + 13 * i), i % 2 == 0 ? Pooling::mean : Pooling::last));
    }
    return all;
  };
  Engine<Gpt2> roomy{files, {.threads = 1}};
  Engine<Gpt2> tight{files, {.token_budget = 20, .batch = 16, .cache_tokens = 336, .threads = 1}};
  check_equal(tight.complete(crowd()), roomy.complete(crowd()));
  BOOST_TEST(tight.stats().preemptions > 0u);
}

// The row of each position is that of the prompt up to there.
BOOST_AUTO_TEST_CASE(a_mean_is_over_the_rows_of_all_positions) {
  Engine<Gpt2> engine{random_checkpoint(with_labels(), 3), {.threads = 1}};
  const std::vector<TokenId> ids = text(4, 33);
  std::vector<double> sums(60);
  for (std::size_t n = 1; n <= ids.size(); ++n) {
    const auto row =
        engine.embed({.input_ids = {ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(n)}}, Pooling::last, false);
    BOOST_TEST_REQUIRE(row.size() == sums.size());
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += static_cast<double>(row[i]);
  }
  std::vector<float> wanted;
  for (const double sum : sums) wanted.push_back(static_cast<float>(sum / static_cast<double>(ids.size())));
  BOOST_TEST((engine.embed(Request{.input_ids = ids}, Pooling::mean, false) == wanted));
  normalize(wanted);
  BOOST_TEST((engine.embed(Request{.input_ids = ids}, Pooling::mean) == wanted));
}

// The language head reads the same row: the logits of tiny_gpt2's tied head are its products with the embedding.
BOOST_AUTO_TEST_CASE(a_classification_is_the_head_times_the_row) {
  const ModelFiles files = random_checkpoint(with_labels(), 3);
  Engine<Gpt2> engine{files, {.threads = 1}};
  std::vector<float> weights(5 * 60);
  random_rows(3, "score.weight", 60, 0, 5, weights.data());
  const ClassifierHead head(weights, 60);
  const std::vector<TokenId> ids = text(8, 50);
  const Classification found = engine.classify(Request{.input_ids = ids});
  BOOST_TEST((found.logits == head.logits(engine.embed(Request{.input_ids = ids}, Pooling::last, false))));
  BOOST_TEST(found.label == best_label(found.logits));
}

BOOST_AUTO_TEST_CASE(a_head_reads_the_rightmost_token_that_is_no_pad) {
  BOOST_TEST(classified_position(std::vector<TokenId>{1, 2, 3}, {}) == 2);
  BOOST_TEST(classified_position(std::vector<TokenId>{1, 2, 9, 9}, 9) == 1);
  BOOST_TEST(classified_position(std::vector<TokenId>{9, 1, 9, 2, 9}, 9) == 3);
  BOOST_TEST(classified_position(std::vector<TokenId>{9, 9}, 9) == 0);
  Engine<Gpt2> engine{random_checkpoint(with_labels(9), 3), {.token_budget = 5, .threads = 1}};
  std::vector<TokenId> ids = text(2, 20), padded = ids;
  padded.insert(padded.end(), 30, 9);
  const auto wanted = engine.classify(Request{.input_ids = ids});
  BOOST_TEST((engine.classify(Request{.input_ids = padded}).logits == wanted.logits));
  BOOST_TEST((engine.embed(Request{.input_ids = padded}) !=
              engine.embed(Request{.input_ids = ids})));  // an embedding reads the pad
}

BOOST_AUTO_TEST_CASE(prefixes_are_shared_up_to_the_pooled_row) {
  Engine<Gpt2> engine{random_checkpoint(with_labels(), 3), {.threads = 1}};
  const std::vector<TokenId> ids = text(1, 200);
  engine.classify(Request{.input_ids = ids});
  const auto before = engine.stats().prefix_hit_tokens;
  engine.classify(Request{.input_ids = ids});
  BOOST_TEST(engine.stats().prefix_hit_tokens - before >= 176u);
  const auto after = engine.stats().prefix_hit_tokens;
  engine.embed(Request{.input_ids = ids}, Pooling::mean);  // needs the rows of all tokens
  BOOST_TEST(engine.stats().prefix_hit_tokens == after);
}

BOOST_AUTO_TEST_CASE(what_a_model_cannot_give_is_refused_by_name) {
  const auto refused = [](auto& engine, Request request, const std::string& part) {
    const Completion answer = engine.complete(std::move(request));
    BOOST_TEST(answer.error.find(part) != std::string::npos, answer.error);
  };
  ModelConfig classifier = with_labels();
  classifier.language_head = false;
  Engine<Gpt2> heads{random_checkpoint(classifier, 3), {.threads = 1}};
  refused(heads, {.input_ids = {1}}, "no language head");
  refused(heads, {.input_ids = {1}, .options = {.max_new_tokens = 0, .nll = true}}, "no language head");
  BOOST_TEST(heads.classify(Request{.input_ids = {1}}).logits.size() == 5u);
  Engine<Gpt2> plain{random_checkpoint(tiny_gpt2(), 3), {.threads = 1}};
  refused(plain, pooled({1}, Pooling::classify), "no classification head");
  BOOST_TEST(plain.embed(Request{.input_ids = {1}}).size() == 60u);
  Request text = pooled({1}, Pooling::last);
  text.options.max_new_tokens = 4;
  refused(plain, text, "max_new_tokens");
  Request scored = pooled({1}, Pooling::last);
  scored.options.logits_at = {0};
  refused(plain, scored, "logits_at");
  Request several = pooled({1}, Pooling::last);
  several.options.n = 2;
  refused(plain, several, "n: ");
  BOOST_CHECK_THROW(plain.embed(Request{.input_ids = {1}}, Pooling::classify), Error);
}

BOOST_AUTO_TEST_SUITE_END()
