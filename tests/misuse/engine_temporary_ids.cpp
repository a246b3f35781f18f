// expect: tenon: generate\(\) reads from the Engine as long as its tokens are read,
#include <tenon/tenon.h>

#include <utility>
#include <vector>

using Engine = tenon::Engine<tenon::Gpt2>;

void read(Engine& engine, std::vector<tenon::TokenId>& ids) {
#ifdef TENON_MISUSE
  auto tokens = std::move(engine).generate(std::vector<tenon::TokenId>{1, 2, 3});
#else
  auto tokens = engine.generate(std::vector<tenon::TokenId>{1, 2, 3});
#endif
  for (auto& token : tokens) ids.push_back(token.id);
}
