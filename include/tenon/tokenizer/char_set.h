// Sets of characters in regular expressions.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/tokenizer/unicode.h"
#include "tenon/tokenizer/unicode_categories.h"
#include "tenon/tokenizer/unicode_sets.h"

namespace tenon::detail {

// The general categories of \p{name}: one or a group. Names have no upper case, spaces, - and _; empty for an unknown
// one.
inline std::optional<std::uint32_t> categories_named(std::string_view name) {
  struct Named {
    std::string_view name, long_name;
    std::uint32_t categories;
  };
  constexpr auto bit = [](utf8proc_category_t category) { return category_bit(category); };
  constexpr std::uint32_t assigned = (1u << (UTF8PROC_CATEGORY_CO + 1)) - 1 - bit(UTF8PROC_CATEGORY_CN);
  constexpr Named known[] = {
      {"l", "letter", kLetters},
      {"m", "mark", kMarks},
      {"m", "combiningmark", kMarks},
      {"n", "number", kNumbers},
      {"p", "punctuation", kPunctuation},
      {"p", "punct", kPunctuation},
      {"s", "symbol", kSymbols},
      {"z", "separator", kSeparators},
      {"c", "other",
       bit(UTF8PROC_CATEGORY_CC) | bit(UTF8PROC_CATEGORY_CF) | bit(UTF8PROC_CATEGORY_CS) | bit(UTF8PROC_CATEGORY_CO) |
           bit(UTF8PROC_CATEGORY_CN)},
      {"lc", "casedletter", bit(UTF8PROC_CATEGORY_LU) | bit(UTF8PROC_CATEGORY_LL) | bit(UTF8PROC_CATEGORY_LT)},
      {"lu", "uppercaseletter", bit(UTF8PROC_CATEGORY_LU)},
      {"ll", "lowercaseletter", bit(UTF8PROC_CATEGORY_LL)},
      {"lt", "titlecaseletter", bit(UTF8PROC_CATEGORY_LT)},
      {"lm", "modifierletter", bit(UTF8PROC_CATEGORY_LM)},
      {"lo", "otherletter", bit(UTF8PROC_CATEGORY_LO)},
      {"mn", "nonspacingmark", bit(UTF8PROC_CATEGORY_MN)},
      {"mc", "spacingmark", bit(UTF8PROC_CATEGORY_MC)},
      {"me", "enclosingmark", bit(UTF8PROC_CATEGORY_ME)},
      {"nd", "decimalnumber", bit(UTF8PROC_CATEGORY_ND)},
      {"nd", "digit", bit(UTF8PROC_CATEGORY_ND)},
      {"nl", "letternumber", bit(UTF8PROC_CATEGORY_NL)},
      {"no", "othernumber", bit(UTF8PROC_CATEGORY_NO)},
      {"pc", "connectorpunctuation", bit(UTF8PROC_CATEGORY_PC)},
      {"pd", "dashpunctuation", bit(UTF8PROC_CATEGORY_PD)},
      {"ps", "openpunctuation", bit(UTF8PROC_CATEGORY_PS)},
      {"pe", "closepunctuation", bit(UTF8PROC_CATEGORY_PE)},
      {"pi", "initialpunctuation", bit(UTF8PROC_CATEGORY_PI)},
      {"pf", "finalpunctuation", bit(UTF8PROC_CATEGORY_PF)},
      {"po", "otherpunctuation", bit(UTF8PROC_CATEGORY_PO)},
      {"sm", "mathsymbol", bit(UTF8PROC_CATEGORY_SM)},
      {"sc", "currencysymbol", bit(UTF8PROC_CATEGORY_SC)},
      {"sk", "modifiersymbol", bit(UTF8PROC_CATEGORY_SK)},
      {"so", "othersymbol", bit(UTF8PROC_CATEGORY_SO)},
      {"zs", "spaceseparator", bit(UTF8PROC_CATEGORY_ZS)},
      {"zl", "lineseparator", bit(UTF8PROC_CATEGORY_ZL)},
      {"zp", "paragraphseparator", bit(UTF8PROC_CATEGORY_ZP)},
      {"cc", "control", bit(UTF8PROC_CATEGORY_CC)},
      {"cc", "cntrl", bit(UTF8PROC_CATEGORY_CC)},
      {"cf", "format", bit(UTF8PROC_CATEGORY_CF)},
      {"cn", "unassigned", bit(UTF8PROC_CATEGORY_CN)},
      {"co", "privateuse", bit(UTF8PROC_CATEGORY_CO)},
      {"cs", "surrogate", bit(UTF8PROC_CATEGORY_CS)},
      {"assigned", "assigned", assigned},
      {"any", "any", assigned | bit(UTF8PROC_CATEGORY_CN)},
  };
  for (const Named& each : known)
    if (each.name == name || each.long_name == name) return each.categories;
  return std::nullopt;
}

// A set of characters. contains() needs finish() first.
class CharSet {
 public:
  void add_range(char32_t first, char32_t last) { ranges_.push_back({first, last}); }
  void add_categories(std::uint32_t categories) { categories_ |= categories; }
  void add(const UnicodeSet& set) {
    categories_ |= set.categories;
    named_.push_back(set.ranges);
  }
  void add_space() { space_ = true; }  // \s
  void add(CharSet nested) { nested_.push_back(std::move(nested)); }
  void intersect(CharSet with) { required_.push_back(std::move(with)); }
  void negate() { negated_ = !negated_; }

  bool contains(char32_t c) const noexcept { return c < 128 ? (ascii_[c / 64] >> (c % 64) & 1) != 0 : holds(c); }

  // The number of lists in which contains() looks for a character.
  std::size_t cost() const noexcept { return cost_; }

  // Sorts the ranges, and builds the bitmap for ASCII. Call it when the set is complete, before contains().
  void finish() {
    cost_ = 1 + named_.size();
    for (CharSet& nested : nested_) nested.finish(), cost_ += nested.cost_;
    for (CharSet& required : required_) required.finish(), cost_ += required.cost_;
    merge_ranges();
    ascii_[0] = ascii_[1] = 0;
    for (char32_t c = 0; c < 128; ++c) ascii_[c / 64] |= std::uint64_t{holds(c)} << (c % 64);
  }

 private:
  void merge_ranges() {
    std::sort(ranges_.begin(), ranges_.end(), [](const CodeRange& a, const CodeRange& b) { return a.first < b.first; });
    std::size_t kept = 0;
    for (std::size_t i = 1; i < ranges_.size(); ++i) {
      if (ranges_[i].first <= ranges_[kept].last)
        ranges_[kept].last = std::max(ranges_[kept].last, ranges_[i].last);
      else
        ranges_[++kept] = ranges_[i];
    }
    if (!ranges_.empty()) ranges_.resize(kept + 1);
  }

  bool holds(char32_t c) const noexcept {
    bool in = (categories_ != 0 && is_in(c, categories_)) || (space_ && char_class(c) == CharClass::space);
    in = in || is_in(c, ranges_);
    for (std::size_t i = 0; !in && i < named_.size(); ++i) in = is_in(c, named_[i]);
    for (std::size_t i = 0; !in && i < nested_.size(); ++i) in = nested_[i].contains(c);
    for (std::size_t i = 0; in && i < required_.size(); ++i) in = required_[i].contains(c);
    return in != negated_;
  }

  std::vector<CodeRange> ranges_;
  std::vector<std::span<const CodeRange>> named_;
  std::vector<CharSet> nested_;
  std::vector<CharSet> required_;  // operands of &&, of which each must contain the character
  std::uint32_t categories_ = 0;
  std::size_t cost_ = 1;
  bool space_ = false, negated_ = false;
  std::uint64_t ascii_[2] = {};
};

}  // namespace tenon::detail
