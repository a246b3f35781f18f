// Two answers compared bit by bit, and how many bits differ.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "tenon/engine/completion.h"

namespace tenon::invariance {

// The number of bits that differ, and where the first one is. A missing value differs in all its bits.
class Differences {
 public:
  std::uint64_t bits() const { return bits_; }
  const std::string& first() const { return first_; }

  void add(const std::string& where, const Completion& expected, const Completion& got) {
    add(where, static_cast<const Choice&>(expected), got);
    if (got.reason != FinishReason::cancelled) {
      text(where + " error", expected.error, got.error);
      scores(where, expected.scores.get(), got.scores.get());
    }
    count(where + " choices", expected.others.size() != got.others.size());
    for (std::size_t i = 0; i < std::min(expected.others.size(), got.others.size()); ++i) {
      add(where + " choice " + std::to_string(i + 1), expected.others[i], got.others[i]);
    }
  }

 private:
  void count(const std::string& where, std::uint64_t bits) {
    if (bits > 0 && bits_ == 0) first_ = where;
    bits_ += bits;
  }

  // A cancelled answer is the beginning of the whole one.
  void add(const std::string& where, const Choice& expected, const Choice& got) {
    const bool cut = got.reason == FinishReason::cancelled;
    values(where + " ids", expected.ids, got.ids, cut);
    values(where + " logprobs", expected.logprobs, got.logprobs, cut);
    if (!cut) count(where + " steps of top_logprobs", expected.top_logprobs.size() != got.top_logprobs.size());
    for (std::size_t i = 0; i < std::min(expected.top_logprobs.size(), got.top_logprobs.size()); ++i) {
      values(where + " top_logprobs[" + std::to_string(i) + "]", expected.top_logprobs[i], got.top_logprobs[i]);
    }
    if (cut) return;
    text(where + " text", expected.text, got.text);
    count(where + " reason", expected.reason != got.reason);
    const std::array a = {expected.logits_hash.value_or(0)}, b = {got.logits_hash.value_or(0)};
    count(where + " logits_hash", expected.logits_hash.has_value() != got.logits_hash.has_value());
    values(where + " logits_hash", std::span<const std::uint64_t>(a), std::span<const std::uint64_t>(b));
  }

  void scores(const std::string& where, const Scores* expected, const Scores* got) {
    count(where + " scores", (expected != nullptr) != (got != nullptr));
    if (!expected || !got) return;
    count(where + " nll", expected->nll_mean.has_value() != got->nll_mean.has_value());
    const std::array a = {expected->nll_mean.value_or(0)}, b = {got->nll_mean.value_or(0)};
    values(where + " nll", std::span<const double>(a), std::span<const double>(b));
    count(where + " prompt_logprobs", expected->prompt.size() != got->prompt.size());
    for (std::size_t i = 0; i < std::min(expected->prompt.size(), got->prompt.size()); ++i) {
      const PromptLogprob &e = expected->prompt[i], &g = got->prompt[i];
      values(where + " prompt token " + std::to_string(i + 1), std::vector{e.token}, std::vector{g.token});
      values(where + " alternatives of prompt token " + std::to_string(i + 1), e.top, g.top);
    }
    count(where + " positions of logits", expected->logits.size() != got->logits.size());
    for (std::size_t i = 0; i < std::min(expected->logits.size(), got->logits.size()); ++i) {
      const auto& [position, logits] = expected->logits[i];
      count(where + " position of logits", position != got->logits[i].first);
      values(where + " logits behind " + std::to_string(position), logits, got->logits[i].second);
    }
  }

  void text(const std::string& where, const std::string& expected, const std::string& got) {
    count(where + " '" + expected + "' '" + got + "'", expected != got);
  }

  template <class T>
  void values(const std::string& where, const std::vector<T>& expected, const std::vector<T>& got, bool cut = false) {
    const std::size_t size = cut ? std::min(expected.size(), got.size()) : expected.size();
    values(where, std::span(expected).first(size), std::span<const T>(got));
  }

  template <class T>
  void values(const std::string& where, std::span<const T> expected, std::span<const T> got) {
    const std::size_t both = std::min(expected.size(), got.size()), most = std::max(expected.size(), got.size());
    count(where + " count", 8 * sizeof(T) * (most - both));
    if (both == 0 || std::memcmp(expected.data(), got.data(), both * sizeof(T)) == 0) return;
    for (std::size_t i = 0; i < both; ++i) {
      const auto a = std::bit_cast<std::array<std::uint8_t, sizeof(T)>>(expected[i]);
      const auto b = std::bit_cast<std::array<std::uint8_t, sizeof(T)>>(got[i]);
      int bits = 0;
      for (std::size_t byte = 0; byte < sizeof(T); ++byte)
        bits += std::popcount(static_cast<std::uint8_t>(a[byte] ^ b[byte]));
      count(where + "[" + std::to_string(i) + "]", static_cast<std::uint64_t>(bits));
    }
  }

  std::uint64_t bits_ = 0;
  std::string first_;
};

inline Differences compare(const std::vector<Completion>& expected, const std::vector<Completion>& got) {
  Differences differences;
  for (std::size_t i = 0; i < std::max(expected.size(), got.size()); ++i) {
    static const Completion missing;
    differences.add("request " + std::to_string(i), i < expected.size() ? expected[i] : missing,
                    i < got.size() ? got[i] : missing);
  }
  return differences;
}

}  // namespace tenon::invariance
