// Sets of characters, and the bytes that spell them.
#pragma once
#include <algorithm>
#include <compare>
#include <cstddef>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/constrain/byte_set.h"
#include "tenon/constrain/expression.h"
#include "tenon/constrain/refused.h"
#include "tenon/tokenizer/unicode.h"

namespace tenon::constrain {

/// A set of Unicode scalar values: U+0000 to U+10FFFF without the surrogates U+D800 to U+DFFF. Equal sets compare
/// equal.
class CodePoints {
 public:
  /// A range of code points.
  struct Range {
    char32_t first, last;  ///< both included
    friend constexpr auto operator<=>(const Range&, const Range&) = default;
  };

  CodePoints() = default;
  CodePoints(std::initializer_list<Range> ranges) : CodePoints(std::vector<Range>(ranges)) {}
  /// Ranges may be in any order and overlap. Surrogates are dropped.
  explicit CodePoints(const std::vector<Range>& ranges) {
    std::vector<Range> parts;
    for (const Range& range : ranges) {
      for (const Range& plane : {Range{0, 0xD7FF}, Range{0xE000, 0x10FFFF}}) {
        const Range part = {std::max(range.first, plane.first), std::min(range.last, plane.last)};
        if (part.first <= part.last) parts.push_back(part);
      }
    }
    std::sort(parts.begin(), parts.end());
    for (const Range& part : parts) {
      if (ranges_.empty() || part.first > ranges_.back().last + 1)
        ranges_.push_back(part);
      else
        ranges_.back().last = std::max(ranges_.back().last, part.last);
    }
  }
  static CodePoints all() { return {{0, 0x10FFFF}}; }

  /// Adds a range. For many ranges, use the constructor.
  void add(char32_t first, char32_t last) { *this = *this | CodePoints{{first, last}}; }

  const std::vector<Range>& ranges() const { return ranges_; }  ///< sorted; neither overlapping nor adjacent
  bool empty() const { return ranges_.empty(); }
  /// Whether the set contains `c`.
  bool has(char32_t c) const {
    const auto above =
        std::upper_bound(ranges_.begin(), ranges_.end(), c, [](char32_t x, const Range& r) { return x < r.first; });
    return above != ranges_.begin() && c <= std::prev(above)->last;
  }

  friend CodePoints operator|(const CodePoints& a, const CodePoints& b) {
    std::vector<Range> ranges = a.ranges_;
    ranges.insert(ranges.end(), b.ranges_.begin(), b.ranges_.end());
    return CodePoints(ranges);
  }
  friend CodePoints operator&(const CodePoints& a, const CodePoints& b) {
    CodePoints in_both;
    for (auto x = a.ranges_.begin(), y = b.ranges_.begin(); x != a.ranges_.end() && y != b.ranges_.end();) {
      const Range range = {std::max(x->first, y->first), std::min(x->last, y->last)};
      if (range.first <= range.last) in_both.ranges_.push_back(range);
      if (x->last < y->last)
        ++x;
      else
        ++y;
    }
    return in_both;
  }
  friend CodePoints operator~(const CodePoints& a) {
    std::vector<Range> gaps;
    char32_t next = 0;
    for (const Range& range : a.ranges_) {
      if (range.first > next) gaps.push_back({next, range.first - 1});
      next = range.last + 1;
    }
    gaps.push_back({next, 0x10FFFF});  // dropped where it is reversed
    return CodePoints(gaps);
  }
  friend auto operator<=>(const CodePoints&, const CodePoints&) = default;

 private:
  std::vector<Range> ranges_;
};

/// How characters are spelled in a text.
enum class Spelling {
  utf8,
  /// Inside the quotes of a JSON string, with one spelling for each character. Escapes are \" \\ \b \f \n \r \t, and
  /// \u001f in lower case for other controls. All other characters are UTF-8 (Python's json.dumps with
  /// ensure_ascii=False).
  json,
};

/// Converts sets to expressions that match exactly one of their characters.
class Speller {
 public:
  /// Makes expressions in `all`.
  explicit Speller(Expressions& all) : all_(all) {}

  /// Well-formed UTF-8 only: The Unicode Standard 15.0, table 3-7.
  Expr utf8(const CodePoints& points) {
    static constexpr struct {
      CodePoints::Range range;
      int mark, following;
    } kForms[] = {
        {{0, 0x7F}, 0, 0}, {{0x80, 0x7FF}, 0xC0, 1}, {{0x800, 0xFFFF}, 0xE0, 2}, {{0x10000, 0x10FFFF}, 0xF0, 3}};
    std::vector<Expr> forms;
    for (const auto& form : kForms)
      forms.push_back(bytes(form.mark, form.following, (points & CodePoints{form.range}).ranges()));
    return all_.either(std::move(forms));
  }

  /// Spelling::json.
  Expr json(const CodePoints& points) {
    static constexpr struct {
      char32_t character;
      char letter;
    } kShort[] = {{'"', '"'}, {'\\', '\\'}, {'\b', 'b'}, {'\f', 'f'}, {'\n', 'n'}, {'\r', 'r'}, {'\t', 't'}};
    const CodePoints escaped = {{0, 0x1F}, {'"', '"'}, {'\\', '\\'}};
    CodePoints long_ones = points & CodePoints{{0, 0x1F}};
    ByteSet letters;
    for (const auto& each : kShort) {
      if (points.has(each.character)) letters.add(each.letter);
      long_ones = long_ones & ~CodePoints{{each.character, each.character}};
    }
    ByteSet last[2];  // hexadecimal digits after \u000 and \u001
    for (const auto& range : long_ones.ranges()) {
      for (char32_t c = range.first; c <= range.last; ++c) last[c >> 4].add("0123456789abcdef"[c & 15]);
    }
    const Expr digits = all_.either(all_.concat(all_.literal("0"), all_.bytes(last[0])),
                                    all_.concat(all_.literal("1"), all_.bytes(last[1])));
    const Expr escapes = all_.either(all_.bytes(letters), all_.concat(all_.literal("u00"), digits));
    return all_.either(utf8(points & ~escaped), all_.concat(all_.literal("\\"), escapes));
  }

 private:
  using Ranges = std::vector<CodePoints::Range>;

  // One byte of `mark` and a value's high bits, then `following` bytes with six bits each. Values with the same
  // following bytes share one set of first bytes.
  Expr bytes(int mark, int following, const Ranges& values) {
    if (following == 0) {
      ByteSet set;
      for (const auto& range : values)
        set = set | ByteSet::range(mark | static_cast<int>(range.first), mark | static_cast<int>(range.last));
      return all_.bytes(set);
    }
    const int shift = 6 * following;
    const char32_t low_bits = (char32_t{1} << shift) - 1;
    std::map<char32_t, Ranges> low_by_high;
    for (const auto& range : values) {
      for (char32_t high = range.first >> shift; high <= range.last >> shift; ++high) {
        const char32_t lowest = high << shift, highest = lowest | low_bits;
        low_by_high[high].push_back(
            {std::max(range.first, lowest) & low_bits, std::min(range.last, highest) & low_bits});
      }
    }
    std::map<Expr, ByteSet> firsts;  // by the expression of the following bytes
    for (const auto& [high, low] : low_by_high)
      firsts[following_bytes(following, low)].add(mark | static_cast<int>(high));
    std::vector<Expr> parts;
    for (const auto& [rest, first] : firsts) parts.push_back(all_.concat(all_.bytes(first), rest));
    return all_.either(std::move(parts));
  }

  Expr following_bytes(int count, const Ranges& values) {
    const CodePoints::Range every = {0, (char32_t{1} << 6 * count) - 1};
    if (values.front() != every) return bytes(0x80, count - 1, values);
    Expr each = Expressions::kEmpty;  // all values: avoids splitting 4,096 or 262,144 of them
    for (int i = 0; i < count; ++i) each = all_.concat(all_.bytes(ByteSet::range(0x80, 0xBF)), each);
    return each;
  }

  Expressions& all_;
};

/// Matches exactly one character of the set. kNever for the empty set.
inline Expr spelled(Expressions& all, const CodePoints& points, Spelling spelling) {
  return spelling == Spelling::json ? Speller(all).json(points) : Speller(all).utf8(points);
}
inline Expr any_character(Expressions& all, Spelling spelling) { return spelled(all, CodePoints::all(), spelling); }

/// The characters of a text. Throws Refused, invalid_request, for invalid UTF-8. Its place is `at` or, if that is
/// empty, the byte.
inline std::u32string characters_of(std::string_view text, const std::string& at) {
  std::u32string characters;
  for (std::size_t i = 0; i < text.size();) {
    const CodePoint point = decode_utf8(text, i);
    if (point.status != Utf8Status::valid) {
      const std::string place = "byte " + std::to_string(i + 1);
      refuse_invalid(at.empty() ? place : at, "not valid UTF-8" + (at.empty() ? std::string() : " (" + place + ")"));
    }
    characters.push_back(point.value);
    i += static_cast<std::size_t>(point.length);
  }
  return characters;
}

}  // namespace tenon::constrain
