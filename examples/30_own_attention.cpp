// An attention of your own: a soft cap on the scores, as in Gemma 2 (Riviere et al., 2024), and a sparse mask, as in
// Sparse Transformers (Child et al., 2019). One struct runs in the library's kernels, on every model and cache.
#include <tenon/tenon.h>

#include <array>
#include <cmath>

#include "common/example.h"
#include "tenon/testing/laws.h"

// [variant]
struct CappedAndSparse {
  static constexpr bool materialises_scores = false;  // online softmax, as FlashAttention; true: as DirectAttention
  float cap = 30;
  int nearest = 32, stride = 4;

  // The new score of a pair of positions for a head. `s` is scale * q . k.
  float score(int /*query_position*/, int /*key_position*/, int /*head*/, float s) const {
    return cap * std::tanh(s / cap);
  }
  // A row sees the `nearest` keys, and every `stride`-th key before them.
  bool mask(int query_position, int key_position) const {
    return query_position - key_position < nearest || key_position % stride == 0;
  }
  // All members that change a result: they are part of the engine's fingerprint.
  std::array<float, 3> values() const { return {cap, static_cast<float>(nearest), static_cast<float>(stride)}; }
};
// [/variant]

const std::string kText =
    "Once upon a time there was a king who had three daughters, and the youngest of them was so beautiful that the sun "
    "himself wondered whenever she came out into the sunshine. Near the castle of this king was a large and gloomy "
    "forest, and in the midst stood an old lime tree, beneath whose branches splashed a little fountain.";

// The mean surprise of the text, in nats a token, while another request runs beside it.
template <class... Choices, class... Policy>
double surprise(const char* name, const tenon::ModelFiles& files, const Policy&... policy) {
  tenon::Engine<tenon::Gpt2, Choices...> engine{files, policy...};
  const auto answers = engine.complete({{.prompt = kText, .options = {.max_new_tokens = 0, .nll = true}},
                                        {.prompt = example::kPrompt, .options = {.max_new_tokens = 5}}});
  const double nll = answers[0].scores->nll_mean.value();
  std::printf("  %-40s %.4f nats\n", name, nll);
  return nll;
}

int main(int argc, char** argv) try {
  const example::Arguments arguments(argc, argv);
  const auto files = tenon::load_checkpoint(arguments.text("--model"));
  using tenon::Attention, tenon::Cache;
  const double all = surprise("every position", files);
  // [engines]
  using Mine = Attention<CappedAndSparse>;
  const double wide = surprise<Mine>("nearest 64, then every second", files, CappedAndSparse{30, 64, 2});
  const double narrow = surprise<Mine>("nearest 8, then every eighth", files, CappedAndSparse{30, 8, 8});
  const double other =
      surprise<Mine, Cache<tenon::ContiguousKV>>("the same, over another cache", files, CappedAndSparse{30, 8, 8});
  // [/engines]
  // [laws]
  const tenon::testing::Violations broken = tenon::testing::attention_laws(CappedAndSparse{});
  // [/laws]
  for (const std::string& law : broken) std::printf("broken: %s\n", law.c_str());
  return example::verdict("the laws hold, no cache changes a bit, and who sees less is surprised more",
                          broken.empty() && narrow == other && all < narrow && wide < narrow);
} catch (const std::exception& error) {
  return example::failed(error);
}
