// The observations of a translation unit; they must be the same in both.
#pragma once
#include <tenon/tenon.h>

#include <string>
#include <typeinfo>
#include <vector>

using SharedEngine = tenon::Engine<tenon::Gpt2>;

struct Answer {
  const std::type_info* engine;
  std::vector<tenon::TokenId> ids;
};

inline Answer answer(const char* model) {
  auto engine = SharedEngine{tenon::load_checkpoint(model)};
  Answer a{&typeid(SharedEngine), {}};
  for (auto& token : engine.generate(std::vector<tenon::TokenId>{1, 2, 3}, {.max_new_tokens = 3, .ignore_eos = true})) {
    a.ids.push_back(token.id);
  }
  return a;
}

Answer answer_of_first(const char* model);
Answer answer_of_second(const char* model);
