// The rules of a SentencePiece normalizer: a double-array trie of texts, each with its replacement.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/core/error.h"

namespace tenon::detail {

// precompiled_charsmap of a model file: the size of the trie in bytes (uint32), the trie (uint32 units), and the
// replacements, each with a NUL after it. Numbers are little-endian. The trie is that of Darts-clone 0.32 (Yata et
// al.).
class Charsmap {
 public:
  Charsmap() = default;

  // Error invalid_file if the blob is damaged. `where` names it.
  Charsmap(std::string_view blob, const std::string& where) {
    const auto refuse = [&](const char* what) { throw Error(Error::Kind::invalid_file, where, what); };
    if (blob.size() <= 4) refuse("is too short to hold rules");
    const std::size_t size = number(blob, 0);
    if (size < 1024 || size % 1024 != 0 || size >= blob.size() - 4) refuse("holds a trie of a wrong size");
    for (std::size_t at = 0; at < size; at += 4) units_.push_back(number(blob, 4 + at));
    replacements_ = blob.substr(4 + size);
    if (replacements_.back() != '\0') refuse("does not end with a NUL");
  }

  // The longest rule that `text` begins with.
  struct Match {
    std::size_t size = 0;  // bytes of the text; 0: no rule
    std::string_view replacement;
  };
  Match longest(std::string_view text) const {
    Match match;
    for_each_rule(text, [&](const Match& found) { return match = found, true; });
    return match;
  }

  // The shortest rule that `text` begins with.
  Match shortest(std::string_view text) const {
    Match match;
    for_each_rule(text, [&](const Match& found) { return match = found, false; });
    return match;
  }

 private:
  // Calls visit(match) for each rule that `text` begins with, the shortest first, until it returns false.
  template <class Visit>
  void for_each_rule(std::string_view text, Visit&& visit) const {
    if (units_.empty()) return;
    std::size_t node = offset(units_[0]);
    for (std::size_t at = 0; at < text.size(); ++at) {
      const auto byte = static_cast<unsigned char>(text[at]);
      node ^= byte;
      if (node >= units_.size()) break;
      const std::uint32_t unit = units_[node];
      if ((unit & (0x80000000u | 0xFFu)) != byte) break;
      node ^= offset(unit);
      if ((unit >> 8 & 1) == 0) continue;
      if (node >= units_.size()) break;
      const std::size_t value = units_[node] & 0x7FFFFFFFu;
      if (value >= replacements_.size()) continue;
      if (!visit(Match{at + 1, std::string_view(replacements_.data() + value)})) return;  // a NUL ends it
    }
  }

  static std::uint32_t number(std::string_view bytes, std::size_t at) {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < 4; ++i)
      value |= static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[at + i])) << (8 * i);
    return value;
  }
  static std::size_t offset(std::uint32_t unit) {
    return static_cast<std::size_t>(unit >> 10) << ((unit & (1u << 9)) >> 6);
  }

  std::vector<std::uint32_t> units_;
  std::string replacements_;
};

}  // namespace tenon::detail
