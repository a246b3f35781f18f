// expect: deleted .*Engine
#include <tenon/tenon.h>

using Engine = tenon::Engine<tenon::Gpt2>;

int use(const Engine& engine) {
#ifdef TENON_MISUSE
  const Engine copy = engine;
#else
  const Engine& copy = engine;
#endif
  return copy.pending();
}
