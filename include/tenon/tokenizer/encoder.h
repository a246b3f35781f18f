// Encodes one text to tokens.
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
#include "tenon/tokenizer/pre_tokenizer.h"
#include "tenon/tokenizer/vocabulary.h"

namespace tenon::detail {

// The steps are those of Hugging Face's tokenizers:
// 1. cut out added tokens;
// 2. normalize, and cut out the added tokens that are normalized;
// 3. cut into pieces, and merge the symbols of each piece.
class Encoder {
 public:
  Encoder(const TokenizerTables& vocabulary, std::vector<TokenId>& out)
      : vocabulary_(vocabulary), pipeline_(vocabulary.pipeline), merger_(vocabulary.merges), out_(out) {}

  // Appends the tokens of `text`, which is valid UTF-8 of less than 2^31 bytes. Call it once per encoder. Error
  // capacity if the text grows to 2^31 bytes, or takes the pre-tokenizer too many steps.
  void encode(std::string_view text, const SpecialSpellings& special) {
    pipeline_.added.for_each_part(text, special,
                                  [&](std::size_t begin, std::size_t size, std::optional<TokenId> token) {
                                    if (token)
                                      out_.push_back(*token);
                                    else
                                      normalize(text.substr(begin, size), special.of_part(begin, size), begin == 0);
                                  });
  }

 private:
  // Direct-mapped cache of words: one entry per hash, and the last word stays. Colliding words are merged again, at
  // the cost of a new word. 2^13 entries (256 KiB) hold most words of prose. A short text gets fewer, so that many
  // short parts take linear time.
  static constexpr std::size_t kMaxCachedWords = 1 << 13, kMaxCachedWordBytes = 64;
  struct CachedWord {
    std::string_view word;             // empty: unused
    std::size_t begin = 0, count = 0;  // range in out_
  };
  using WordCache = std::vector<CachedWord>;  // size: a power of two
  static WordCache word_cache_for(std::string_view text) {
    return WordCache(std::bit_ceil(std::min(text.size(), kMaxCachedWords)));
  }

  // `first`: the part starts where the text does.
  void normalize(std::string_view part, const SpecialSpellings& special, bool first) {
    if (vocabulary_.sentencepiece) return sentencepiece_part(part, special, first);
    if (pipeline_.normalizer.empty()) return cut(part, special, first);
    std::string normal(part), mask(special.mask());
    const bool begins = pipeline_.normalizer.apply(normal, special.by_mask() ? &mask : nullptr, scratch_.search);
    cut(normal, special.by_mask() ? SpecialSpellings::where(mask) : special, first && begins);
  }

  // The model of a tokenizer.model normalizes a part itself. All added tokens are searched in the raw text.
  void sentencepiece_part(std::string_view part, const SpecialSpellings& special, bool first) {
    pipeline_.added_normalized.for_each_part(
        part, special, [&](std::size_t begin, std::size_t size, std::optional<TokenId> token) {
          if (token)
            out_.push_back(*token);
          else
            vocabulary_.sentencepiece->encode(part.substr(begin, size), first && begin == 0, out_);
        });
  }

  // Cuts a normalized part.
  void cut(std::string_view part, const SpecialSpellings& special, bool first) {
    pipeline_.added_normalized.for_each_part(part, special,
                                             [&](std::size_t begin, std::size_t size, std::optional<TokenId> token) {
                                               if (token)
                                                 out_.push_back(*token);
                                               else
                                                 pieces(part.substr(begin, size), first && begin == 0);
                                             });
  }

  void pieces(std::string_view text, bool first) {
    WordCache words = word_cache_for(text);
    scratch_.texts.clear();
    const bool bytes = pipeline_.family == TokenizerFamily::byte_level;
    const bool spelled = pipeline_.pre_tokenizer.has(PreTokenizerStep::Kind::spell_bytes);
    pipeline_.pre_tokenizer.cut(text, first, scratch_, [&](std::string_view piece) {
      if (spelled) piece = scratch_.texts.emplace_front(unspell(std::string(piece)));
      if (vocabulary_.unigram)
        vocabulary_.unigram->encode(piece, out_);
      else if (bytes)
        byte_level(piece, words);
      else
        sentencepiece(piece, words);
    });
  }

  void byte_level(std::string_view piece, WordCache& words) {
    const TokenId only = piece.size() == 1 ? vocabulary_.byte_token[static_cast<unsigned char>(piece[0])] : -1;
    if (only >= 0) return out_.push_back(only);
    cached(words, piece, [&] {
      if (const auto token = whole(piece)) return out_.push_back(*token);
      add_bytes(piece);
      merger_.merge(out_);
    });
  }

  // A byte without a token becomes the unknown token or, without one, is dropped, which makes its neighbours adjacent
  // (tokenizers, bpe/model.rs).
  void add_bytes(std::string_view piece) {
    bool unknown_before = false;
    for (const char c : piece) {
      const TokenId id = vocabulary_.byte_token[static_cast<unsigned char>(c)];
      const bool unknown = id < 0;
      if (!unknown) merger_.add(id);
      if (unknown && vocabulary_.unknown_byte && !(vocabulary_.fuses_unknown && unknown_before))
        merger_.add(*vocabulary_.unknown_byte);
      unknown_before = unknown;
    }
  }

  void sentencepiece(std::string_view piece, WordCache& words) {
    if (const auto token = whole(piece)) return out_.push_back(*token);
    const Characters& characters = vocabulary_.characters;
    for (std::size_t at = 0; at < piece.size();) {
      const std::string_view word = piece.substr(at, characters.word_end(piece, at) - at);
      at += word.size();
      cached(words, word, [&] {
        characters.add_symbols(word, merger_);
        merger_.merge(out_);
      });
    }
  }

  std::optional<TokenId> whole(std::string_view piece) const {
    if (piece.size() > vocabulary_.longest_whole) return std::nullopt;
    const auto found = vocabulary_.whole.find(std::string(piece));
    return found == vocabulary_.whole.end() ? std::nullopt : std::optional(found->second);
  }

  // Words repeat in prose. The tokens of a known word are copied from its first place in out_.
  template <class Append>
  void cached(WordCache& words, std::string_view word, Append&& append) {
    if (word.size() > kMaxCachedWordBytes) return append();
    CachedWord& seen = words[std::hash<std::string_view>()(word) & (words.size() - 1)];
    if (seen.word == word) {
      for (std::size_t k = 0; k < seen.count; ++k) out_.push_back(out_[seen.begin + k]);
      return;
    }
    const std::size_t begin = out_.size();
    append();
    seen = {word, begin, out_.size() - begin};
  }

  const TokenizerTables& vocabulary_;
  const Pipeline& pipeline_;
  PieceMerger merger_;
  PreTokenizer::Scratch scratch_;  // one per text, because all its parts share one budget of steps
  std::vector<TokenId>& out_;
};

}  // namespace tenon::detail
