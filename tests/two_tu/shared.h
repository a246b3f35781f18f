// The observations of a translation unit; they must be the same in both.
#pragma once
#include <tenon/tenon.h>

#include <string>
#include <typeinfo>
#include <vector>

using SharedEngine = tenon::Engine<tenon::Gpt2>;

struct Observation {
  const std::type_info* engine;
  std::vector<tenon::TokenId> ids;
};

inline Observation answer(const char* model) {
  auto engine = SharedEngine{tenon::load_checkpoint(model)};
  Observation seen{&typeid(SharedEngine), {}};
  for (auto& token : engine.generate(std::vector<tenon::TokenId>{1, 2, 3}, {.max_new_tokens = 3, .ignore_eos = true})) {
    seen.ids.push_back(token.id);
  }
  return seen;
}

Observation answer_of_first(const char* model);
Observation answer_of_second(const char* model);
