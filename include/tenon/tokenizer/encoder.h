// One text to its tokens.
#pragma once
#include <algorithm>
#include <bit>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/core/views.h"
#include "tenon/tokenizer/merges.h"
#include "tenon/tokenizer/metaspace.h"
#include "tenon/tokenizer/pretokenize.h"
#include "tenon/tokenizer/vocabulary.h"

namespace tenon::detail {

// The way is that of Hugging Face's tokenizers: cut out added tokens, normalize, cut out the others of them, cut into
// pieces, merge the symbols of each.
class Encoder {
 public:
  Encoder(const Vocabulary& vocabulary, std::vector<TokenId>& out)
      : vocabulary_(vocabulary), pipeline_(vocabulary.pipeline), merger_(vocabulary.merges), out_(out) {}

  // Appends the tokens of `text`, valid UTF-8 of less than 2^31 bytes.
  void encode(std::string_view text, const SpecialSpellings& special) {
    pipeline_.added.for_each_part(
        text, special, [&](std::size_t begin, std::size_t size, std::optional<TokenId> token) {
          if (token)
            out_.push_back(*token);
          else
            normalize(text.substr(begin, size), special.of_part(begin, size), begin == 0);
        });
  }

 private:
  // A table with one place for a hash, where the last word stays: a text whose words collide is merged anew, and costs
  // no more than one whose words differ. 2^13 places (256 KiB) are most of a prose's words; a short text has fewer, so
  // that many short parts stay linear.
  static constexpr std::size_t kMaxSeen = 1 << 13, kMaxSeenBytes = 64;
  struct Seen {
    std::string_view word;             // empty: none yet
    std::size_t begin = 0, count = 0;  // in out_
  };
  using Words = std::vector<Seen>;  // [a power of two]
  static Words words_for(std::string_view text) { return Words(std::bit_ceil(std::min(text.size(), kMaxSeen))); }

  // `first`: the part begins where the text does.
  void normalize(std::string_view part, const SpecialSpellings& special, bool first) {
    if (pipeline_.normalizer.empty()) return cut(part, special, first);
    std::string normal(part), mask(special.mask());
    pipeline_.normalizer.apply(normal, special.by_mask() ? &mask : nullptr);
    cut(normal, special.by_mask() ? SpecialSpellings::where(mask) : special, first);
  }

  // Of a normalized part.
  void cut(std::string_view part, const SpecialSpellings& special, bool first) {
    pipeline_.added_normalized.for_each_part(
        part, special, [&](std::size_t begin, std::size_t size, std::optional<TokenId> token) {
          if (token)
            out_.push_back(*token);
          else if (pipeline_.family == TokenizerFamily::byte_level)
            byte_level(part.substr(begin, size));
          else
            sentencepiece(part.substr(begin, size), first && begin == 0);
        });
  }

  void byte_level(std::string_view text) {
    Words words = words_for(text);
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = piece_end(pipeline_.pattern, text, at);
      const std::string_view piece = text.substr(at, end - at);
      at = end;
      if (piece.size() == 1) {
        out_.push_back(vocabulary_.byte_token[static_cast<unsigned char>(piece[0])]);
        continue;
      }
      remembered(words, piece, [&] {
        if (const auto token = whole(piece)) return out_.push_back(*token);
        for (const char c : piece) merger_.add(vocabulary_.byte_token[static_cast<unsigned char>(c)]);
        merger_.merge(out_);
      });
    }
  }

  void sentencepiece(std::string_view part, bool first) {
    const std::string spelled = pipeline_.metaspace ? spell_spaces(part, *pipeline_.metaspace, first) : std::string();
    const std::string_view text = pipeline_.metaspace ? std::string_view(spelled) : part;
    const bool splits = pipeline_.metaspace && pipeline_.metaspace->split;
    const Characters& characters = vocabulary_.characters;
    Words words = words_for(text);
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end =
          splits ? std::min(text.find(kMetaspace, at + 1), text.size()) : text.size();
      const auto token = whole(text.substr(at, end - at));
      if (token) out_.push_back(*token);
      const std::string_view piece = text.substr(0, end);
      while (!token && at < end) {
        const std::string_view word = piece.substr(at, characters.word_end(piece, at) - at);
        at += word.size();
        remembered(words, word, [&] {
          characters.add_symbols(word, merger_);
          merger_.merge(out_);
        });
      }
      at = end;
    }
  }

  std::optional<TokenId> whole(std::string_view piece) const {
    if (piece.size() > vocabulary_.longest_whole) return std::nullopt;
    const auto found = vocabulary_.whole.find(std::string(piece));
    return found == vocabulary_.whole.end() ? std::nullopt : std::optional(found->second);
  }

  // Prose repeats its words: the tokens of a word stand in out_ already, where it was first seen.
  template <class Append>
  void remembered(Words& words, std::string_view word, Append&& append) {
    if (word.size() > kMaxSeenBytes) return append();
    Seen& seen = words[std::hash<std::string_view>()(word) & (words.size() - 1)];
    if (seen.word == word) {
      for (std::size_t k = 0; k < seen.count; ++k) out_.push_back(out_[seen.begin + k]);
      return;
    }
    const std::size_t begin = out_.size();
    append();
    seen = {word, begin, out_.size() - begin};
  }

  const Vocabulary& vocabulary_;
  const Pipeline& pipeline_;
  PieceMerger merger_;
  std::vector<TokenId>& out_;
};

}  // namespace tenon::detail
