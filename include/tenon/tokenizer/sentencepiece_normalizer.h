// Normalization of a text as sentencepiece 0.2.3 does it (normalizer.cc): rules, extra spaces, a space in front, and
// U+2581 for spaces.
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "tenon/core/error.h"
#include "tenon/tokenizer/charsmap.h"
#include "tenon/tokenizer/metaspace.h"
#include "tenon/tokenizer/piece_table.h"
#include "tenon/tokenizer/unicode.h"

namespace tenon::detail {

class SentencePieceNormalizer {
 public:
  struct Options {
    bool dummy_prefix = true;    // a space in front of a text
    bool extra_spaces = false;   // runs of spaces, and spaces at both ends, stay
    bool escapes_spaces = true;  // a space becomes U+2581
    // The space is put in front of the first part of a text alone, and not before a space (`legacy` of transformers).
    bool prefix_once = false;
  };

  SentencePieceNormalizer() = default;
  // `user_defined`: symbols that no rule changes.
  SentencePieceNormalizer(const Options& options, Charsmap rules, PieceTable user_defined)
      : options_(options), rules_(std::move(rules)), user_defined_(std::move(user_defined)) {}

  const Options& options() const noexcept { return options_; }

  // `text`: a part between added tokens, valid UTF-8. `first`: it starts where the whole text does. Error capacity if
  // the result has 2^31 bytes or more.
  std::string normalize(std::string_view text, bool first) const {
    const std::string_view space = options_.escapes_spaces ? kMetaspace : std::string_view(" ");
    std::size_t at = 0;
    if (!options_.extra_spaces)
      while (at < text.size()) {
        const Step step = next(text.substr(at));
        if (step.text != " ") break;
        at += step.size;
      }
    std::string out;
    if (at == text.size()) return out;
    if (options_.dummy_prefix && prefixes(text, first)) out += space;
    bool after_space = !options_.extra_spaces;
    while (at < text.size()) {
      Step step = next(text.substr(at));
      at += step.size;
      while (after_space && step.text.starts_with(' ')) step.text.remove_prefix(1);
      for (const char c : step.text) {
        if (c == ' ')
          out += space;
        else
          out += c;
      }
      if (!step.text.empty()) after_space = !options_.extra_spaces && step.text.ends_with(' ');
      check_size(out.size());
    }
    while (!options_.extra_spaces && out.ends_with(space)) out.resize(out.size() - space.size());
    return out;
  }

 private:
  struct Step {
    std::size_t size;       // bytes of the text
    std::string_view text;  // what they become
  };

  bool prefixes(std::string_view text, bool first) const {
    return !options_.prefix_once || (first && !text.starts_with(' ') && !text.starts_with(kMetaspace));
  }

  // The start of `text`, which is not empty, after the rules.
  Step next(std::string_view text) const {
    if (const std::size_t fixed = user_defined_.longest_prefix(text)) return {fixed, text.substr(0, fixed)};
    if (const Charsmap::Match rule = rules_.longest(text); rule.size > 0) return {rule.size, rule.replacement};
    const CodePoint point = decode_utf8(text, 0);
    // A rule can end within a character. Its rest is replaced byte by byte.
    if (point.status != Utf8Status::valid) return {1, "\xEF\xBF\xBD"};
    const auto size = static_cast<std::size_t>(point.length);
    return {size, text.substr(0, size)};
  }

  static void check_size(std::size_t bytes) {
    if (bytes > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()))
      throw Error(Error::Kind::capacity, "text",
                  "has " + std::to_string(bytes) + " bytes once normalized, 2^31 - 1 can be encoded");
  }

  Options options_;
  Charsmap rules_;
  PieceTable user_defined_;
};

}  // namespace tenon::detail
