// The first program of docs/getting-started.md: name an engine, load a model, generate.
#include <tenon/tenon.h>

#include <iostream>
#include <string>

int main(int argc, char** argv) {
  const std::string model = argc == 3 && argv[1] == std::string("--model") ? argv[2] : TENON_DEFAULT_MODEL_DIR;
  // [quick_start]
  using Engine = tenon::Engine<tenon::Gpt2,  // the order is free; omitted axes have defaults
                               tenon::Scheduler<tenon::ContinuousPolicy>, tenon::Cache<tenon::PagedKV>,
                               tenon::Weights<tenon::Float32>, tenon::Attention<tenon::FlashAttention>>;

  auto engine = Engine{tenon::load_checkpoint(model)};
  for (auto& token : engine.generate("The quick brown fox jumped over the", {.max_new_tokens = 10}))
    std::cout << token.text << std::flush;
  // [/quick_start]
  std::cout << '\n';
  return 0;
}
