// The smallest program with the library: main.cpp MODEL generates three tokens from ids.
#include <tenon/tenon.h>

#include <iostream>
#include <vector>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  auto engine = tenon::Engine<tenon::Gpt2>{tenon::load_checkpoint(argv[1])};
  int tokens = 0;
  for (auto& token : engine.generate(std::vector<tenon::TokenId>{1, 2, 3}, {.max_new_tokens = 3, .ignore_eos = true})) {
    std::cout << token.id << ' ';
    ++tokens;
  }
  std::cout << '\n';
  return tokens == 3 ? 0 : 1;
}
