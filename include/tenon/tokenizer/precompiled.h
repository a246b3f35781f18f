// The normalizer Precompiled of tokenizer.json: the rules of a SentencePiece model, applied as Hugging Face's
// tokenizers apply them.
#pragma once
#include <utf8proc.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "tenon/core/error.h"
#include "tenon/tokenizer/charsmap.h"
#include "tenon/tokenizer/unicode.h"

namespace tenon::detail {

// The bytes of base64 with padding. Error invalid_file at `where`.
inline std::string decode_base64(std::string_view text, const std::string& where) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const auto refuse = [&] { throw Error(Error::Kind::invalid_file, where, "is not base64"); };
  if (text.size() % 4 != 0) refuse();
  std::string out;
  for (std::size_t at = 0; at < text.size(); at += 4) {
    const bool last = at + 4 == text.size();
    const std::size_t pads = !last ? 0 : text[at + 3] != '=' ? 0 : text[at + 2] != '=' ? 1 : 2;
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      const std::size_t digit = i >= 4 - pads ? 0 : digits.find(text[at + i]);
      if (digit == digits.npos) refuse();
      value = value << 6 | static_cast<std::uint32_t>(digit);
    }
    for (std::size_t i = 0; i < 3 - pads; ++i) out += static_cast<char>(value >> (16 - 8 * i) & 0xFF);
  }
  return out;
}

// End of the grapheme cluster (Unicode Standard Annex 29) that begins at text[at]; at < text.size().
inline std::size_t grapheme_end(std::string_view text, std::size_t at) {
  CodePoint point = decode_utf8(text, at);
  utf8proc_int32_t state = 0;
  for (;;) {
    at += static_cast<std::size_t>(point.length);
    if (at == text.size()) return at;
    const CodePoint next = decode_utf8(text, at);
    if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(point.value),
                                         static_cast<utf8proc_int32_t>(next.value), &state))
      return at;
    point = next;
  }
}

// A cluster of at most five bytes is replaced as a whole if a rule fits its beginning: the shortest one
// (precompiled.rs, spm_precompiled 0.1). In others, each character is replaced.
inline std::string apply_rules(const Charsmap& rules, std::string_view cluster) {
  if (cluster.size() < 6)
    if (const Charsmap::Match match = rules.shortest(cluster); match.size > 0) return std::string(match.replacement);
  std::string out;
  for (std::size_t at = 0; at < cluster.size();) {
    const std::string_view character = cluster.substr(at, static_cast<std::size_t>(decode_utf8(cluster, at).length));
    const Charsmap::Match match = rules.shortest(character);
    out += match.size > 0 ? match.replacement : character;
    at += character.size();
  }
  return out;
}

}  // namespace tenon::detail
