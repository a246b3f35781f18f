// What a step's rows ask of a device that prepares them for a draw itself (DrawRow, ops/args.h).
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tenon/ops/args.h"
#include "tenon/sample/penalties.h"

namespace tenon {

class DrawRows {
 public:
  void reset(std::size_t vocab);
  std::size_t size() const { return rows_.size(); }

  // A row of which nothing is wanted.
  void pass_over() { rows_.emplace_back(); }

  // False, and nothing is added, where such a row is not decided by `most` of its best, has a processor or biases whose
  // order counts or that Penalties refuses, or wants log-probabilities of more tokens, or of logits that are processed.
  bool add(const SampleInput& in, std::size_t most);

  template <class W>
  HeadDrawArgs<W> args(MatrixView<const float> hidden, const W& weight, std::vector<TokenLogit>* best /* [rows] */,
                       double* totals /* [rows] */, double* log_totals /* [rows] */) const {
    return {hidden, weight, static_cast<int>(vocab_), rows_, biases_, seen_, masks_, best, totals, log_totals};
  }

 private:
  // Not those that Penalties refuses, nor two of one token, whose order counts.
  bool add_biases(const Options& o);

  // Each token once. Ids beyond the head's outputs have no logit to penalise.
  void add_seen(std::span<const TokenId> tokens, int generated);
  void forget_places(std::size_t first);

  std::size_t vocab_ = 0;
  std::vector<DrawRow> rows_;
  std::vector<TokenLogit> biases_;     // by row, then id
  std::vector<SeenToken> seen_;        // by row
  std::vector<std::uint32_t> places_;  // [vocab] where a token stands in seen_, and 1; zeros between calls
  std::vector<std::uint32_t> masks_;   // [masks, (vocab_ + 31) / 32]
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/sample/draw_rows-inl.h"
#endif
