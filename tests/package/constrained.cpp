// The least that a program can do with constraints: constrained.cpp MODEL generates one of two words.
#include <tenon/constrain/constraints.h>
#include <tenon/tenon.h>

#include <iostream>
#include <string>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const auto files = tenon::load_checkpoint(argv[1]);
  tenon::Engine<tenon::Gpt2> engine{files};
  tenon::constrain::Constraints constraints(
      tenon::constrain::Vocabulary::from(*files.tokenizer, engine.config().vocab, engine.config().eos));
  const auto answer = engine.complete(tenon::Request{
      .prompt = "The weather", .constraint = constraints.regex("sun|rain"), .options = {.max_new_tokens = 10}});
  std::cout << answer.text << '\n';
  return answer.text == "sun" || answer.text == "rain" ? 0 : 1;
}
