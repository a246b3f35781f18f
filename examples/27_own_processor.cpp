// A logits processor of your own, in Eigen: it combines two rows of logits of the same text without a copy. Guidance
// (Sanchez et al., 2023) moves an adapter's log-probabilities further away from those of the plain model.
#include <tenon/eigen.h>
#include <tenon/tenon.h>

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/example.h"

using Logits = std::vector<float>;  // [vocab]

// [processor]
// log softmax(adapted) + strength * (log softmax(adapted) - log softmax(plain)), up to a constant; all are [vocab].
void guide(std::span<const float> plain, std::span<float> adapted, float strength) {
  const auto base = tenon::as_eigen(plain).array();
  auto logits = tenon::as_eigen(adapted).array();
  logits += strength * (logits - base);
}
// [/processor]

// [loop]
// Generates with one step per token: the engine scores the text with both models, and this thread picks.
template <class Engine>
std::vector<tenon::TokenId> generate(Engine& engine, const std::string& adapter, std::vector<tenon::TokenId> ids,
                                     int count, float strength) {
  const std::size_t prompt = ids.size();
  tenon::Sampler sampler;
  const tenon::Options draw;  // greedy
  while (ids.size() < prompt + static_cast<std::size_t>(count)) {
    const int last = static_cast<int>(ids.size()) - 1;
    const tenon::Options score{.max_new_tokens = 0, .logits_at = {last}};
    auto both = engine.complete(
        {{.input_ids = ids, .options = score}, {.input_ids = ids, .adapters = {{adapter}}, .options = score}});
    for (const auto& each : both) {
      if (!each.error.empty()) throw std::runtime_error(each.error);
    }
    Logits logits = both[1].scores->logits[0].second;
    guide(both[0].scores->logits[0].second, logits, strength);
    const std::span<const tenon::TokenId> known(ids);
    ids.push_back(sampler
                      .sample({.logits = logits,
                               .prompt = known.first(prompt),
                               .generated = known.subspan(prompt),
                               .options = draw,
                               .position = last + 1})
                      .token);
  }
  return {ids.begin() + static_cast<std::ptrdiff_t>(prompt), ids.end()};
}
// [/loop]

int main(int argc, char** argv) try {
  const example::Arguments arguments(argc, argv, {{"--new", "16"}, {"--prompt", "The weather"}});
  const std::string &model = arguments.text("--model"), adapter = model + "/adapters/weather";
  const auto files = tenon::load_checkpoint(model);
  const auto prompt = files.tokenizer->encode(arguments.text("--prompt"));
  const int count = arguments.number("--new");
  tenon::Engine<tenon::Gpt2> engine{files};
  std::vector<std::vector<tenon::TokenId>> answers;
  for (const float strength : {-1.0f, 0.0f, 1.0f, 3.0f}) {
    answers.push_back(generate(engine, adapter, prompt, count, strength));
    std::printf("strength %4.1f %s%s\n", static_cast<double>(strength), arguments.text("--prompt").c_str(),
                files.tokenizer->decode(answers.back()).c_str());
  }
  const tenon::Options options{.max_new_tokens = count, .ignore_eos = true};
  const auto plain = engine.complete({.input_ids = prompt, .options = options});
  const auto adapted = engine.complete({.input_ids = prompt, .adapters = {{adapter}}, .options = options});
  return example::verdict("-1 is the plain model, 0 is the adapter, and others are neither",
                          answers[0] == plain.ids && answers[1] == adapted.ids && answers[3] != answers[1]);
} catch (const std::exception& error) {
  return example::failed(error);
}
