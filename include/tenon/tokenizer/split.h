// Cuts a text at matches. The behaviour says what becomes of the matches.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "tenon/tokenizer/text_span.h"
#include "tenon/tokenizer/unicode.h"

namespace tenon::detail {

// SplitDelimiterBehavior of tokenizers 0.22 (normalizer.rs).
enum class SplitBehavior : std::uint8_t {
  isolated,    // each match is a piece
  removed,     // matches are dropped
  contiguous,  // adjacent matches are one piece
  merged_with_previous,
  merged_with_next,
};

// Calls piece(begin, end) for each piece of `text` that is not empty, in order. find(from) returns the leftmost match
// at or after `from` as std::optional<TextSpan>. An empty match cuts, too, unless it stands where the last match ended.
// `invert` exchanges matches and the text between them.
template <class Find, class Piece>
void split_text(std::string_view text, SplitBehavior behavior, bool invert, Find&& find, Piece&& piece) {
  struct Stretch {
    TextSpan span;
    bool match = false;
  };
  std::optional<Stretch> held;  // the last stretch, which the next one may join
  const auto flush = [&] {
    if (held && held->span.begin < held->span.end) piece(held->span.begin, held->span.end);
    held.reset();
  };
  bool after_match = false;
  const auto add = [&](std::size_t begin, std::size_t end, bool match) {
    if (behavior == SplitBehavior::removed && match) return;
    const bool joins = held && (behavior == SplitBehavior::contiguous             ? held->match == match
                                : behavior == SplitBehavior::merged_with_previous ? match && !after_match
                                : behavior == SplitBehavior::merged_with_next     ? held->match && !match
                                                                                  : false);
    if (!joins) flush();
    held = Stretch{{joins ? held->span.begin : begin, end}, match};
    after_match = match;
  };
  std::size_t done = 0, from = 0;
  bool any = false;
  while (from <= text.size()) {
    const std::optional<TextSpan> found = find(from);
    if (!found) break;
    if (any && found->begin == found->end && found->end == done) {
      from += from == text.size() ? 1 : static_cast<std::size_t>(decode_utf8(text, from).length);
      continue;
    }
    if (done < found->begin) add(done, found->begin, invert);
    add(found->begin, found->end, !invert);
    done = from = found->end;
    any = true;
  }
  if (done < text.size()) add(done, text.size(), invert);
  flush();
}

}  // namespace tenon::detail
