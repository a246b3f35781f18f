#pragma once
#include <algorithm>

#include "tenon/core/require.h"
#include "tenon/sample/draw_rows.h"
#include "tenon/sample/sampler.h"

namespace tenon {

TENON_INLINE void DrawRows::reset(std::size_t vocab) {
  vocab_ = vocab;
  rows_.clear();
  biases_.clear();
  seen_.clear();
  masks_.clear();
}

TENON_INLINE bool DrawRows::add(const SampleInput& in, std::size_t most) {
  if (in.has_processor()) return false;
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

TENON_INLINE bool DrawRows::add_biases(const Options& o) {
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

TENON_INLINE void DrawRows::add_seen(std::span<const TokenId> tokens, int generated) {
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

TENON_INLINE void DrawRows::forget_places(std::size_t first) {
  for (std::size_t i = first; i < seen_.size(); ++i) places_[static_cast<std::size_t>(seen_[i].id)] = 0;
}

}  // namespace tenon
