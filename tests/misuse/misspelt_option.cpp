// expect: .max_tokens.
#include <tenon/tenon.h>

using Engine = tenon::Engine<tenon::Gpt2>;

void read(Engine& engine) {
#ifdef TENON_MISUSE
  for (auto& token : engine.generate("Once", tenon::Options{.max_tokens = 3})) static_cast<void>(token);
#else
  for (auto& token : engine.generate("Once", tenon::Options{.max_new_tokens = 3})) static_cast<void>(token);
#endif
}
