// A step that needs only the best logits picks the same tokens as one that writes all of them. A head with an int8 copy
// picks the same tokens as its format alone.
#include <boost/test/unit_test.hpp>

#include <limits>
#include <vector>

#include "../core/random.h"
#include "tenon/tenon.h"
#include "tiny.h"

BOOST_AUTO_TEST_SUITE(engine_picks)

using namespace tenon;

namespace {

// few: of each row the best three tokens at most.
std::vector<Request> requests(bool hashed, bool few) {
  test::Random random(3);
  std::vector<Request> all;
  for (int i = 0; i < 24; ++i) {
    Request request;
    for (int t = 0; t < 3 + i; ++t) request.input_ids.push_back(random.below(300));
    request.options = {.max_new_tokens = 12,
                       .temperature = i % 3 == 0 ? 0.0f : 0.7f + 0.1f * static_cast<float>(i),
                       .top_k = few          ? 1 + i % 3
                                : i % 3 == 1 ? 1 + 11 * i % 40
                                : i % 3 == 2 ? 20
                                             : 0,
                       .top_p = i % 4 == 1 ? 0.8f : 1.0f,
                       .min_p = i % 5 == 2 ? 0.05f : 0.0f,
                       .typical_p = i % 7 == 4 ? 0.6f : 1.0f,
                       .seed = static_cast<std::uint64_t>(i),
                       .ignore_eos = true,
                       .logits_hash = hashed};
    all.push_back(std::move(request));
  }
  return all;
}

template <class... Choices>
std::vector<std::vector<TokenId>> run(bool hashed, int threads, int batch, bool few = false) {
  Engine<Gpt2, Choices...> engine{
      random_checkpoint(tiny_gpt2(), 9), ContinuousPolicy{.max_batch = batch}, {.threads = threads}};
  std::vector<std::vector<TokenId>> ids;
  for (auto& answer : engine.complete(requests(hashed, few))) {
    BOOST_TEST(answer.error == "");
    ids.push_back(std::move(answer.ids));
  }
  return ids;
}

}  // namespace

// logits_hash needs whole rows, and so takes the other path.
BOOST_AUTO_TEST_CASE(with_logits_or_without_tokens_are_the_same) {
  const auto with_logits = run<>(true, 1, 24);
  for (const int threads : {1, 2}) {
    for (const int batch : {1, 5, 24}) BOOST_TEST((run<>(false, threads, batch) == with_logits));
  }
  BOOST_TEST((run<Weights<ZeroPointInt8Act8>>(false, 2, 24) == run<Weights<ZeroPointInt8Act8>>(true, 1, 3)));
  BOOST_TEST((run<Weights<GroupInt4>>(false, 2, 24) == run<Weights<GroupInt4>>(true, 1, 3)));
  BOOST_TEST((run<Weights<BFloat16Amx>>(false, 2, 24) == run<Weights<BFloat16Amx>>(true, 1, 3)));
}

BOOST_AUTO_TEST_CASE(an_exact_head_changes_nothing) {
  const auto plain = run<>(false, 1, 24);
  BOOST_TEST((run<Head<Int8Exact>>(true, 2, 24) == plain));
  const auto plain_few = run<>(false, 1, 24, true), int8_few = run<Weights<ZeroPointInt8>>(false, 1, 24, true);
  for (const int batch : {1, 6, 24}) {
    BOOST_TEST((run<Head<Int8Exact>>(false, 2, batch) == plain));
    BOOST_TEST((run<Head<Int8Exact>>(false, 2, batch, true) == plain_few));
    BOOST_TEST((run<Weights<ZeroPointInt8>, Head<Int8ExactOf<ZeroPointInt8>>>(false, 2, batch, true) == int8_few));
  }
  // A head in int8 alone does: the comparison can fail.
  BOOST_TEST((run<Head<ZeroPointInt8>>(false, 1, 24) != plain));
}

// Weights so large that logits overflow: the request fails, and says why, on either path.
BOOST_AUTO_TEST_CASE(logits_that_are_not_finite_fail_their_request) {
  struct Huge : Float32 {
    struct View : Float32::View {
      float at(int, int) const { return 1; }
    };
    static void encode(Shape shape, int first_row, std::span<const float> rows, std::span<std::byte> packed) {
      std::vector<float> large(rows.begin(), rows.end());
      for (float& x : large) x *= std::numeric_limits<float>::infinity();
      Float32::encode(shape, first_row, large, packed);
    }
    static View view(Shape shape, std::span<const std::byte> stored) { return {Float32::view(shape, stored)}; }
  };
  for (const bool hashed : {false, true}) {
    Engine<Gpt2, Head<Huge>> engine{random_checkpoint(tiny_gpt2(), 9)};
    const auto answer = engine.complete({.input_ids = {1, 2}, .options = {.max_new_tokens = 2, .logits_hash = hashed}});
    BOOST_TEST(answer.error.find("logits: not finite before position 2") != std::string::npos, answer.error);
  }
}

BOOST_AUTO_TEST_SUITE_END()
