// The arguments of head_draw: what a device that prepares draws must know about each row of a step (DrawRow,
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

  /// Adds a row. Returns false and adds nothing if the device cannot prepare the row's draw:
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
  // Returns false for biases that Penalties refuses, and for two of one token, because their order matters.
  bool add_biases(const Options& o);

  // Each token once. Ids beyond the head's outputs have no logit to penalise.
  void add_seen(std::span<const TokenId> tokens, int generated);
  void forget_places(std::size_t first);

  std::size_t vocab_ = 0;
  std::vector<DrawRow> rows_;
  std::vector<TokenLogit> biases_;     // by row, then id
  std::vector<SeenToken> seen_;        // by row
  std::vector<std::uint32_t> places_;  // [vocab] index of a token in seen_ plus 1; 0: absent; zeros between calls
  std::vector<std::uint32_t> masks_;   // [masks, (vocab_ + 31) / 32]
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/sample/draw_rows-inl.h"
#endif
