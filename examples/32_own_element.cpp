// An element of your own for keys and values: one byte, the upper half of a float16. Every cache stores it, attention
// reads what it decodes to, and an answer is the same alone and beside others.
#include <tenon/tenon.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "common/example.h"
#include "tenon/testing/element_laws.h"

// [element]
struct UpperByte {
  std::uint8_t bits;

  static UpperByte encode(float x) {
    const int half = tenon::float16(x).bits;
    if (std::isnan(x)) return {0x7f};
    return {static_cast<std::uint8_t>((half + 0x7f + (half >> 8 & 1)) >> 8)};  // to nearest, ties to even
  }
  float decode() const {
    tenon::float16 half;
    half.bits = static_cast<std::uint16_t>(bits << 8);
    return static_cast<float>(half);
  }
};
// [/element]

// The mean surprise of a text, in nats a token, with the bytes of the cache.
template <class Engine>
double report(const char* name, const tenon::ModelFiles& files) {
  Engine engine{files, {.batch = 4}};
  const auto score = engine.complete({.prompt = "Once upon a time there was a king who had three daughters, and the "
                                                "youngest of them was so beautiful that the sun himself wondered.",
                                      .options = {.max_new_tokens = 0, .nll = true}});
  const double nll = score.scores->nll_mean.value();
  std::printf("  %-10s %5.1f MB   %.4f nats\n", name, static_cast<double>(engine.cache_stats().bytes) / 1e6, nll);
  return nll;
}

int main(int argc, char** argv) try {
  const auto files = tenon::load_checkpoint(example::Arguments(argc, argv).text("--model"));
  // [engines]
  const double exact = report<tenon::Engine<tenon::Gpt2>>("float", files);
  using Small = tenon::Engine<tenon::Gpt2, tenon::Cache<tenon::PagedKVOf<16, UpperByte>>>;
  const double small = report<Small>("UpperByte", files);
  // [/engines]
  // [laws]
  const auto broken = tenon::testing::element_laws<UpperByte>();
  for (const auto& law : broken) std::printf("broken: %s\n", law.c_str());
  // [/laws]

  Small engine{files};
  const tenon::Request request{.prompt = example::kPrompt, .options = {.max_new_tokens = 20}};
  const auto alone = engine.complete(request);
  tenon::Request other = request;
  other.prompt = "Once upon a time";
  const auto together = engine.complete({other, request, other});
  const bool same = together[1].ids == alone.ids;
  return example::verdict(
      "the laws hold, a quarter of the memory costs less than 3 % of surprise, and no answer depends on others",
      broken.empty() && same && std::abs(small - exact) < 0.03 * exact);
} catch (const std::exception& error) {
  return example::failed(error);
}
