// Expected frequencies: those of transformers 4.57.6 (modeling_rope_utils.py).
#include "tenon/model/rotary.h"

#include <boost/test/unit_test.hpp>
#include <vector>

BOOST_AUTO_TEST_SUITE(model_rotary)

using namespace tenon;

namespace {

// Tolerance: three ulps of float32. The reference rounds in the same places, but powers may differ in the last bit.
void agree(const std::vector<float>& got, const std::vector<float>& expected) {
  BOOST_REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    BOOST_TEST(std::abs(got[i] - expected[i]) <= 2e-7f * expected[i], i << ": " << got[i] << " for " << expected[i]);
  }
}

Batch rows_of(int start, int rows, int prompt) {
  Batch batch;
  batch.tokens.assign(static_cast<std::size_t>(rows), 0);
  for (int r = 0; r < rows; ++r) batch.positions.push_back(start + r);
  batch.sequences.push_back({0, 0, rows, start, 0, prompt});
  return batch;
}

// The frequencies of a step's rows, [rows][half].
std::vector<std::vector<float>> frequencies(RotaryFrequencies& rotary, const Batch& batch, std::size_t half) {
  const BatchView view = batch.view();
  const auto rows = rotary.of(view);
  std::vector<std::vector<float>> out;
  for (int r = 0; r < view.rows; ++r) out.emplace_back(rows.data + r * rows.stride, rows.data + r * rows.stride + half);
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(frequencies_are_those_of_transformers) {
  agree(rotary_frequencies({}, 12, 0),
        {1.f, 0.215443447f, 0.046415884f, 0.00999999978f, 0.00215443433f, 0.000464158948f});
  agree(rotary_frequencies({.scaling = RotaryScaling::linear, .factor = 4}, 12, 0),
        {0.25f, 0.0538608618f, 0.011603971f, 0.00249999994f, 0.000538608583f, 0.000116039737f});
  agree(rotary_frequencies({RotaryScaling::llama3, 500, 8, 1, 4, 24}, 12, 0),
        {0.947417855f, 0.0812069252f, 0.0157490131f, 0.00559017016f, 0.0019842512f, 0.000704317412f});
  const RotaryConfig dynamic{.scaling = RotaryScaling::dynamic, .factor = 4, .trained_positions = 128};
  agree(rotary_frequencies(dynamic, 12, 128),
        {1.f, 0.215443447f, 0.046415884f, 0.00999999978f, 0.00215443433f, 0.000464158948f});
  agree(rotary_frequencies(dynamic, 12, 200),
        {1.f, 0.170198858f, 0.0289676506f, 0.00493026199f, 0.000839124783f, 0.000142818157f});
}

BOOST_AUTO_TEST_CASE(yarn_is_that_of_transformers) {
  RotaryConfig yarn{.scaling = RotaryScaling::yarn, .factor = 4, .trained_positions = 64};
  agree(rotary_frequencies(yarn, 16, 0), {1.f, 0.237170815f, 0.04999999702f, 0.00790569466f, 0.0024999999441f,
                                          0.000790569466f, 0.000250000012f, 7.90569466e-05f});
  yarn.truncate = false;
  agree(rotary_frequencies(yarn, 16, 0), {1.f, 0.198583528f, 0.0255952496f, 0.00790569466f, 0.0024999999441f,
                                          0.000790569466f, 0.000250000012f, 7.90569466e-05f});
}

BOOST_AUTO_TEST_CASE(longrope_is_that_of_transformers) {
  RotaryConfig longrope{.scaling = RotaryScaling::longrope,
                        .trained_positions = 64,
                        .short_factors = {1.0f, 1.1f, 1.2f, 1.3f, 1.4f, 1.5f, 1.6f, 1.7f},
                        .long_factors = {1, 2, 3, 4, 5, 6, 7, 8}};
  agree(rotary_frequencies(longrope, 16, 64), {1.f, 0.287479758f, 0.0833333358f, 0.0243252143f, 0.00714285718f,
                                               0.00210818532f, 0.000624999986f, 0.000186016332f});
  agree(rotary_frequencies(longrope, 16, 65), {1.f, 0.158113882f, 0.0333333351f, 0.00790569466f, 0.0020000000949f,
                                               0.00052704633f, 0.000142857141f, 3.95284733e-05f});
}

BOOST_AUTO_TEST_CASE(what_is_not_turned_has_no_frequency) {
  const std::vector<float> part = rotary_frequencies({.width = 8}, 12, 0), whole = rotary_frequencies({}, 8, 0);
  BOOST_REQUIRE(part.size() == 6u);
  for (std::size_t i = 0; i < 6; ++i) BOOST_TEST(part[i] == (i < 4 ? whole[i] : 0.0f));
}

BOOST_AUTO_TEST_CASE(all_rows_share_what_does_not_stretch) {
  RotaryFrequencies rotary({.scaling = RotaryScaling::linear, .factor = 2}, 12);
  const Batch batch = rows_of(1000, 3, 5);
  BOOST_TEST(rotary.of(batch.view()).stride == 0);
}

// The frequencies of a token do not depend on how its text is split into steps.
BOOST_AUTO_TEST_CASE(dynamic_frequencies_depend_on_the_text_alone) {
  const RotaryConfig config{.scaling = RotaryScaling::dynamic, .factor = 4, .trained_positions = 32};
  RotaryFrequencies rotary(config, 12);
  for (const int prompt : {20, 32, 33, 50}) {
    const auto whole = frequencies(rotary, rows_of(0, 60, prompt), 6);
    for (int position = 0; position < 60; ++position) {
      const int length = std::max(prompt, position + 1);
      BOOST_TEST(whole[static_cast<std::size_t>(position)] == rotary_frequencies(config, 12, length));
      BOOST_TEST(frequencies(rotary, rows_of(position, 1, prompt), 6).front() ==
                 whole[static_cast<std::size_t>(position)]);
    }
  }
}

BOOST_AUTO_TEST_CASE(prefixes_are_shared_only_where_they_turn_alike) {
  const RotaryConfig dynamic{.scaling = RotaryScaling::dynamic, .factor = 4, .trained_positions = 32};
  BOOST_TEST(!RotaryFrequencies::depends_on_prompt(dynamic, 32));
  BOOST_TEST(RotaryFrequencies::depends_on_prompt(dynamic, 33));
  BOOST_TEST(!RotaryFrequencies::depends_on_prompt({}, 1000));
}

BOOST_AUTO_TEST_SUITE_END()
