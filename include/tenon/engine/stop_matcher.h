// The text of one answer as it grows: tokens to whole characters, stop strings held back until they are refuted.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/tokenizer/stream_decoder.h"

namespace tenon {

/// Finds the first stop string in a text that arrives in pieces. Holds back text that may begin one, and releases the
/// rest.
class StopMatcher {
 public:
  /// include: releases the stop string that was found, too; the shorter one where two begin at the same place.
  explicit StopMatcher(std::vector<std::string> stops, bool include = false)
      : stops_(std::move(stops)), include_(include) {}

  /// Adds text; returns the text that now belongs to the answer for certain: none once stopped(). Finds no stop string
  /// that ends in text with may_stop false.
  std::string push(std::string_view text, bool may_stop = true);

  /// The text ends: returns what was held back.
  std::string finish() { return std::exchange(held_, {}); }
  bool stopped() const { return stopped_; }  ///< a stop string was found

 private:
  // Length of the longest end of the held text with which a stop string begins.
  std::size_t longest_start() const;

  std::vector<std::string> stops_;
  bool include_;
  std::string held_;
  bool stopped_ = false;
};

/// The text of one answer: tokens become whole characters, then pass the StopMatcher.
class OutputText {
 public:
  /// tokenizer: null where the model has none; then all text is empty. skip_special: special tokens add no text.
  explicit OutputText(const Tokenizer* tokenizer, std::vector<std::string> stops = {}, bool include_stop = false,
                      bool skip_special = false)
      : special_(skip_special ? tokenizer : nullptr), stops_(std::move(stops), include_stop) {
    if (tokenizer) decoder_.emplace(*tokenizer);
  }

  /// may_stop: a stop string that ends with this token's text is found. It holds for finish(), too.
  std::string push(TokenId token, bool may_stop = true);
  std::string finish();
  bool stopped() const { return stops_.stopped(); }

 private:
  const Tokenizer* special_;  // whose special tokens add nothing; null: all tokens are text
  std::optional<StreamDecoder> decoder_;
  StopMatcher stops_;
  bool may_stop_ = true;
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/engine/stop_matcher-inl.h"
#endif
