// Normalization of a text before it is cut into pieces: NFC, a prefix, literal replacements.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/core/error.h"
#include "tenon/tokenizer/nfc.h"

namespace tenon::detail {

// One step of a normalizer.
struct NormalizerStep {
  enum class Kind : std::uint8_t { nfc, prepend, replace };
  Kind kind = Kind::nfc;
  // prepend: `to` in front of a nonempty text; replace: every `from` by `to`.
  std::string from, to;
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
  // that replace several bytes are marked where all of those were marked. Error capacity if the result has 2^31
  // bytes or more.
  void apply(std::string& text, std::string* mask) const {
    for (const NormalizerStep& step : steps_) {
      switch (step.kind) {
        case NormalizerStep::Kind::nfc:
          compose(text, mask);
          break;
        case NormalizerStep::Kind::prepend:
          if (text.empty()) break;
          text.insert(0, step.to);
          if (mask) mask->insert(0, std::string(step.to.size(), mask->front()));
          break;
        case NormalizerStep::Kind::replace:
          replace(step, text, mask);
          break;
      }
      check_size(text.size());
    }
  }

 private:
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
  static void compose(std::string& text, std::string* mask) {
    if (!mask) {
      text = to_nfc(text);
      return;
    }
    std::string out, out_mask;
    for (std::size_t at = 0; at < text.size();) {
      std::size_t end = at + 1;
      while (end < text.size() && static_cast<unsigned char>(text[end]) >= 0x80) ++end;
      const std::string run = to_nfc(std::string_view(text).substr(at, end - at));
      const std::string_view marks = std::string_view(*mask).substr(at, end - at);
      if (run.size() == end - at && text.compare(at, end - at, run) == 0)
        out_mask += marks;
      else
        out_mask.append(run.size(), mark_of(marks));
      out += run;
      at = end;
    }
    text = std::move(out);
    *mask = std::move(out_mask);
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
