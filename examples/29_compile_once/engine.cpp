// The only unit that compiles an engine.
#include "29_compile_once/engine.h"

#include <tenon/tenon.h>

// [engine]
std::unique_ptr<tenon::AnyEngine> make_engine(const std::string& folder) {
  using Engine = tenon::Engine<tenon::Gpt2, tenon::Weights<tenon::ZeroPointInt8>>;
  return std::make_unique<tenon::EngineBox<Engine>>(tenon::load_checkpoint(folder));
}
// [/engine]
