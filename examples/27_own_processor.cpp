// A logits processor of your own, in Eigen: guidance (Sanchez et al., 2023) moves an adapter's log-probabilities
// further away from the plain model's. A second engine gives the plain model's logits of the same text.
#include <tenon/eigen.h>
#include <tenon/tenon.h>

#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/example.h"
#include "tenon/testing/processor_laws.h"

using Engine = tenon::Engine<tenon::Gpt2>;

// [processor]
// Up to a constant: log softmax(adapted) + strength * (log softmax(adapted) - log softmax(plain)). All are [vocab].
struct Guidance {
  std::shared_ptr<Engine> plain;  // not the engine that calls this
  std::shared_ptr<std::mutex> turn;
  float strength;

  void operator()(std::span<float> adapted, std::span<const tenon::TokenId> prompt,
                  std::span<const tenon::TokenId> generated) const {
    std::vector<tenon::TokenId> text(prompt.begin(), prompt.end());
    text.insert(text.end(), generated.begin(), generated.end());
    const int last = static_cast<int>(text.size()) - 1;
    const std::lock_guard lock(*turn);  // rows of one step call this at once, and an engine has one thread
    const auto scored = plain->complete({.input_ids = text, .options = {.max_new_tokens = 0, .logits_at = {last}}});
    if (!scored.error.empty()) throw std::runtime_error(scored.error);
    const std::span<const float> logits(scored.scores->logits[0].second);
    const auto base = tenon::as_eigen(logits).array();
    auto row = tenon::as_eigen(adapted).array();
    row += strength * (row - base);
  }
};
// [/processor]

int main(int argc, char** argv) try {
  const example::Arguments arguments(argc, argv, {{"--new", "16"}, {"--prompt", "The weather"}});
  const std::string &model = arguments.text("--model"), adapter = model + "/adapters/weather";
  const auto files = tenon::load_checkpoint(model);
  const auto prompt = files.tokenizer->encode(arguments.text("--prompt"));
  const tenon::Options options{.max_new_tokens = arguments.number("--new"), .ignore_eos = true};
  Engine engine{files};
  // [use]
  const Guidance guidance{std::make_shared<Engine>(files), std::make_shared<std::mutex>(), 0};
  std::vector<tenon::Request> requests;
  for (const float strength : {-1.0f, 0.0f, 1.0f, 3.0f}) {
    Guidance own = guidance;
    own.strength = strength;
    requests.push_back({.input_ids = prompt, .adapters = {{adapter}}, .logits_processor = own, .options = options});
  }
  const auto answers = engine.complete(requests);
  // [/use]
  // [laws]
  const auto broken = tenon::testing::processor_laws(requests[3].logits_processor, engine.config().vocab);
  for (const auto& law : broken) std::printf("broken: %s\n", law.c_str());
  // [/laws]
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (!answers[i].error.empty()) throw std::runtime_error(answers[i].error);
    std::printf("strength %4.1f %s%s\n", i == 3 ? 3.0 : static_cast<double>(i) - 1, arguments.text("--prompt").c_str(),
                answers[i].text.c_str());
  }
  const auto plain = engine.complete({.input_ids = prompt, .options = options});
  const auto adapted = engine.complete({.input_ids = prompt, .adapters = {{adapter}}, .options = options});
  return example::verdict("the laws hold; -1 is the plain model, 0 is the adapter, and others are neither",
                          broken.empty() && answers[0].ids == plain.ids && answers[1].ids == adapted.ids &&
                              answers[3].ids != answers[1].ids);
} catch (const std::exception& error) {
  return example::failed(error);
}
