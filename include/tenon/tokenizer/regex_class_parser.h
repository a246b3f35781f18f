// Parses the sets of characters in regular expressions of tokenizer.json: escapes, properties, classes in brackets.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "tenon/core/error.h"
#include "tenon/io/file.h"
#include "tenon/tokenizer/char_set.h"
#include "tenon/tokenizer/unicode.h"

namespace tenon::detail {

// The text of an expression and the place in it. RegexParser reads the rest of the syntax.
class RegexClassParser {
 protected:
  static constexpr std::size_t kMostDepth = 32, kMostClasses = 256, kMostFolded = 1 << 21;

  RegexClassParser(std::string_view pattern, const std::string& where) : text_(pattern), where_(where) {}

  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(Error::Kind::unsupported, where_,
                "\"" + printable(std::string(text_), 300) + "\" has " + what + ", which is not supported here");
  }

  bool done() const { return at_ == text_.size(); }
  bool next_is(std::string_view text) const { return text_.substr(at_).starts_with(text); }
  bool take(std::string_view text) {
    if (!next_is(text)) return false;
    at_ += text.size();
    return true;
  }
  char32_t character() {
    if (done()) refuse("an end inside a group, class or escape");
    const CodePoint point = decode_utf8(text_, at_);
    at_ += static_cast<std::size_t>(point.length);
    return point.value;
  }

  CharSet literal(char32_t c) {
    CharSet set;
    letter_ = c;
    add_range(c, c, set);
    return set;
  }

  // An escape that stands for characters; at_ is at its backslash.
  CharSet escape(bool in_class) {
    if (const auto c = escaped_character()) return literal(*c);
    ++at_;
    const char32_t c = character();
    CharSet set;
    switch (c) {
      case 'p':
      case 'P':
        return property(c == 'P', in_class);
      case 's':
      case 'S':
        set.add_space();
        break;
      case 'd':
      case 'D':
        set.add_categories(category_bit(UTF8PROC_CATEGORY_ND));
        break;
      case 'w':
      case 'W':
        add_word(in_class, set);
        break;
      case 'h':
      case 'H':
        set.add_range('0', '9'), set.add_range('A', 'F'), set.add_range('a', 'f');
        break;
      case 'N':
      case 'O':
        if (in_class) refuse("the escape \\" + std::string(1, static_cast<char>(c)) + " in a class");
        if (c == 'N') set.add_range('\n', '\n');
        set.negate();
        return set;
      default:
        refuse("the escape \\" + std::string(1, static_cast<char>(c < 0x80 && c >= 0x20 ? c : '?')));
    }
    if (c == 'S' || c == 'D' || c == 'W' || c == 'H') set.negate();
    return set;
  }

  // A class; at_ is after its [.
  CharSet bracket() {
    if (++depth_ > kMostDepth) refuse("classes nested too deeply");
    if (++classes_ > kMostClasses) refuse("too many classes");
    const bool negated = take("^");
    CharSet set, operand;
    bool intersects = false;
    if (next_is("]")) refuse("a class that begins with ]");
    while (!take("]")) {
      if (take("&&")) {
        if (any_case_) refuse("an intersection without case");
        intersects ? set.intersect(std::move(operand)) : void(set = std::move(operand));
        operand = CharSet();
        intersects = true;
      } else {
        member(operand);
      }
    }
    intersects ? set.intersect(std::move(operand)) : void(set = std::move(operand));
    if (negated) set.negate();
    if (any_case_ && !negated && holds_ligature(set)) refuse("a class with ligatures without case");
    --depth_;
    return set;
  }

  std::string_view text_;
  const std::string& where_;
  std::size_t at_ = 0, depth_ = 0, classes_ = 0, folded_ = 0;
  bool any_case_ = false;
  char32_t letter_ = 0;  // the last character that stood outside a class

 private:
  // Where case is ignored, a class that is not negated also matches the letters of a ligature that it holds, such as ss
  // for U+00DF. Characters whose case folding has several characters, rounded to ranges.
  static bool holds_ligature(CharSet set) {
    constexpr CodeRange ranges[] = {{0xDF, 0xDF},     {0x130, 0x130},   {0x149, 0x149},  {0x1F0, 0x1F0},
                                    {0x390, 0x390},   {0x3B0, 0x3B0},   {0x587, 0x587},  {0x1E96, 0x1E9E},
                                    {0x1F50, 0x1F56}, {0x1F80, 0x1FFC}, {0xFB00, 0xFB17}};
    set.finish();
    for (const auto& [first, last] : ranges)
      for (char32_t c = first; c <= last; ++c)
        if (set.contains(c)) return true;
    return false;
  }

  void add_range(char32_t first, char32_t last, CharSet& set) {
    set.add_range(first, last);
    if (!any_case_) return;
    folded_ += last - first + 1;
    if (folded_ > kMostFolded) refuse("too many characters without case");
    for (char32_t c = first; c <= last; ++c) {
      if (c >= 0x80 && has_case(c)) refuse("a letter beyond ASCII without case");
      const char32_t lower = c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c;
      if (lower < 'a' || lower > 'z') continue;
      set.add_range(lower, lower);
      set.add_range(lower - ('a' - 'A'), lower - ('a' - 'A'));
      if (lower == 's') set.add_range(0x17F, 0x17F);    // long s
      if (lower == 'k') set.add_range(0x212A, 0x212A);  // kelvin sign
    }
  }

  // Whether another case of `c` may be meant, or `c` may be a part of one character in another case (U+030C after j).
  static bool has_case(char32_t c) {
    if ((c >= 0x300 && c <= 0x36F) || c == 0x2BC || c == 0x2BE) return true;
    const auto code = static_cast<utf8proc_int32_t>(c);
    constexpr std::uint32_t cased =
        category_bit(UTF8PROC_CATEGORY_LU) | category_bit(UTF8PROC_CATEGORY_LL) | category_bit(UTF8PROC_CATEGORY_LT);
    return is_in(c, cased) || utf8proc_tolower(code) != code || utf8proc_toupper(code) != code;
  }

  // \w. In a class, Oniguruma leaves out six numbers of Latin-1, such as U+00B2.
  static void add_word(bool in_class, CharSet& set) {
    set.add(*unicode_set("word"));
    if (!in_class) return;
    CharSet rest;
    rest.add_range(0xB2, 0xB3), rest.add_range(0xB9, 0xB9), rest.add_range(0xBC, 0xBE);
    rest.negate();
    set.intersect(std::move(rest));
  }

  // \p{L}, \P{L}, \p{^L}; at_ is after \p.
  CharSet property(bool negated, bool in_class) {
    if (!take("{")) refuse("a property without braces");
    if (take("^")) negated = !negated;
    const std::size_t end = std::min(text_.find('}', at_), text_.size());
    CharSet set;
    if (end == text_.size() || !add_named(text_.substr(at_, end - at_), negated, in_class, set))
      refuse("the property " + printable(std::string(text_.substr(at_, end - at_)), 60));
    at_ = end + 1;
    if (negated) set.negate();
    return set;
  }

  // Adds the characters of a property. Returns false for an unknown name.
  bool add_named(std::string_view spelled, bool negated, bool in_class, CharSet& set) const {
    std::string name;
    for (const char c : spelled)
      if (c != ' ' && c != '-' && c != '_') name += c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
    if (name == "word") return add_word(in_class, set), true;
    if (in_class && any_case_) add_other_case(name, negated, set);
    if (const UnicodeSet* const found = unicode_set(name)) return set.add(*found), true;
    const auto categories = categories_named(name);
    if (categories) set.add_categories(*categories);
    return categories.has_value();
  }

  // Where case is ignored, a property in a class has the other case of its letters, too. One that stands alone has not.
  void add_other_case(const std::string& name, bool negated, CharSet& set) const {
    constexpr std::string_view closed[] = {"n",     "number", "nd",        "p",        "punctuation",
                                           "punct", "z",      "separator", "alpha",    "alphabetic",
                                           "alnum", "han",    "hiragana",  "katakana", "hangul"};
    if ((name == "l" || name == "letter") && !negated)
      set.add_range(0x345, 0x345);  // a mark, whose upper case is a letter
    else if (std::find(std::begin(closed), std::end(closed), name) == std::end(closed))
      refuse("the property " + name + " in a class without case");
  }

  // [:alpha:], [:^alpha:]; at_ is after [:.
  CharSet posix_class() {
    const bool negated = take("^");
    const std::size_t end = text_.find(":]", at_);
    if (end == text_.npos) refuse("a class without an end");
    const std::string_view name = text_.substr(at_, end - at_);
    CharSet set;
    if (any_case_ && (name == "upper" || name == "lower"))
      refuse("the class [:" + printable(std::string(name), 60) + ":] without case");
    if (name == "word")
      add_word(true, set);
    else if (name == "punct")
      set.add_categories(kPunctuation | kSymbols);
    else if (name == "space")
      set.add_space();
    else if (name == "digit")
      set.add_categories(category_bit(UTF8PROC_CATEGORY_ND));
    else if (name == "alpha" || name == "alnum" || name == "upper" || name == "lower")
      set.add(*unicode_set(name));
    else
      refuse("the class [:" + printable(std::string(name), 60) + ":]");
    at_ = end + 2;
    if (negated) set.negate();
    return set;
  }

  // Adds one member of a class: a nested class, a set, a character or a range.
  void member(CharSet& set) {
    if (any_case_ && next_is("[") && !next_is("[:")) refuse("a nested class without case");
    if (take("[:")) return set.add(posix_class());
    if (take("[")) return set.add(bracket());
    const auto begin = next_is("\\") ? escaped_character() : std::optional(character());
    if (!begin) return set.add(escape(true));
    char32_t last = *begin;
    if (next_is("-&&")) refuse("a - before &&");
    if (next_is("-") && !next_is("-]")) {
      ++at_;
      const auto end = next_is("\\") ? escaped_character() : std::optional(character());
      if (!end || *end < *begin || (*end == '[' && text_[at_ - 1] == '[')) refuse("a range without order");
      last = *end;
    }
    add_range(*begin, last, set);
  }

  char32_t hexadecimal(std::size_t least, std::size_t most) {
    char32_t value = 0;
    std::size_t count = 0;
    for (; count < most && !done(); ++count, ++at_) {
      const char c = text_[at_];
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) break;
      value = value * 16 + static_cast<char32_t>(digit);
    }
    if (count < least || value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) refuse("a code that is no character");
    return value;
  }

  // The single character of an escape; empty for a set, which stays unread.
  std::optional<char32_t> escaped_character() {
    const std::size_t begin = at_++;
    const char32_t c = character();
    constexpr std::string_view names = "nrtfvae", values = "\n\r\t\f\v\a\x1b";
    if (c < 0x80 && names.find(static_cast<char>(c)) != names.npos)
      return static_cast<unsigned char>(values[names.find(static_cast<char>(c))]);
    if (c == 'u') return hexadecimal(4, 4);
    if (c == 'x' && take("{")) {
      const char32_t value = hexadecimal(1, 8);
      if (!take("}")) refuse("a code that is no character");
      return value;
    }
    if (c == 'x') {
      const char32_t value = hexadecimal(1, 2);
      if (value >= 0x80) refuse("a byte of UTF-8");
      return value;
    }
    const bool word = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!word) return c;
    at_ = begin;
    return std::nullopt;
  }
};

}  // namespace tenon::detail
