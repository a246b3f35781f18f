// SentencePiece's spelling of spaces as U+2581, so that words carry their spaces.
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "tenon/core/error.h"

namespace tenon::detail {

inline constexpr std::string_view kMetaspace = "\xE2\x96\x81";

// The options of the pre-tokenizer Metaspace.
struct Metaspace {
  enum class Prepend : std::uint8_t {
    never,
    first,   // before the text, unless it starts with a space
    always,  // before each part between added tokens, unless it starts with a space
  };
  Prepend prepend = Prepend::never;
  bool split = false;  // each U+2581 starts a piece; otherwise a part is one piece
};

// Replaces spaces by U+2581. `part` is not empty. `first`: it starts where the text does. Error capacity if the
// result has 2^31 bytes or more.
inline std::string spell_spaces(std::string_view part, const Metaspace& metaspace, bool first) {
  using Prepend = Metaspace::Prepend;
  const bool begins = part.starts_with(' ') || part.starts_with(kMetaspace);
  const bool prepend =
      !begins && (metaspace.prepend == Prepend::always || (metaspace.prepend == Prepend::first && first));
  std::string out(prepend ? kMetaspace : "");
  for (const char c : part) {
    if (c == ' ')
      out += kMetaspace;
    else
      out += c;
  }
  if (out.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()))
    throw Error(Error::Kind::capacity, "text",
                "has " + std::to_string(out.size()) + " bytes with its spaces spelled out, 2^31 - 1 can be encoded");
  return out;
}

// The text of a spelling, with U+2581 as spaces.
inline std::string unspell_spaces(std::string_view spelling) {
  std::string out;
  for (std::size_t at = 0; at < spelling.size();) {
    const bool space = spelling.substr(at).starts_with(kMetaspace);
    out += space ? ' ' : spelling[at];
    at += space ? kMetaspace.size() : 1;
  }
  return out;
}

}  // namespace tenon::detail
