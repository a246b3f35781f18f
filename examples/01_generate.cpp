// Experiment 1: a model writes one token at a time. Shows the candidates for the next token and the time of each token.
#include <tenon/tenon.h>

#include <cmath>
#include <vector>

#include "common/example.h"

int main(int argc, char** argv) try {
  const example::Arguments arguments(argc, argv, {{"--new", "10"}, {"--prompt", example::kPrompt}});
  example::Csv csv(arguments.text("--csv"), "token,milliseconds,probability");
  const std::string model = arguments.text("--model"), prompt = arguments.text("--prompt");
  const int count = arguments.number("--new");

  // [generate]
  using Engine = tenon::Engine<tenon::Gpt2>;
  auto engine = Engine{tenon::load_checkpoint(model)};

  std::vector<tenon::Token> tokens;
  std::vector<double> ms;
  example::Stopwatch watch;
  for (auto& token : engine.generate(prompt, {.max_new_tokens = count, .ignore_eos = true, .top_logprobs = 10})) {
    ms.push_back(watch.lap());
    tokens.push_back(token);
  }
  // [/generate]
  if (tokens.empty()) return 1;

  std::printf("%s ...\n\n  likeliest next   probability\n", prompt.c_str());
  // [candidates]
  for (const auto& [id, logprob] : tokens.front().top_logprobs) {
    const std::string text = "\"" + std::string(engine.tokenizer()->bytes(id)) + "\"";
    std::printf("  %-16s %9.2f %%\n", text.c_str(), 100 * std::exp(logprob));
  }
  // [/candidates]

  std::printf("\n     id   token          probability       ms\n");
  std::string written = prompt;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const double probability = std::exp(tokens[i].logprob);
    std::printf("  %5d   %-14s %9.2f %% %8.2f\n", tokens[i].id, ("\"" + tokens[i].text + "\"").c_str(),
                100 * probability, ms[i]);
    csv.row(i + 1, ms[i], probability);
    written += tokens[i].text;
  }
  std::printf("\n%s\n\nThe first token takes longer: the whole prompt goes through the model before it.\n",
              written.c_str());
  return static_cast<int>(tokens.size()) == count ? 0 : 1;
} catch (const std::exception& error) {
  return example::failed(error);
}
