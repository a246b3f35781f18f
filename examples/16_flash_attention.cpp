// Experiment 16: a long prompt. Direct attention stores a score for every pair of positions. Flash attention keeps a
// running maximum and sum, so its memory does not grow with the number of pairs. Both give the same tokens.
#include <tenon/tenon.h>
#include <tenon/testing/process_memory.h>

#include <vector>

#include "common/example.h"

// [engines]
using Direct = tenon::Engine<tenon::Gpt2, tenon::Attention<tenon::DirectAttention>>;
using Flash = tenon::Engine<tenon::Gpt2, tenon::Attention<tenon::FlashAttention>>;
// [/engines]

struct Result {
  std::vector<tenon::TokenId> ids;
  double prefill_ms = 0, megabytes = 0;
};

// Runs the whole prompt in one step, so that all its pairs exist at once.
template <class Engine>
Result run(const tenon::ModelFiles& files, const std::vector<tenon::TokenId>& prompt, int tokens) {
  const int budget = static_cast<int>(prompt.size());
  Engine engine{files, tenon::ContinuousPolicy{.token_budget = budget}, {.token_budget = budget}};
  engine.complete({.input_ids = {prompt.front()}, .options = {.max_new_tokens = 1}});
  Result result;
  const double before = tenon::testing::resident_megabytes();
  example::Stopwatch watch;
  for (auto& token : engine.generate(prompt, {.max_new_tokens = tokens, .ignore_eos = true})) {
    if (result.ids.empty())
      result.prefill_ms = watch.lap(), result.megabytes = tenon::testing::resident_megabytes() - before;
    result.ids.push_back(token.id);
  }
  return result;
}

int main(int argc, char** argv) try {
  const example::Arguments arguments(argc, argv, {{"--new", "8"}, {"--longest", "1000"}});
  example::Csv csv(arguments.text("--csv"), "tokens,direct_ms,flash_ms,direct_mb,flash_mb,scores_mb");
  const auto files = tenon::load_checkpoint(arguments.text("--model"));
  if (!files.tokenizer) throw std::runtime_error("--model: needs a tokenizer, vocab.json and merges.txt");
  // About ten times as long as a usual system prompt.
  const std::string sentence =
      "You are a patient story teller. You answer in whole sentences, you never interrupt the "
      "one who asks, and you always say how the story ends. ";
  const int longest = arguments.number("--longest");
  std::vector<tenon::TokenId> text;
  while (static_cast<int>(text.size()) < longest) {
    const auto more = files.tokenizer->encode(sentence + std::to_string(text.size()) + ". ");
    text.insert(text.end(), more.begin(), more.end());
  }

  std::printf("               prefill, ms        memory, MB     scores of direct, MB\n");
  std::printf("   tokens   direct    flash    direct    flash   (flash holds 64 a query)\n");
  const auto heads = static_cast<std::size_t>(tenon::Gpt2::configure(*files.config).heads);
  bool same = true;
  for (const int part : {8, 4, 2, 1}) {
    // [compare]
    const std::vector<tenon::TokenId> prompt(text.begin(), text.begin() + longest / part);
    const Result direct = run<Direct>(files, prompt, arguments.number("--new"));
    const Result flash = run<Flash>(files, prompt, arguments.number("--new"));
    same = same && direct.ids == flash.ids;
    // [/compare]
    // A row of scores is as long as its number of keys, rounded up to 64.
    std::size_t scores = 0;
    for (std::size_t seen = 1; seen <= prompt.size(); ++seen) scores += (seen + 63) / 64 * 64 * heads;
    const double scores_mb = static_cast<double>(scores * sizeof(float)) / 1e6;
    std::printf("  %7zu %8.1f %8.1f %9.1f %8.1f %12.2f\n", prompt.size(), direct.prefill_ms, flash.prefill_ms,
                direct.megabytes, flash.megabytes, scores_mb);
    csv.row(prompt.size(), direct.prefill_ms, flash.prefill_ms, direct.megabytes, flash.megabytes, scores_mb);
  }
  return example::verdict("the same tokens", same);
} catch (const std::exception& error) {
  return example::failed(error);
}
