// Sets of characters in regular expressions.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/tokenizer/unicode.h"
#include "tenon/tokenizer/unicode_categories.h"

namespace tenon::detail {

// The general categories of \p{name}: one ("Lu") or a group ("L"). Empty for an unknown name.
inline std::optional<std::uint32_t> categories_named(std::string_view name) {
  struct Named {
    std::string_view name;
    std::uint32_t categories;
  };
  constexpr auto bit = [](utf8proc_category_t category) { return category_bit(category); };
  constexpr Named known[] = {
      {"L", kLetters},
      {"M", kMarks},
      {"N", kNumbers},
      {"P", kPunctuation},
      {"S", kSymbols},
      {"Z", kSeparators},
      {"Lu", bit(UTF8PROC_CATEGORY_LU)},
      {"Ll", bit(UTF8PROC_CATEGORY_LL)},
      {"Lt", bit(UTF8PROC_CATEGORY_LT)},
      {"Lm", bit(UTF8PROC_CATEGORY_LM)},
      {"Lo", bit(UTF8PROC_CATEGORY_LO)},
      {"Mn", bit(UTF8PROC_CATEGORY_MN)},
      {"Mc", bit(UTF8PROC_CATEGORY_MC)},
      {"Me", bit(UTF8PROC_CATEGORY_ME)},
      {"Nd", bit(UTF8PROC_CATEGORY_ND)},
      {"Nl", bit(UTF8PROC_CATEGORY_NL)},
      {"No", bit(UTF8PROC_CATEGORY_NO)},
      {"Pc", bit(UTF8PROC_CATEGORY_PC)},
      {"Pd", bit(UTF8PROC_CATEGORY_PD)},
      {"Ps", bit(UTF8PROC_CATEGORY_PS)},
      {"Pe", bit(UTF8PROC_CATEGORY_PE)},
      {"Pi", bit(UTF8PROC_CATEGORY_PI)},
      {"Pf", bit(UTF8PROC_CATEGORY_PF)},
      {"Po", bit(UTF8PROC_CATEGORY_PO)},
      {"Sm", bit(UTF8PROC_CATEGORY_SM)},
      {"Sc", bit(UTF8PROC_CATEGORY_SC)},
      {"Sk", bit(UTF8PROC_CATEGORY_SK)},
      {"So", bit(UTF8PROC_CATEGORY_SO)},
      {"Zs", bit(UTF8PROC_CATEGORY_ZS)},
      {"Zl", bit(UTF8PROC_CATEGORY_ZL)},
      {"Zp", bit(UTF8PROC_CATEGORY_ZP)},
      {"Cc", bit(UTF8PROC_CATEGORY_CC)},
      {"Cf", bit(UTF8PROC_CATEGORY_CF)},
  };
  for (const Named& each : known)
    if (each.name == name) return each.categories;
  return std::nullopt;
}

// A set of characters. contains() needs finish() first.
class CharSet {
 public:
  void add_range(char32_t first, char32_t last) { ranges_.push_back({first, last}); }
  void add_categories(std::uint32_t categories) { categories_ |= categories; }
  void add_space() { space_ = true; }  // \s
  void add(CharSet nested) { nested_.push_back(std::move(nested)); }
  void negate() { negated_ = !negated_; }

  bool contains(char32_t c) const noexcept { return c < 128 ? (ascii_[c / 64] >> (c % 64) & 1) != 0 : holds(c); }

  // Builds the bitmap for ASCII. Call it when the set is complete, before contains().
  void finish() {
    for (CharSet& nested : nested_) nested.finish();
    ascii_[0] = ascii_[1] = 0;
    for (char32_t c = 0; c < 128; ++c) ascii_[c / 64] |= std::uint64_t{holds(c)} << (c % 64);
  }

 private:
  bool holds(char32_t c) const noexcept {
    bool in = (categories_ != 0 && is_in(c, categories_)) || (space_ && char_class(c) == CharClass::space);
    for (std::size_t i = 0; !in && i < ranges_.size(); ++i) in = ranges_[i].first <= c && c <= ranges_[i].last;
    for (std::size_t i = 0; !in && i < nested_.size(); ++i) in = nested_[i].contains(c);
    return in != negated_;
  }

  std::vector<CodeRange> ranges_;
  std::vector<CharSet> nested_;
  std::uint32_t categories_ = 0;
  bool space_ = false, negated_ = false;
  std::uint64_t ascii_[2] = {};
};

}  // namespace tenon::detail
