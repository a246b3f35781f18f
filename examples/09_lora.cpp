// Experiment 9: LoRA. The size of a low-rank update compared with its layer, and the effect of a real adapter on a
// text.
#include <tenon/tenon.h>

#include <string>
#include <vector>

#include "common/example.h"

// [run]
std::vector<tenon::Completion> base_and_adapted(const tenon::ModelFiles& files, const std::string& prompt,
                                                const std::vector<std::string>& adapters) {
  tenon::Engine<tenon::Gpt2> engine{files};
  std::vector<tenon::Request> requests;
  requests.push_back({.prompt = prompt, .options = {.max_new_tokens = 24}});
  for (const std::string& folder : adapters) {
    requests.push_back({.prompt = prompt, .adapters = {{folder}}, .options = {.max_new_tokens = 24}});
  }
  return engine.complete(requests);  // one batch: the plain model and its adapters
}
// [/run]

int main(int argc, char** argv) try {
  const example::Arguments arguments(argc, argv, {{"--hidden", "1024"}, {"--rank", "2"}, {"--prompt", "The weather"}});
  const int hidden = arguments.number("--hidden"), rank = arguments.number("--rank");
  const long long whole = 1LL * hidden * hidden, update = 2LL * rank * hidden;
  std::printf("W [%d, %d]: %lld parameters; A [%d, %d] and B [%d, %d]: %lld, %.2f %% of them\n\n", hidden, hidden,
              whole, rank, hidden, hidden, rank, update,
              100.0 * static_cast<double>(update) / static_cast<double>(whole));

  const std::string& model = arguments.text("--model");
  const std::vector<std::string> names = {"shakespeare", "weather", "characters"};
  std::vector<std::string> folders;
  for (const std::string& name : names) folders.push_back(model + "/adapters/" + name);
  const std::string& prompt = arguments.text("--prompt");
  const auto answers = base_and_adapted(tenon::load_checkpoint(model), prompt, folders);
  bool differ = true;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (!answers[i].error.empty()) throw std::runtime_error(answers[i].error);
    std::printf("%-12s %s%s\n", i == 0 ? "base" : names[i - 1].c_str(), prompt.c_str(), answers[i].text.c_str());
    differ = differ && (i == 0 || answers[i].ids != answers[0].ids);
  }
  return differ ? 0 : 1;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
