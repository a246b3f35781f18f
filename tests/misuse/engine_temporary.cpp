// expect: tenon: generate\(\) reads from the Engine as long as its tokens are read,
#include <tenon/tenon.h>

using Engine = tenon::Engine<tenon::Gpt2>;

std::string text(const tenon::ModelFiles& files) {
  std::string text;
#ifdef TENON_MISUSE
  for (auto& token : Engine{files}.generate("Once", {.max_new_tokens = 3})) text += token.text;
#else
  Engine engine{files};
  for (auto& token : engine.generate("Once", {.max_new_tokens = 3})) text += token.text;
#endif
  return text;
}
