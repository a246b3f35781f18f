// The README's example: one engine with int8 weights answers two requests in one batch, each with its own adapter.
#include <tenon/tenon.h>

#include <iostream>
#include <string>

int main(int argc, char** argv) {
  const std::string model = argc == 3 && argv[1] == std::string("--model") ? argv[2] : TENON_DEFAULT_MODEL_DIR;
  // [card]
  using Engine = tenon::Engine<tenon::Gpt2,  // the order is free; omitted axes have defaults
                               tenon::Scheduler<tenon::ContinuousPolicy>, tenon::Cache<tenon::PagedKV>,
                               tenon::Weights<tenon::ZeroPointInt8>, tenon::Adapter<tenon::GatheredLoRA>>;

  Engine engine{tenon::load_checkpoint(model)};
  const auto answers = engine.complete({{.prompt = "Good morrow, my", .adapters = {{model + "/adapters/shakespeare"}}},
                                        {.prompt = "The weather today", .adapters = {{model + "/adapters/weather"}}}});
  for (const tenon::Completion& answer : answers) std::cout << answer.text << answer.error << '\n';
  // [/card]
  return answers[0].error.empty() && answers[1].error.empty() ? 0 : 1;
}
