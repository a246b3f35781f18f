// What a step's rows ask of a device that prepares them for a draw itself (DrawRow, ops/args.h).
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tenon/ops/args.h"
#include "tenon/sample/penalties.h"
#include "tenon/sample/sampler.h"

namespace tenon {

class DrawRows {
 public:
  void reset(std::size_t vocab) {
    vocab_ = vocab;
    rows_.clear();
    biases_.clear();
    seen_.clear();
    masks_.clear();
  }
  std::size_t size() const { return rows_.size(); }

  // A row of which nothing is wanted.
  void pass_over() { rows_.emplace_back(); }

  // False, and nothing is added, where such a row is not decided by `most` of its best, has biases whose order counts
  // or that Penalties refuses, or wants log-probabilities of more tokens, or of logits that are processed.
  bool add(const SampleInput& in, std::size_t most) {
    const Options& o = in.options;
    const bool processed = in.mask != nullptr || Sampler::processes(o);
    if (o.top_logprobs >= 0 && (processed || static_cast<std::size_t>(o.top_logprobs) > std::min(most, vocab_)))
      return false;
    if (!Sampler::draws_from_best(o, vocab_, most) || !add_biases(o)) return false;
    const bool ranked = o.temperature != 0 && o.top_k > 0 && static_cast<std::size_t>(o.top_k) < vocab_;
    DrawRow row;
    row.best = o.temperature == 0 ? 1 : ranked ? o.top_k : static_cast<int>(std::min(most, vocab_));
    row.best = std::max(row.best, o.top_logprobs);
    row.log_total = o.top_logprobs >= 0;
    row.temperature = ranked ? 0 : o.temperature;
    row.biases = static_cast<int>(o.logit_bias.size());
    row.first_bias = static_cast<int>(biases_.size()) - row.biases;
    row.first_seen = static_cast<int>(seen_.size());
    if (o.repetition_penalty != 1) add_seen(in.prompt, 0);
    if (o.repetition_penalty != 1 || o.presence_penalty != 0 || o.frequency_penalty != 0) add_seen(in.generated, 1);
    forget_places(static_cast<std::size_t>(row.first_seen));
    row.seen = static_cast<int>(seen_.size()) - row.first_seen;
    row.repetition_penalty = o.repetition_penalty;
    row.presence_penalty = o.presence_penalty;
    row.frequency_penalty = o.frequency_penalty;
    if (in.mask != nullptr) {
      const std::size_t words = (vocab_ + 31) / 32;
      row.mask = static_cast<int>(masks_.size() / words);
      masks_.insert(masks_.end(), in.mask, in.mask + words);
    }
    rows_.push_back(row);
    return true;
  }

  template <class W>
  HeadDrawArgs<W> args(MatrixView<const float> hidden, const W& weight, std::vector<TokenLogit>* best /* [rows] */,
                       double* totals /* [rows] */, double* log_totals /* [rows] */) const {
    return {hidden, weight, static_cast<int>(vocab_), rows_, biases_, seen_, masks_, best, totals, log_totals};
  }

 private:
  // Not those that Penalties refuses, nor two of one token, whose order counts.
  bool add_biases(const Options& o) {
    const std::size_t first = biases_.size();
    for (const auto& [id, bias] : o.logit_bias) biases_.push_back({bias, id});
    const auto begin = biases_.begin() + static_cast<std::ptrdiff_t>(first);
    std::sort(begin, biases_.end(), [](const TokenLogit& a, const TokenLogit& b) { return a.id < b.id; });
    const bool twice = std::adjacent_find(begin, biases_.end(),
                                          [](const auto& a, const auto& b) { return a.id == b.id; }) != biases_.end();
    const bool outside =
        biases_.size() > first && (begin->id < 0 || static_cast<std::size_t>(biases_.back().id) >= vocab_);
    if (twice || outside) biases_.resize(first);
    return !twice && !outside;
  }

  // Each token once. Ids beyond the head's outputs have no logit to penalise.
  void add_seen(std::span<const TokenId> tokens, int generated) {
    places_.resize(std::max(places_.size(), vocab_));
    for (const TokenId id : tokens) {
      if (id < 0 || static_cast<std::size_t>(id) >= vocab_) continue;
      std::uint32_t& place = places_[static_cast<std::size_t>(id)];
      if (place == 0) {
        seen_.push_back({id, 0});
        place = static_cast<std::uint32_t>(seen_.size());
      }
      seen_[place - 1].generated += generated;
    }
  }
  void forget_places(std::size_t first) {
    for (std::size_t i = first; i < seen_.size(); ++i) places_[static_cast<std::size_t>(seen_[i].id)] = 0;
  }

  std::size_t vocab_ = 0;
  std::vector<DrawRow> rows_;
  std::vector<TokenLogit> biases_;     // by row, then id
  std::vector<SeenToken> seen_;        // by row
  std::vector<std::uint32_t> places_;  // [vocab] where a token stands in seen_, and 1; zeros between calls
  std::vector<std::uint32_t> masks_;   // [masks, (vocab_ + 31) / 32]
};

}  // namespace tenon
