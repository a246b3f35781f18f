#include "tenon/sample/penalties.h"

#include <boost/test/unit_test.hpp>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "tenon/core/finite.h"

BOOST_AUTO_TEST_SUITE(sample_penalties)

using tenon::Options;
using tenon::TokenId;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kMost = std::numeric_limits<float>::max();

struct Row {
  std::vector<float> logits{};
  std::vector<TokenId> prompt{}, generated{};
  Options options{};
  std::vector<std::uint32_t> mask{};
  tenon::AnyLogitsProcessor processor{};

  std::vector<float> processed(tenon::Penalties& penalties) const {
    const auto row = penalties.apply({.logits = logits,
                                      .prompt = prompt,
                                      .generated = generated,
                                      .options = options,
                                      .mask = mask.empty() ? nullptr : mask.data(),
                                      .processor = &processor});
    return {row.begin(), row.end()};
  }
  std::vector<float> processed() const {
    tenon::Penalties penalties;
    return processed(penalties);
  }
};

void check_equal(const std::vector<float>& got, const std::vector<float>& expected) {
  BOOST_TEST(got == expected, boost::test_tools::per_element());
}

}  // namespace

BOOST_AUTO_TEST_CASE(without_options_the_row_itself) {
  tenon::Penalties penalties;
  const std::vector<float> logits = {1, 2};
  const std::vector<TokenId> seen = {0, 1};
  const Options options;
  BOOST_TEST(penalties.apply({.logits = logits, .prompt = seen, .generated = seen, .options = options}).data() ==
             logits.data());
}

// transformers: score < 0 ? score * penalty : score / penalty, once for each token of prompt and answer.
BOOST_AUTO_TEST_CASE(repetition) {
  Row row{.logits = {3, -3, 0, 1, -1}, .prompt = {0, 1, 0}, .generated = {2, 4, 4, 4}};
  row.options.repetition_penalty = 2;
  check_equal(row.processed(), {1.5f, -6, 0, 1, -2});
  row.options.repetition_penalty = 0.5f;
  check_equal(row.processed(), {6, -1.5f, 0, 1, -0.5f});
}

// OpenAI: l - count * frequency - (count > 0) * presence, of the answer's tokens alone.
BOOST_AUTO_TEST_CASE(presence_and_frequency) {
  Row row{.logits = {3, -3, 0, 1, -1}, .prompt = {0, 1, 0}, .generated = {2, 4, 4, 4}};
  row.options.presence_penalty = 0.5f;
  check_equal(row.processed(), {3, -3, -0.5f, 1, -1.5f});
  row.options.frequency_penalty = 0.25f;
  check_equal(row.processed(), {3, -3, -0.75f, 1, -2.25f});
  row.options.presence_penalty = 0;
  check_equal(row.processed(), {3, -3, -0.25f, 1, -1.75f});
  row.options.frequency_penalty = -1;
  check_equal(row.processed(), {3, -3, 1, 1, 2});
}

// Bias, then repetition, then presence and frequency: (4 - 2) / 2 - 3 * 1 - 1; another order gives another number.
BOOST_AUTO_TEST_CASE(order) {
  Row row{.logits = {4, 0}, .prompt = {}, .generated = {0, 0, 0}};
  row.options.logit_bias = {{0, -2.0f}};
  row.options.repetition_penalty = 2;
  row.options.frequency_penalty = 1;
  row.options.presence_penalty = 1;
  check_equal(row.processed(), {-3, 0});
}

BOOST_AUTO_TEST_CASE(bias) {
  Row row{.logits = {1, 2, 3, 4}};
  row.options.logit_bias = {{3, -100.0f}, {0, 0.5f}, {0, 0.25f}};
  check_equal(row.processed(), {1.75f, 2, 3, -96});
  row.options.logit_bias = {{3, -kInf}, {1, kInf}};
  check_equal(row.processed(), {1, kMost, 3, -kInf});
  row.options.logit_bias = {{3, -kInf}, {3, kInf}, {1, kInf}, {1, -kInf}};  // contradictions: the ban wins
  check_equal(row.processed(), {1, -kInf, 3, -kInf});
  for (const TokenId outside : {4, -1}) {
    row.options.logit_bias = {{outside, 1.0f}};
    BOOST_CHECK_THROW(row.processed(), tenon::Error);
  }
}

BOOST_AUTO_TEST_CASE(mask_over_several_words) {
  Row row;
  for (int i = 0; i < 70; ++i) row.logits.push_back(static_cast<float>(i));
  row.mask = {0x80000001u, 0x00000002u, 0xFFFFFFE0u};  // bits after the vocabulary are not read
  const std::vector<float> got = row.processed();
  for (std::size_t i = 0; i < 70; ++i) {
    const bool allowed = i == 0 || i == 31 || i == 33 || i == 69;
    BOOST_TEST(got[i] == (allowed ? row.logits[i] : -kInf));
  }
}

BOOST_AUTO_TEST_CASE(nothing_brings_a_masked_token_back) {
  Row row{.logits = {1, 2}, .generated = {0, 0}, .mask = {2u}};
  row.options.logit_bias = {{0, kInf}};
  row.options.repetition_penalty = 0.1f;
  row.options.frequency_penalty = -50;
  check_equal(row.processed(), {-kInf, 2});
}

// The user's processor sees raw logits and the text; biases, penalties and the mask come after it.
BOOST_AUTO_TEST_CASE(a_users_processor_comes_first) {
  Row row{.logits = {1, -2, 3, 4}, .prompt = {3}, .generated = {0, 1}, .mask = {7u}};
  row.options.logit_bias = {{0, 1.0f}, {1, 1.0f}};
  row.options.repetition_penalty = 2;
  row.processor = [](std::span<float> logits, std::span<const TokenId> prompt, std::span<const TokenId> generated) {
    if (logits[0] != 1 || prompt.size() != 1 || generated.size() != 2) throw std::logic_error("other arguments");
    logits[0] = 5;
    logits[3] = kInf;
    logits[2] = -kInf;
  };
  check_equal(row.processed(), {3, -2, -kInf, -kInf});
  row.mask.clear();
  check_equal(row.processed(), {3, -2, -kInf, kMost / 2});
  row.processor = [](std::span<float> logits, std::span<const TokenId>, std::span<const TokenId>) {
    logits[2] = std::numeric_limits<float>::quiet_NaN();
  };
  BOOST_CHECK_EXCEPTION(row.processed(), tenon::Error, [](const tenon::Error& error) {
    return error.what() == std::string("logits_processor: wrote NaN for token 2");
  });
}

// No processor makes a NaN or +inf of a finite row.
BOOST_AUTO_TEST_CASE(extremes_stay_below_infinity) {
  Row row{.logits = {kMost, -kMost, 0, 1}, .generated = {0, 1, 2, 3}};
  row.options.repetition_penalty = 1e-38f;
  row.options.presence_penalty = -kMost;
  row.options.frequency_penalty = -kMost;
  for (const float logit : row.processed()) BOOST_TEST((logit == -kInf || tenon::all_finite({&logit, 1})));
  row.options.presence_penalty = kMost;
  for (const float logit : row.processed()) BOOST_TEST((logit == -kInf || tenon::all_finite({&logit, 1})));
}

// Ids beyond the head's outputs are passed over (transformers clamps them away).
BOOST_AUTO_TEST_CASE(history_outside_the_vocabulary) {
  Row row{.logits = {3, 1}, .prompt = {2, 1000, -1}, .generated = {0, 7}};
  row.options.repetition_penalty = 3;
  row.options.presence_penalty = 1;
  check_equal(row.processed(), {0, 1});
}

BOOST_AUTO_TEST_CASE(buffers_carry_nothing_over) {
  Row first{.logits = std::vector<float>(100, 1.0f), .prompt = {5, 6}, .generated = {7, 7, 90}, .mask = {1, 2, 4, 8}};
  first.options.repetition_penalty = 2;
  first.options.presence_penalty = 1;
  first.options.logit_bias = {{8, 3.0f}};
  Row second{.logits = {1, 2, 3, 4, 5, 6, 7, 8}, .prompt = {1}, .generated = {2, 2}};
  second.options.repetition_penalty = 2;
  second.options.frequency_penalty = 1;
  tenon::Penalties penalties;
  const auto a = first.processed(penalties), b = second.processed(penalties);
  check_equal(b, second.processed());
  check_equal(first.processed(penalties), a);
  check_equal(second.processed(penalties), b);
}

// A history in another order is the same history.
BOOST_AUTO_TEST_CASE(order_of_history_does_not_matter) {
  Row row{.logits = {0.1f, 0.2f, 0.3f, 0.4f}, .prompt = {3, 1}, .generated = {1, 2, 1, 0}};
  row.options.repetition_penalty = 1.3f;
  row.options.presence_penalty = 0.7f;
  row.options.frequency_penalty = 0.9f;
  const auto forwards = row.processed();
  row.prompt = {1, 3};
  row.generated = {0, 1, 1, 2};
  check_equal(row.processed(), forwards);
}

BOOST_AUTO_TEST_SUITE_END()
