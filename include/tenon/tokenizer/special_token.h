// The public types of a vocabulary.
#pragma once
#include <cstdint>
#include <string>

#include "tenon/core/views.h"

namespace tenon {

/// A token that enters a prompt by its id only. Its text, written in a prompt, is ordinary characters.
struct SpecialToken {
  TokenId id;        ///< in the vocabulary
  std::string text;  ///< its spelling
};

/// How a tokenizer makes its symbols.
enum class TokenizerFamily : std::uint8_t {
  byte_level,     ///< symbols are bytes, a pattern cuts pieces: GPT-2, StarCoder, Llama 3, Bloom
  sentencepiece,  ///< symbols are characters, spaces are U+2581: Llama 2, Mistral
};

}  // namespace tenon
