// A weight format of your own: bfloat16, the upper half of a float32. With `at` alone it works with every model, cache
// and scheduler. A hook for speed can follow later.
#include <tenon/tenon.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <span>

#include "common/example.h"
#include "tenon/testing/laws.h"

// [policy]
struct UpperHalf {
  struct View {
    const std::uint16_t* halves = nullptr;  // [rows, cols]
    int cols = 0;
    float at(int row, int col) const {
      const std::uint32_t half = halves[std::ptrdiff_t{row} * cols + col];
      return std::bit_cast<float>(half << 16);
    }
  };
  static std::size_t bytes(tenon::Shape shape) {
    return sizeof(std::uint16_t) * static_cast<std::size_t>(shape.rows) * static_cast<std::size_t>(shape.cols);
  }
  // Encodes rows.size() / cols rows, from `first_row`. `packed` has space for the whole matrix.
  static void encode(tenon::Shape shape, int first_row, std::span<const float> rows, std::span<std::byte> packed) {
    auto* out = reinterpret_cast<std::uint16_t*>(packed.data()) + std::ptrdiff_t{first_row} * shape.cols;
    for (const float value : rows) *out++ = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
  }
  static View view(tenon::Shape shape, std::span<const std::byte> stored) {
    return {reinterpret_cast<const std::uint16_t*>(stored.data()), shape.cols};
  }
};
// [/policy]

// The mean surprise of a text to the model, in nats per token.
template <class Engine>
double report(const char* name, const tenon::ModelFiles& files) {
  Engine engine{files};
  const auto score = engine.complete({.prompt = "Once upon a time there was a king who had three daughters, and the "
                                                "youngest of them was so beautiful that the sun himself wondered.",
                                      .options = {.max_new_tokens = 0, .nll = true}});
  const auto answer = engine.complete({.prompt = example::kPrompt, .options = {.max_new_tokens = 10}});
  const double nll = score.scores->nll_mean.value();
  std::printf("  %-10s %5.1f MB   %.4f nats   %s\n", name, static_cast<double>(engine.weight_bytes()) / 1e6, nll,
              answer.text.c_str());
  return nll;
}

int main(int argc, char** argv) try {
  const example::Arguments arguments(argc, argv);
  const auto files = tenon::load_checkpoint(arguments.text("--model"));
  // [engines]
  const double exact = report<tenon::Engine<tenon::Gpt2>>("float32", files);
  const double half = report<tenon::Engine<tenon::Gpt2, tenon::Weights<UpperHalf>>>("upper half", files);
  // [/engines]
  // [laws]
  const auto broken = tenon::testing::weight_laws<UpperHalf>();
  for (const auto& law : broken) std::printf("broken: %s\n", law.c_str());
  // [/laws]
  return example::verdict("the laws hold, and half the memory costs less than 1 % of surprise",
                          broken.empty() && std::abs(half - exact) < 0.01 * exact);
} catch (const std::exception& error) {
  return example::failed(error);
}
