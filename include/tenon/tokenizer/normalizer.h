// Normalization of a text before it is cut into pieces: normal forms, replacements, a prefix.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/core/error.h"
#include "tenon/tokenizer/letter_case.h"
#include "tenon/tokenizer/normal_form.h"
#include "tenon/tokenizer/precompiled.h"
#include "tenon/tokenizer/regex.h"

namespace tenon::detail {

// One step of a normalizer.
struct NormalizerStep {
  enum class Kind : std::uint8_t {
    normal_form,
    lower_case,
    precompiled,      // the rules of a SentencePiece model
    clean,            // Nmt of tokenizers: drops control characters, and makes white space a space
    strip,            // white space at the start of the text, at its end, or both
    prepend,          // `to` in front of a nonempty text
    replace,          // every `from` by `to`
    replace_matches,  // every match of `regex`, which is never empty, by `to`
  };
  Kind kind = Kind::normal_form;
  std::string from = {}, to = {};
  NormalForm form = NormalForm::nfc;
  bool left = false, right = false;  // strip
  Regex regex = {};
  std::shared_ptr<const Charsmap> rules = {};  // precompiled
};

// The normalizer of a tokenizer: its steps in order.
class Normalizer {
 public:
  Normalizer() = default;
  explicit Normalizer(std::vector<NormalizerStep> steps) : steps_(std::move(steps)) {}

  bool empty() const noexcept { return steps_.empty(); }
  const std::vector<NormalizerStep>& steps() const noexcept { return steps_; }
  bool has(NormalizerStep::Kind kind) const noexcept {
    for (const NormalizerStep& step : steps_)
      if (step.kind == kind) return true;
    return false;
  }

  // Normalizes `text` in place. `mask`, if not null, has one byte per byte of the text and is changed with it. Bytes
  // that replace several bytes are marked where all of those were marked. Returns whether the result begins where the
  // text does: false if a step dropped its beginning. Error capacity if the result has 2^31 bytes or more, or an
  // expression takes more steps than `search` has.
  bool apply(std::string& text, std::string* mask, Regex::Search& search) const {
    bool begins = true;
    std::size_t prefix = 0;  // bytes in front that are no part of the text
    for (const NormalizerStep& step : steps_) {
      const std::size_t dropped = apply_step(step, text, mask, search);
      begins = begins && dropped <= prefix;
      prefix -= std::min(dropped, prefix);
      if (step.kind == NormalizerStep::Kind::prepend) prefix += step.to.size();
      check_size(text.size());
    }
    return begins;
  }

 private:
  // Returns the bytes that were dropped in front.
  static std::size_t apply_step(const NormalizerStep& step, std::string& text, std::string* mask,
                                Regex::Search& search) {
    const std::size_t first = text.empty() ? 0 : one_character(text, 0);
    switch (step.kind) {
      case NormalizerStep::Kind::normal_form:
        return compose(step.form, text, mask), 0;
      case NormalizerStep::Kind::lower_case:
        change(text, mask, one_character, [](std::string_view c) { return lower_case(decode_utf8(c, 0).value); });
        return 0;
      case NormalizerStep::Kind::precompiled:  // what it drops in front keeps its place in tokenizers
        change(text, mask, grapheme_end, [&](std::string_view part) { return apply_rules(*step.rules, part); });
        return 0;
      case NormalizerStep::Kind::clean: {
        const bool drops = first > 0 && cleaned(std::string_view(text).substr(0, first)).empty();
        change(text, mask, one_character, cleaned);
        return drops ? first : 0;
      }
      case NormalizerStep::Kind::strip:
        return strip(step, text, mask);
      case NormalizerStep::Kind::prepend:
        if (text.empty()) return 0;
        text.insert(0, step.to);
        if (mask) mask->insert(0, std::string(step.to.size(), mask->front()));
        return 0;
      case NormalizerStep::Kind::replace: {
        const std::size_t dropped = text.starts_with(step.from) ? dropped_by(step, step.from) : 0;
        return replace(step, text, mask), dropped;
      }
      case NormalizerStep::Kind::replace_matches:
        return replace_matches(step, text, mask, search);
    }
    return 0;
  }

  static void check_size(std::size_t bytes) {
    if (bytes > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()))
      throw Error(Error::Kind::capacity, "text",
                  "has " + std::to_string(bytes) + " bytes once normalized, 2^31 - 1 can be encoded");
  }

  // Size of `text` after `count` replacements. It is checked before the allocation, because a file can cause 2^50
  // bytes.
  static std::size_t replaced_size(const NormalizerStep& step, std::string_view text, std::size_t count) {
    const std::size_t size = text.size() - count * step.from.size() + count * step.to.size();
    check_size(size);
    return size;
  }

  static char mark_of(std::string_view mask) { return mask.find('\0') == mask.npos ? '\1' : '\0'; }

  // An ASCII character never composes with what precedes it, so each run from one to the next is composed by itself.
  static void compose(NormalForm form, std::string& text, std::string* mask) {
    if (!mask) {
      text = to_normal_form(text, form);
      return;
    }
    const auto run_end = [](std::string_view all, std::size_t at) {
      std::size_t end = at + 1;
      while (end < all.size() && static_cast<unsigned char>(all[end]) >= 0x80) ++end;
      return end;
    };
    change(text, mask, run_end, [form](std::string_view run) { return to_normal_form(run, form); });
  }

  static std::size_t one_character(std::string_view text, std::size_t at) {
    return at + static_cast<std::size_t>(decode_utf8(text, at).length);
  }

  // Replaces each part from `at` to end_of(text, at) by made_of(part).
  template <class EndOf, class MadeOf>
  static void change(std::string& text, std::string* mask, EndOf&& end_of, MadeOf&& made_of) {
    std::string out, out_mask;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = end_of(text, at);
      const std::string_view part = std::string_view(text).substr(at, end - at);
      const std::string made = made_of(part);
      if (mask) {
        const std::string_view marks = std::string_view(*mask).substr(at, end - at);
        if (made == part)
          out_mask += marks;
        else
          out_mask.append(made.size(), mark_of(marks));
      }
      out += made;
      at = end;
    }
    text = std::move(out);
    if (mask) *mask = std::move(out_mask);
  }

  // do_nmt of tokenizers (normalizers/unicode.rs).
  static std::string cleaned(std::string_view character) {
    const char32_t c = decode_utf8(character, 0).value;
    if ((c >= 0x01 && c <= 0x08) || c == 0x0B || (c >= 0x0E && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F)
      return "";
    const bool space = c == 0x09 || c == 0x0A || c == 0x0C || c == 0x0D || c == 0x1680 ||
                       (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF ||
                       c == 0xFFFD;
    return space ? " " : std::string(character);
  }

  // Returns the bytes that were dropped in front.
  static std::size_t strip(const NormalizerStep& step, std::string& text, std::string* mask) {
    const auto is_space = [&](std::size_t at) { return char_class(decode_utf8(text, at).value) == CharClass::space; };
    std::size_t begin = 0, end = text.size();
    while (step.left && begin < end && is_space(begin)) begin = one_character(text, begin);
    while (step.right && begin < end) {
      const std::size_t last = previous_start(text, end);
      if (!is_space(last)) break;
      end = last;
    }
    text = text.substr(begin, end - begin);
    if (mask) *mask = mask->substr(begin, end - begin);
    return begin;
  }

  // Bytes that a replacement of `match` at the start of a text drops: in tokenizers, it has the place of the last
  // character of the match.
  static std::size_t dropped_by(const NormalizerStep& step, std::string_view match) {
    return step.to.empty() ? match.size() : previous_start(match, match.size());
  }

  // Returns the bytes that were dropped in front.
  static std::size_t replace_matches(const NormalizerStep& step, std::string& text, std::string* mask,
                                     Regex::Search& search) {
    search.allow(text.size());
    std::string out, out_mask;
    std::size_t at = 0, dropped = 0;
    while (const auto found = step.regex.find(text, at, search)) {
      check_size(out.size() + found->begin - at + step.to.size());
      const std::string_view match = std::string_view(text).substr(found->begin, found->end - found->begin);
      if (found->begin == 0) dropped = dropped_by(step, match);
      (out.append(text, at, found->begin - at)) += step.to;
      if (mask) {
        out_mask.append(*mask, at, found->begin - at);
        out_mask.append(step.to.size(), mark_of(std::string_view(*mask).substr(found->begin, match.size())));
      }
      at = found->end;
    }
    out.append(text, at);
    if (mask) *mask = out_mask.append(*mask, at);
    text = std::move(out);
    return dropped;
  }

  static void replace(const NormalizerStep& step, std::string& text, std::string* mask) {
    if (step.from.size() == 1 && !mask) return replace_byte(step, text);
    std::size_t count = 0, found = text.find(step.from), at = 0;
    for (std::size_t next = found; next != text.npos; next = text.find(step.from, next + step.from.size())) ++count;
    if (count == 0) return;
    std::string out, out_mask;
    out.reserve(replaced_size(step, text, count));
    for (; found != text.npos; found = text.find(step.from, at)) {
      (out.append(text, at, found - at)) += step.to;
      if (mask) {
        out_mask.append(*mask, at, found - at);
        out_mask.append(step.to.size(), mark_of(std::string_view(*mask).substr(found, step.from.size())));
      }
      at = found + step.from.size();
    }
    out.append(text, at);
    if (mask) *mask = out_mask.append(*mask, at);
    text = std::move(out);
  }

  // Replaces a single byte, such as SentencePiece's spaces. This is faster than searching for each.
  static void replace_byte(const NormalizerStep& step, std::string& text) {
    const auto count = static_cast<std::size_t>(std::count(text.begin(), text.end(), step.from[0]));
    std::string out;
    out.reserve(replaced_size(step, text, count));
    for (const char c : text) {
      if (c == step.from[0])
        out += step.to;
      else
        out += c;
    }
    text = std::move(out);
  }

  std::vector<NormalizerStep> steps_;
};

}  // namespace tenon::detail
