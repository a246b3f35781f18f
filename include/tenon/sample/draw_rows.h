// The arguments of head_draw: what each row of a step needs of a device that prepares draws itself (DrawRow,
// ops/args.h).
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tenon/ops/args.h"
#include "tenon/sample/penalties.h"

namespace tenon {

/// Collects the rows of one call. Keeps its buffers between calls.
class DrawRows {
 public:
  /// Starts a new call. vocab: logits of a row.
  void reset(std::size_t vocab);
  std::size_t size() const { return rows_.size(); }

  /// Adds a row that the device skips.
  void pass_over() { rows_.emplace_back(); }

  /// Adds a row. False, and nothing is added, where the device cannot prepare its draw:
  ///   - its `most` best logits do not decide the token;
  ///   - it has a logits processor, two biases of one token, or a bias that Penalties refuses;
  ///   - it wants log-probabilities of more than `most` tokens, or of a row whose logits are processed.
  bool add(const SampleInput& in, std::size_t most);

  /// The arguments, with views on this object.
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
