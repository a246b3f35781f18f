// Experiment 17: how families encode positions, and how many heads share keys and values. Published shapes give the
// bytes per token. Then each family, with random weights of one size, writes beyond its "trained" length as far as its
// positions allow. The cache reports the memory of the text.
#include <tenon/tenon.h>

#include <array>
#include <vector>

#include "common/example.h"

constexpr int kTrained = 256, kText = 1024, kStride = 32;

struct Run {
  int tokens = 2;                      // in the finished text
  double held = 0, last_ms = 0;        // kB of keys and values in the last step before the end, and that step's time
  std::vector<double> kilobytes = {};  // `held`, every kStride tokens
};

void published(const char* name, const char* positions, const tenon::ModelConfig& c) {
  const std::size_t bytes =
      c.kv().tile_bytes<float>() / tenon::kTilePositions * static_cast<std::size_t>(c.layers * c.kv_heads);
  std::printf("  %-14s %-12s %5d %12d %14zu\n", name, positions, c.heads, c.kv_heads, bytes);
}

// [run]
template <class Model, class... Choices>
Run run(const char* name, tenon::ModelConfig c, int kv_heads, int window = 0) {
  c.layers = 4, c.hidden = 256, c.heads = 8, c.head_dim = 32, c.inner = 512, c.vocab = 512;
  c.positions = kTrained, c.kv_heads = kv_heads, c.window = window;
  // Learned positions end with their table. The other kinds are computed for any position.
  const int longest = c.position_kind == tenon::PositionKind::learned ? kTrained : kText;
  tenon::Engine<Model, Choices...> engine{tenon::random_checkpoint(c),
                                          {.cache_tokens = kText, .positions = longest, .draft_tokens = 0}};
  engine.submit(
      {.input_ids = {1, 2, 3}, .options = {.max_new_tokens = longest - 2, .temperature = 1, .ignore_eos = true}});
  Run out;
  for (example::Stopwatch watch; !engine.idle(); ++out.tokens) {
    if (engine.pending() > 0 && out.tokens % kStride == 0) out.kilobytes.push_back(out.held);
    watch.lap();
    engine.step();
    out.last_ms = watch.lap();
    const auto cache = engine.cache_stats();
    if (engine.pending() > 0)
      out.held = 1e-3 * static_cast<double>(cache.bytes) * cache.used_tokens / cache.capacity_tokens;
  }
  std::printf("  %-12s %8d %16.0f %14.2f\n", name, out.tokens, out.held, out.last_ms);
  return out;
}
// [/run]

int main(int argc, char** argv) try {
  using namespace tenon;
  const example::Arguments arguments(argc, argv);
  example::Csv csv(arguments.text("--csv"), "tokens,gpt2,gpt_bigcode,llama,mistral,bloom");
  std::printf("  published      positions    heads   of keys    KV bytes a token, float32\n");
  published("GPT-2 124M", "learned", Gpt2::small());
  published("StarCoder", "learned", GptBigCode::starcoder());
  published("Llama 3.2 1B", "rotary", Llama::one_billion());
  published("Mistral 7B", "rotary", Mistral::seven_billion());
  published("BLOOM 560M", "ALiBi", Bloom::small());
  std::printf("\n  one size, trained for %d positions\n  family         tokens   KV kB in the end    ms, last token\n",
              kTrained);
  const std::array runs = {run<Gpt2>("Gpt2", Gpt2::small(), 8),
                           run<GptBigCode>("GptBigCode", GptBigCode::starcoder(), 1),
                           run<Llama>("Llama", Llama::one_billion(), 2),
                           run<Mistral, Cache<WindowKV>>("Mistral", Mistral::seven_billion(), 2, 128),
                           run<Bloom>("Bloom", Bloom::small(), 8)};
  for (std::size_t i = 0; i < runs[2].kilobytes.size(); ++i) {
    const auto cell = [&](const Run& r) {
      return i < r.kilobytes.size() ? std::to_string(r.kilobytes[i]) : std::string{};
    };
    csv.row((i + 1) * kStride, cell(runs[0]), cell(runs[1]), cell(runs[2]), cell(runs[3]), cell(runs[4]));
  }
  bool holds = runs[0].tokens == kTrained && runs[1].tokens == kTrained;
  for (const std::size_t i : {2, 3, 4}) holds = holds && runs[i].tokens == kText;
  // The window's cache is full once the window is, up to one block.
  holds = holds && runs[3].held <= runs[3].kilobytes[5] && runs[2].held > 4 * runs[2].kilobytes[5];
  return example::verdict("learned positions end, computed ones go on, and a window stops growing", holds);
} catch (const std::exception& error) {
  return example::failed(error);
}
