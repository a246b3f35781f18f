// expect: tenon: generate\(\) reads from the Engine as long as its tokens are read,
#include <tenon/tenon.h>

using Engine = tenon::Engine<tenon::Gpt2, tenon::Scheduler<tenon::StaticPolicy>>;

Engine make(const tenon::ModelFiles& files) {
  return Engine{files, {.n = 3}};  // these braces can only mean the scheduler
}

void read(const tenon::ModelFiles& files) {
#ifdef TENON_MISUSE
  auto tokens = make(files).generate({.prompt = "Once", .options = {.max_new_tokens = 3}});
#else
  auto engine = make(files);
  auto tokens = engine.generate({.prompt = "Once", .options = {.max_new_tokens = 3}});
#endif
  for (auto& token : tokens) static_cast<void>(token);
}
