// Cuts text into pieces, which merges never cross: the steps of tokenizer.json's pre_tokenizer, one after another.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <forward_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/tokenizer/byte_level.h"
#include "tenon/tokenizer/metaspace.h"
#include "tenon/tokenizer/pretokenize.h"
#include "tenon/tokenizer/regex.h"
#include "tenon/tokenizer/split.h"
#include "tenon/tokenizer/unicode.h"

namespace tenon::detail {

// One step of a pre-tokenizer.
struct PreTokenizerStep {
  enum class Kind : std::uint8_t {
    prefix_space,  // puts a space before each piece that does not start with one
    pattern,       // a known pattern with hand-written code
    regex,
    literal,
    digits,
    punctuation,
    spell_bytes,  // each byte as its character (byte_level.h), for the steps after ByteLevel
    metaspace,
  };
  Kind kind = Kind::pattern;
  Pattern pattern = Pattern::gpt2;
  Regex regex = {};
  std::string literal = {};
  SplitBehavior behavior = SplitBehavior::isolated;
  bool invert = false;
  Metaspace metaspace = {};
};

// The steps of a pre-tokenizer.
class PreTokenizer {
 public:
  using Kind = PreTokenizerStep::Kind;

  PreTokenizer() = default;
  explicit PreTokenizer(std::vector<PreTokenizerStep> steps) : steps_(std::move(steps)) {}

  const std::vector<PreTokenizerStep>& steps() const noexcept { return steps_; }
  bool has(Kind kind) const noexcept { return find(kind) != nullptr; }
  // The first step of this kind, or null.
  const PreTokenizerStep* find(Kind kind) const noexcept {
    for (const PreTokenizerStep& step : steps_)
      if (step.kind == kind) return &step;
    return nullptr;
  }
  // The pattern that alone makes all pieces, if there is one.
  std::optional<Pattern> pattern() const noexcept {
    const bool prefix = !steps_.empty() && steps_.front().kind == Kind::prefix_space;
    if (steps_.size() != (prefix ? 2 : 1) || steps_.back().kind != Kind::pattern) return std::nullopt;
    return steps_.back().pattern;
  }
  // Whether a step can drop text.
  bool drops() const noexcept {
    for (const PreTokenizerStep& step : steps_)
      if (step.kind != Kind::pattern && step.behavior == SplitBehavior::removed) return true;
    return false;
  }
  // Sets whether ByteLevel puts a space in front, for a pre-tokenizer that is ByteLevel alone.
  void prefix_space(bool prefix) {
    if (has(Kind::prefix_space) == prefix) return;
    if (prefix)
      steps_.insert(steps_.begin(), PreTokenizerStep{.kind = Kind::prefix_space});
    else
      std::erase_if(steps_, [](const PreTokenizerStep& step) { return step.kind == Kind::prefix_space; });
  }

  // Memory and step budget for one text. Pieces are views of the text or of `texts`.
  struct Scratch {
    std::forward_list<std::string> texts = {};  // texts that steps wrote; a list, so that views stay valid
    Regex::Search search = {};
  };

  // Calls piece(std::string_view) for each piece of `text`, which is not empty. `first`: it starts where the whole
  // text does. Error capacity if a step makes the text too long, or an expression takes too many steps.
  template <class Piece>
  void cut(std::string_view text, bool first, Scratch& scratch, Piece&& piece) const {
    run(0, text, first, scratch, piece);
  }

 private:
  // Defined before their use, because nvcc deduces no return type of a member that it has not read yet.
  static bool is_number(char32_t c) noexcept { return char_class(c) == CharClass::number; }

  static std::string spelled(std::string_view text) {
    std::string out;
    for (const char c : text) append_code_point(out, kByteSpelling.of_byte[static_cast<unsigned char>(c)]);
    return out;
  }

  static auto literal_in(std::string_view text, std::string_view literal) {
    return [text, literal](std::size_t from) -> std::optional<TextSpan> {
      const std::size_t found = text.find(literal, from);
      if (found == text.npos) return std::nullopt;
      return TextSpan{found, found + literal.size()};
    };
  }

  static auto character_in(std::string_view text, bool (*fits)(char32_t) noexcept) {
    return [text, fits](std::size_t from) -> std::optional<TextSpan> {
      while (from < text.size()) {
        const CodePoint point = decode_utf8(text, from);
        const std::size_t end = from + static_cast<std::size_t>(point.length);
        if (fits(point.value)) return TextSpan{from, end};
        from = end;
      }
      return std::nullopt;
    };
  }

  template <class Piece>
  void run(std::size_t number, std::string_view text, bool first, Scratch& scratch, Piece& piece) const {
    if (number == steps_.size()) return piece(text);
    const PreTokenizerStep& step = steps_[number];
    const auto pass = [&](std::size_t begin, std::size_t end) {
      run(number + 1, text.substr(begin, end - begin), first && begin == 0, scratch, piece);
    };
    const auto rewrite = [&](std::string&& with) {
      return std::string_view(scratch.texts.emplace_front(std::move(with)));
    };
    switch (step.kind) {
      case Kind::pattern:
        for (std::size_t at = 0; at < text.size();) {
          const std::size_t end = piece_end(step.pattern, text, at);
          pass(at, end);
          at = end;
        }
        return;
      case Kind::prefix_space:
        if (!text.starts_with(' ')) text = rewrite(" " + std::string(text));
        return pass(0, text.size());
      case Kind::spell_bytes:
        text = rewrite(spelled(text));
        return pass(0, text.size());
      case Kind::metaspace:
        text = rewrite(spell_spaces(text, step.metaspace, first));
        if (!step.metaspace.split) return pass(0, text.size());
        return split_text(text, SplitBehavior::merged_with_next, false, literal_in(text, kMetaspace), pass);
      case Kind::literal:
        return split_text(text, step.behavior, step.invert, literal_in(text, step.literal), pass);
      case Kind::digits:
        return split_text(text, step.behavior, step.invert, character_in(text, is_number), pass);
      case Kind::punctuation:
        return split_text(text, step.behavior, step.invert, character_in(text, is_punctuation), pass);
      case Kind::regex:
        scratch.search.allow(text.size());
        return split_text(
            text, step.behavior, step.invert,
            [&](std::size_t from) { return step.regex.find(text, from, scratch.search); }, pass);
    }
  }

  std::vector<PreTokenizerStep> steps_;
};

}  // namespace tenon::detail
