// Cuts the text of a template into lexemes, with the settings of Hugging Face: trim_blocks and lstrip_blocks.
#pragma once
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/chat/marked_text.h"
#include "tenon/chat/syntax.h"
#include "tenon/core/require.h"
#include "tenon/tokenizer/unicode.h"

namespace tenon::chat::detail {

// A lexeme. `text`: data, a name, an operator, or the value of a string.
struct Lexeme {
  enum class Kind {
    data,
    variable_begin,
    variable_end,
    block_begin,
    block_end,
    name,
    string,
    integer,
    floating,
    symbol,
    end
  };

  Kind kind;
  std::size_t at;
  std::string text = {};
  std::int64_t integer = 0;
  double floating = 0;
};

// Line ends as \n, without the last one.
inline std::string normalized_source(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n') continue;
    out += text[i] == '\r' ? '\n' : text[i];
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  std::vector<Lexeme> run() {
    while (at_ < source_.size()) read_data();
    add(Lexeme::Kind::end, at_);
    return std::move(out_);
  }

 private:
  using Kind = Lexeme::Kind;

  void add(Kind kind, std::size_t at, std::string text = {}) { out_.push_back({kind, at, std::move(text)}); }

  char peek(std::size_t ahead = 0) const { return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0'; }
  bool follows(std::string_view text) const { return source_.substr(at_).starts_with(text); }
  void skip_space() {
    while (at_ < source_.size() && is_space(decode_utf8(source_, at_).value)) at_ += character_bytes(source_, at_);
  }

  // Adds the text in front of a tag, with the white space removed that the tag's sign and lstrip_blocks remove.
  void add_data(std::size_t begin, std::size_t end, char sign, bool is_variable) {
    std::string_view text = source_.substr(begin, end - begin);
    if (sign == '-') {
      text = text.substr(0, stripped_range(text, nullptr, false, true).end);
    } else if (sign != '+' && !is_variable) {
      const std::size_t line = text.rfind('\n') + 1;  // npos + 1 is 0
      if ((line > 0 || starts_line_) &&
          stripped_range(text.substr(line), nullptr, true, false).begin == text.size() - line)
        text = text.substr(0, line);
    }
    if (!text.empty()) add(Kind::data, begin, std::string(text));
  }

  // Position of the next tag.
  std::size_t next_tag() const {
    for (std::size_t at = source_.find('{', at_); at != kNotFound; at = source_.find('{', at + 1)) {
      const char c = at + 1 < source_.size() ? source_[at + 1] : '\0';
      if (c == '%' || c == '{' || c == '#') return at;
    }
    return kNotFound;
  }

  char take_sign() {
    const char sign = peek();
    if (sign != '-' && sign != '+') return '\0';
    ++at_;
    return sign;
  }

  void read_data() {
    const std::size_t begin = at_, tag = next_tag();
    if (tag == kNotFound) {
      add(Kind::data, begin, std::string(source_.substr(begin)));
      at_ = source_.size();
      return;
    }
    at_ = tag + 2;
    const char kind = source_[tag + 1], sign = take_sign();
    add_data(begin, tag, sign, kind == '{');
    starts_line_ = false;
    if (kind == '#') return skip_comment(tag);
    if (kind == '%' && read_raw(tag)) return;
    add(kind == '{' ? Kind::variable_begin : Kind::block_begin, tag);
    read_tag(tag, kind == '{');
  }

  // After the closing bracket of a block or comment: trim_blocks removes one line end.
  void trim_line_end() {
    starts_line_ = peek() == '\n';
    if (starts_line_) ++at_;
  }
  void close_stripped() {
    const std::size_t begin = at_;
    skip_space();
    starts_line_ = at_ > begin && source_[at_ - 1] == '\n';
  }

  void skip_comment(std::size_t tag) {
    const std::size_t end = source_.find("#}", at_);
    if (end == kNotFound) fail_at(tag, "the comment has no end");
    const char sign = end > at_ ? source_[end - 1] : '\0';
    at_ = end + 2;
    if (sign == '-') return close_stripped();
    if (sign != '+') trim_line_end();
  }

  // Reads a raw block, if this is one; `tag` is where it begins.
  bool read_raw(std::size_t tag) {
    const std::size_t start = at_;
    const auto back = [&] { return at_ = start, false; };
    skip_space();
    if (!follows("raw")) return back();
    at_ += 3;
    skip_space();
    const bool strips = follows("-%}");
    if (!strips && !follows("%}")) return back();
    at_ += strips ? 3 : 2;
    if (strips) close_stripped();
    const std::size_t begin = at_;
    for (std::size_t end = source_.find("{%", at_); end != kNotFound; end = source_.find("{%", end + 1)) {
      at_ = end + 2;
      const char sign = take_sign();
      skip_space();
      if (!follows("endraw")) continue;
      at_ += 6;
      skip_space();
      const char closing = peek() == '-' || peek() == '+' ? peek() : '\0';
      if (!source_.substr(at_ + (closing ? 1 : 0)).starts_with("%}")) continue;
      at_ += closing ? 3 : 2;
      add_data(begin, end, sign, false);
      starts_line_ = false;
      if (closing == '-') close_stripped();
      if (closing == '\0') trim_line_end();
      return true;
    }
    fail_at(tag, "the raw block has no end");
  }

  // Whether the tag ends here; then its end is read.
  bool read_end(bool is_variable) {
    const std::string_view bracket = is_variable ? "}}" : "%}";
    const char sign = peek() == '-' || (peek() == '+' && !is_variable) ? peek() : '\0';
    if (source_.substr(std::min(at_ + (sign ? 1 : 0), source_.size())).substr(0, 2) != bracket) return false;
    add(is_variable ? Kind::variable_end : Kind::block_end, at_);
    at_ += sign ? 3 : 2;
    starts_line_ = false;
    if (sign == '-')
      close_stripped();
    else if (sign == '\0' && !is_variable)
      trim_line_end();
    return true;
  }

  void read_tag(std::size_t tag, bool is_variable) {
    std::string open;  // brackets
    for (;;) {
      if (open.empty() && read_end(is_variable)) return;
      if (at_ >= source_.size()) fail_at(tag, "the tag has no end");
      const CodePoint point = decode_utf8(source_, at_);
      if (is_space(point.value)) {
        at_ += static_cast<std::size_t>(point.length);
      } else if (point.value >= '0' && point.value <= '9') {
        read_number();
      } else if (point.value == '_' || is_word(point.value)) {
        read_name();
      } else if (point.value == '"' || point.value == '\'') {
        read_string();
      } else {
        read_symbol(open);
      }
    }
  }

  static bool is_word(char32_t c) {
    const CharClass what = char_class(c);
    return c == '_' || what == CharClass::letter || what == CharClass::number;
  }

  void read_name() {
    const std::size_t begin = at_;
    while (at_ < source_.size() && is_word(decode_utf8(source_, at_).value)) at_ += character_bytes(source_, at_);
    add(Kind::name, begin, std::string(source_.substr(begin, at_ - begin)));
  }

  // Digits with single underscores between them.
  void skip_digits() {
    while ((peek() >= '0' && peek() <= '9') || (peek() == '_' && peek(1) >= '0' && peek(1) <= '9')) ++at_;
  }

  void read_number() {
    const std::size_t begin = at_;
    const auto digit = [&](std::size_t ahead) { return peek(ahead) >= '0' && peek(ahead) <= '9'; };
    const char second = static_cast<char>(peek(1) | 0x20);
    if (peek() == '0' && (second == 'x' || second == 'o' || second == 'b')) return read_radix(begin, second);
    skip_digits();
    bool is_float = false;
    if ((begin == 0 || source_[begin - 1] != '.') && peek() == '.' && digit(1)) {
      is_float = true;
      ++at_;
      skip_digits();
    }
    if ((peek() | 0x20) == 'e' && (digit(1) || ((peek(1) == '+' || peek(1) == '-') && digit(2)))) {
      is_float = true;
      at_ += 2;
      skip_digits();
    }
    std::string digits(source_.substr(begin, at_ - begin));
    std::erase(digits, '_');
    Lexeme number{is_float ? Kind::floating : Kind::integer, begin};
    const char* const end = digits.data() + digits.size();
    if (is_float) {
      if (std::from_chars(digits.data(), end, number.floating).ec != std::errc{})
        refuse_at(begin, "a number out of range");
    } else {
      if (digits[0] == '0' && digits.find_first_not_of('0') != kNotFound) fail_at(begin, "an integer begins with 0");
      if (std::from_chars(digits.data(), end, number.integer).ec != std::errc{})
        refuse_at(begin, "an integer of more than 64 bits");
    }
    out_.push_back(number);
  }

  void read_radix(std::size_t begin, char letter) {
    at_ += 2;
    const std::size_t first = at_;
    while (is_word(static_cast<unsigned char>(peek()))) ++at_;
    std::string digits(source_.substr(first, at_ - first));
    std::erase(digits, '_');
    Lexeme number{Kind::integer, begin};
    const char* const end = digits.data() + digits.size();
    const auto read = std::from_chars(digits.data(), end, number.integer, letter == 'x' ? 16 : letter == 'o' ? 8 : 2);
    if (read.ec != std::errc{} || read.ptr != end) fail_at(begin, "the number is not well-formed");
    out_.push_back(number);
  }

  void read_symbol(std::string& open) {
    constexpr std::string_view pairs[] = {"//", "**", "==", "!=", ">=", "<="};
    for (const std::string_view each : pairs) {
      if (!follows(each)) continue;
      add(Kind::symbol, at_, std::string(each));
      at_ += 2;
      return;
    }
    const char c = peek();
    if (std::string_view("+-/*%~[](){}><=.:|,;").find(c) == kNotFound) fail_at(at_, "an unexpected character");
    if (c == '(' || c == '[' || c == '{') open += c == '(' ? ')' : c == '[' ? ']' : '}';
    if (c == ')' || c == ']' || c == '}') {
      if (open.empty() || open.back() != c) fail_at(at_, "an unexpected bracket");
      open.pop_back();
    }
    add(Kind::symbol, at_++, std::string(1, c));
  }

  void read_string() {
    const std::size_t begin = at_;
    const char quote = source_[at_++];
    std::string text;
    while (peek() != quote) {
      if (at_ >= source_.size()) fail_at(begin, "the string has no end");
      if (peek() == '\\')
        read_escape(text);
      else
        text += source_[at_++];
    }
    ++at_;
    add(Kind::string, begin, std::move(text));
  }

  // An escape of Python's string literals.
  void read_escape(std::string& text) {
    const std::size_t begin = at_++;
    const char c = peek();
    constexpr std::string_view letters = "abfnrtv\\'\"", values = "\a\b\f\n\r\t\v\\'\"";
    if (at_ >= source_.size()) return;
    if (c == '\n') {
      ++at_;
    } else if (const std::size_t found = letters.find(c); found != kNotFound) {
      text += values[found];
      ++at_;
    } else if (c >= '0' && c <= '7') {
      char32_t value = 0;
      for (int i = 0; i < 3 && peek() >= '0' && peek() <= '7'; ++i)
        value = value * 8 + static_cast<char32_t>(source_[at_++] - '0');
      append_code_point(text, value);
    } else if (c == 'x' || c == 'u' || c == 'U') {
      const std::size_t width = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      const std::string_view digits = source_.substr(std::min(at_ + 1, source_.size())).substr(0, width);
      std::uint32_t value = 0;
      const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
      if (digits.size() < width || read.ptr != digits.data() + digits.size())
        fail_at(begin, "the escape is not well-formed");
      if ((value >= 0xD800 && value < 0xE000) || value > 0x10FFFF) refuse_at(begin, "an escape of no character");
      append_code_point(text, value);
      at_ += 1 + width;
    } else if (c == 'N') {
      refuse_at(begin, "an escape by a character's name");
    } else {
      text += '\\';
    }
  }

  std::string_view source_;
  std::size_t at_ = 0;
  bool starts_line_ = true;  // the last lexeme ended with a line end
  std::vector<Lexeme> out_;
};

}  // namespace tenon::chat::detail
