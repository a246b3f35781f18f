// From hidden rows to logits, a block of rows at a time, and from logits to prompt scores and the next tokens.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "tenon/engine/active_requests.h"
#include "tenon/engine/failure.h"
#include "tenon/engine/launched_step.h"
#include "tenon/engine/pick_outcome.h"
#include "tenon/model/config.h"
#include "tenon/ops/args.h"
#include "tenon/ops/change_args.h"
#include "tenon/sample/draw_rows.h"
#include "tenon/sample/sampler.h"
#include "tenon/schedule/sequence_table.h"

namespace tenon {

/// Picks tokens with the cheapest op that decides them: the device itself, the best logits of a row, or whole rows.
template <class DeviceP, class HeadView>
class Picker {
 public:
  /// threads: of the device's pool. head_bias: [vocab] on the device, or null. soft_cap: of the logits; 0: none.
  Picker(int threads, const float* head_bias, float soft_cap)
      : samplers_(static_cast<std::size_t>(threads)), head_bias_(head_bias), soft_cap_(soft_cap) {}

  using Step = LaunchedStep<DeviceP, HeadView>;

  /// [AssembledStep::logit_rows] after run(), [rows.size()] after collect(). An entry is set where its row picks.
  std::span<PickOutcome> outcomes() { return outcomes_; }
  /// The tokens, on the device, that it has picked itself in the last such step.
  const TokenId* picks() const { return reinterpret_cast<const TokenId*>(picks_.data()); }

  /// Lets the device pick a token for each row of a step, so that the next step can be launched before these tokens
  /// reach the host. False, and nothing is done, where the device cannot, or a row needs more than its best logits, or
  /// is pooled.
  bool pick_ahead(DeviceP& device, Step& step, const HeadView& head_view, const ModelConfig& config,
                  const SequenceTable& queue, const ActiveRequests& active);

  /// Waits for the tokens that the device has picked.
  void collect(Step& step, const SequenceTable& queue, const ActiveRequests& active);

  /// Computes logits, scores prompts and picks tokens on the host, in blocks of rows: for the rows of one round.
  void run(DeviceP& device, const Step& step, int round, const HeadView& head_view, const ModelConfig& config,
           const SequenceTable& queue, ActiveRequests& active);

 private:
  static constexpr int kRows = 128;            // rows of logits in memory at once
  static constexpr std::size_t kMostRuns = 8;  // runs of undecided rows that are computed one by one

  // Whether each row that picks a token is hashed, and so needs all its logits.
  static bool hashes_rows(const Options& o) { return o.logits_hash || o.receipt; }

  // The number of largest logits that decide a row's token: 1, or top_k. 0: all logits are needed.
  static int candidates_of(const Options& o, int vocab);

  // Into counts_, for each of these rows.
  void count_candidates(int first, int count, int vocab, const SequenceTable& queue, const ActiveRequests& active);

  // Whether min_new_tokens still forbids the end of text.
  static bool is_early(const SequenceOutput& output, const LogitRow& row, const SequenceTable& queue) {
    return row.position + 1 - queue.sequence(row.seq).prompt_tokens < output.options().min_new_tokens;
  }
  static bool is_masked(const SequenceOutput& output, const LogitRow& row, const SequenceTable& queue) {
    return output.constraint() || is_early(output, row, queue);
  }

  void take_masks(int first, int count, const ModelConfig& config, const SequenceTable& queue,
                  const ActiveRequests& active);

  // Whether the mask allows ends of text and nothing else; then a text with ignore_eos ends, too.
  static bool holds_ends_alone(std::span<const std::uint32_t> mask, std::span<const TokenId> ends);

  // Calls constraints on this thread alone, for several requests may share one. False where the constraint fails.
  static bool take_mask(const SequenceOutput& output, int remaining, std::span<std::uint32_t> out,
                        PickOutcome& outcome);

  static PickOutcome failed(const detail::Failure& failure) {
    return {.pick = {}, .failure = failure.what, .kind = failure.kind};
  }

  // The token is drawn from the candidates alone, in order of rank.
  void pick_best(DeviceP& device, MatrixView<const float> hidden, const HeadView& head_view, int vocab, int first,
                 const SequenceTable& queue, const ActiveRequests& active);

  // Draws from the best logits, on rows that the device can prepare for a draw; they decide most draws. A template, as
  // other devices lack the op.
  template <class D>
  void pick_drawn(D& device, MatrixView<const float> hidden, const HeadView& head_view, int vocab, int first,
                  const SequenceTable& queue, const ActiveRequests& active);

  // Picks from whole rows, in runs of undecided rows; where there are many runs, in one from the first row to the last.
  void pick_undecided(DeviceP& device, MatrixView<const float> hidden, const HeadView& head_view, int vocab, int first,
                      const SequenceTable& queue, ActiveRequests& active);

  // Into logits_. hidden: rows of the step from `from` on.
  void compute_logits(DeviceP& device, MatrixView<const float> hidden, const HeadView& head_view, int vocab, int from,
                      const SequenceTable& queue, const ActiveRequests& active);

  // Scores prompts and picks, from the `count` rows of logits_. They are rows of the block that begins at `first`, from
  // its row `skip` on.
  void pick_from_logits(DeviceP& device, int count, int vocab, int first, int skip, const SequenceTable& queue,
                        ActiveRequests& active);

  static SampleInput input(const LogitRow& row, std::span<const float> logits, const std::uint32_t* mask,
                           const Sequence& s, const ActiveRequests& active);

  static PickOutcome sample(Sampler& sampler, const LogitRow& row, std::span<const float> logits,
                            const std::uint32_t* mask, const Sequence& s, const ActiveRequests& active);

  // The mask of row i of a block; null: none.
  const std::uint32_t* mask_of(int i, int vocab) const {
    return masked_[index(i)] ? masks_.data() + index(i) * ((index(vocab) + 31) / 32) : nullptr;
  }

  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  static std::span<const TokenId> prompt_of(const Sequence& s) {
    return std::span(s.tokens).first(index(s.prompt_tokens));
  }

  // Whether the sequence's adapter has a head of its own. Then only whole rows decide.
  static bool changes_head(const Sequence& s) { return s.adapters && s.adapters->head(); }

  // Whether logits are more than products. Then only whole rows decide.
  bool finishes_logits() const { return head_bias_ || soft_cap_ != 0; }

  std::vector<Sampler> samplers_;  // one a thread
  const float* head_bias_;         // [vocab] on the device, or null
  float soft_cap_;                 // 0: none
  typename DeviceP::Memory logits_;
  std::vector<const TableChange*> head_changes_;  // [rows of a block]
  typename DeviceP::Memory picks_;                // [rows] TokenId, of pick_ahead()
  std::vector<PickRow> pick_rows_;                // [rows], likewise
  std::vector<LogitRow> rows_;                    // of the current step and round: those that need logits
  std::vector<PickOutcome> outcomes_;
  std::vector<std::uint32_t> masks_;  // [rows of a block, words] where a row has one
  std::vector<bool> masked_;          // [rows of a block]
  std::vector<int> counts_;           // [rows of a block] candidates_of each
  std::vector<std::vector<TokenLogit>> best_;
  // For pick_drawn():
  DrawRows draws_;
  std::vector<double> totals_, log_totals_;
  std::vector<char> undecided_;            // [rows of a block] only the whole row decides
  std::vector<std::pair<int, int>> runs_;  // of undecided rows: begin and end
};

}  // namespace tenon

#include "tenon/engine/picker_members.h"
