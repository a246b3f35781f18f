// What of a vocabulary its users see.
#pragma once
#include <cstdint>
#include <string>

#include "tenon/core/views.h"

namespace tenon {

// A token that enters by its id alone: written in a text, it is ordinary characters.
struct SpecialToken {
  TokenId id;
  std::string text;
};

enum class TokenizerFamily : std::uint8_t {
  byte_level,     // symbols are bytes, pieces are cut by a pattern: GPT-2, StarCoder, Llama 3, Bloom
  sentencepiece,  // symbols are characters, spaces are U+2581: Llama 2, Mistral
};

}  // namespace tenon
