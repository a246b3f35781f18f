#include "serve/chat/jinja_text.h"

#include <cstddef>
#include <utility>

namespace serve {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool in_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

class Normaliser {
 public:
  explicit Normaliser(std::string_view text) : text_(text) {}

  std::string run() {
    while (at_ < text_.size()) outside();
    return std::move(out_);
  }

 private:
  char next() const { return at_ + 1 < text_.size() ? text_[at_ + 1] : '\0'; }

  // A character of the template's own text, or a tag from its first character to its last.
  void outside() {
    if (text_[at_] == '{' && (next() == '{' || next() == '%')) {
      const char end = next() == '{' ? '}' : '%';
      const bool trims = at_ + 2 < text_.size() && text_[at_ + 2] == '-';
      if (trims)
        while (out_.size() > own_text_ && is_space(out_.back())) out_.pop_back();
      ((out_ += '{') += next()) += trims ? "-" : "";
      at_ += trims ? 3 : 2;
      tag(end);
    } else {
      out_ += text_[at_++];
    }
  }

  void tag(char end) {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      const bool trims = c == '-' && next() == end && at_ + 2 < text_.size() && text_[at_ + 2] == '}';
      if (trims || (c == end && next() == '}')) {
        ((out_ += trims ? "-" : "") += end) += '}';
        at_ += trims ? 3 : 2;
        while (trims && at_ < text_.size() && is_space(text_[at_])) ++at_;
        break;
      }
      if (is_space(c)) {
        while (at_ < text_.size() && is_space(text_[at_])) ++at_;
        if (at_ < text_.size() && in_word(out_.back()) && in_word(text_[at_])) out_ += ' ';
      } else if (c == '\'' || c == '"') {
        string(c);
      } else {
        out_ += c;
        ++at_;
      }
    }
    own_text_ = out_.size();
  }

  void string(char quote) {
    do {
      const char c = text_[at_++];
      if (c == '\n') {
        out_ += "\\n";
        continue;
      }
      out_ += c;
      if (c == '\\' && at_ < text_.size()) out_ += text_[at_++];
    } while (at_ < text_.size() && text_[at_] != quote);
    if (at_ < text_.size()) out_ += text_[at_++];
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string out_;
  std::size_t own_text_ = 0;  // where the text after the last tag begins in out_
};

}  // namespace

std::string normalised_jinja(std::string_view text) {
  std::string lines;
  for (std::size_t i = 0; i < text.size(); ++i)
    if (text[i] != '\r' || i + 1 == text.size() || text[i + 1] != '\n') lines += text[i];
  if (lines.ends_with('\n')) lines.pop_back();
  return Normaliser(lines).run();
}

}  // namespace serve
