// expect: tenon: C\+\+20 is needed; compile with -std=c\+\+20
// flags: -std=c++17
#include <tenon/tenon.h>

tenon::RequestId submit(tenon::Engine<tenon::Gpt2>& engine) { return engine.submit({.prompt = "Once"}); }
