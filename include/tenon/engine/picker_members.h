// The members of Picker. They are defined outside the class, so they are not inline: extern templates
// (engine/instances.h) then prevent another instance in each unit.
#pragma once
#include <algorithm>
#include <bit>

#include "tenon/core/hash.h"
#include "tenon/engine/picker.h"
#include "tenon/engine/receipt.h"
#include "tenon/sample/philox.h"

namespace tenon {

template <class DeviceP, class HeadView>
bool Picker<DeviceP, HeadView>::pick_ahead([[maybe_unused]] DeviceP& device, [[maybe_unused]] Step& step,
                                           [[maybe_unused]] const HeadView& head_view,
                                           [[maybe_unused]] const ModelConfig& config,
                                           [[maybe_unused]] const SequenceTable& queue,
                                           [[maybe_unused]] const ActiveRequests& active) {
  if constexpr (PicksAhead<DeviceP, HeadView>) {
    if (step.logit_rows < step.rows.size()) return false;
    rows_.assign(step.rows.begin(), step.rows.end());
    const int rows = static_cast<int>(rows_.size());
    count_candidates(0, rows, config.vocab, queue, active);
    pick_rows_.clear();
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const Options& o = active.output(rows_[i].seq).options();
      if (counts_[i] == 0 || (o.temperature != 0 && o.typical_p < 1)) return false;
      const auto u = static_cast<double>(uniform(o.seed, rows_[i].position + 1));
      pick_rows_.push_back(
          {.best = counts_[i], .temperature = o.temperature, .top_p = o.top_p, .min_p = o.min_p, .u = u});
    }
    if (rows == 0) return false;
    const std::size_t bytes = rows_.size() * sizeof(TokenId);
    if (bytes > picks_.bytes()) picks_ = device.allocate(2 * bytes);
    auto* const picks = reinterpret_cast<TokenId*>(picks_.data());
    TokenId* for_host = nullptr;
    if constexpr (WritesArrivals<DeviceP>) for_host = device.template arrivals<TokenId>(rows_.size(), step.picks);
    for (int first = 0; first < rows; first += kRows) {
      const int count = std::min(kRows, rows - first);
      const auto of_block = std::span<const PickRow>(pick_rows_).subspan(index(first), index(count));
      head_pick(device, HeadPickArgs<HeadView>{step.hidden.rows_from(first, count), head_view, config.vocab, of_block,
                                               picks + first, for_host ? for_host + first : nullptr});
    }
    if constexpr (WritesArrivals<DeviceP>)
      device.arrive(step.picks);
    else
      device.fetch_later(static_cast<const TokenId*>(picks), rows_.size(), step.picks);
    return true;
  }
  return false;
}

template <class DeviceP, class HeadView>
void Picker<DeviceP, HeadView>::collect([[maybe_unused]] Step& step, [[maybe_unused]] const SequenceTable& queue,
                                        [[maybe_unused]] const ActiveRequests& active) {
  if constexpr (PicksAhead<DeviceP, HeadView>) {
    const auto* const tokens = reinterpret_cast<const TokenId*>(step.picks.wait());
    outcomes_.assign(step.rows.size(), {});
    for (std::size_t i = 0; i < step.rows.size(); ++i) {
      const LogitRow& row = step.rows[i];
      if (!row.pick) continue;
      if (tokens[i] >= 0)
        outcomes_[i].pick.emplace().token = tokens[i];
      else
        outcomes_[i] = sample(samplers_.front(), row, {}, nullptr, queue.sequence(row.seq),
                              active);  // says that it is not finite
    }
  }
}

template <class DeviceP, class HeadView>
void Picker<DeviceP, HeadView>::run(DeviceP& device, const Step& step, int round, const HeadView& head_view,
                                    const ModelConfig& config, const SequenceTable& queue, ActiveRequests& active) {
  const MatrixView<const float> hidden = step.hidden;
  const int vocab = config.vocab;
  rows_.assign(step.rows.begin(), step.rows.begin() + static_cast<std::ptrdiff_t>(step.logit_rows));
  for (LogitRow& row : rows_) {
    row.gone = row.gone || row.round != round || !active.has_sequence(row.seq);
    row.pick = row.pick && !row.gone;
  }
  outcomes_.assign(rows_.size(), {});
  const int rows = static_cast<int>(rows_.size());
  if (step.rounds > 1 && rows <= kRows) {  // one pass over the head serves all rounds
    take_masks(0, rows, config, queue, active);
    undecided_.assign(rows_.size(), true);
    if (round == 0) compute_logits(device, hidden.rows_from(0, rows), head_view, vocab, 0, queue, active);
    pick_from_logits(device, rows, vocab, 0, 0, queue, active);
    return;
  }
  for (int first = 0; first < rows; first += kRows) {
    const int count = std::min(kRows, rows - first);
    if (std::all_of(rows_.begin() + first, rows_.begin() + first + count, [](const LogitRow& row) { return row.gone; }))
      continue;
    const MatrixView<const float> block = hidden.rows_from(first, count);
    count_candidates(first, count, vocab, queue, active);
    take_masks(first, count, config, queue, active);
    if (std::find(counts_.begin(), counts_.end(), 0) == counts_.end()) {
      pick_best(device, block, head_view, vocab, first, queue, active);
    } else {
      undecided_.clear();
      for (int i = first; i < first + count; ++i) undecided_.push_back(!rows_[index(i)].gone);
      if constexpr (PreparesDraws<DeviceP, HeadView>)
        if (!finishes_logits()) pick_drawn(device, block, head_view, vocab, first, queue, active);
      pick_undecided(device, block, head_view, vocab, first, queue, active);
    }
  }
}

template <class DeviceP, class HeadView>
int Picker<DeviceP, HeadView>::candidates_of(const Options& o, int vocab) {
  if (Sampler::processes(o) || o.top_logprobs >= 0 || hashes_rows(o)) return 0;
  if (o.temperature == 0) return 1;
  return o.top_k <= kMostBest && o.top_k < vocab ? o.top_k : 0;
}

template <class DeviceP, class HeadView>
void Picker<DeviceP, HeadView>::count_candidates(int first, int count, int vocab, const SequenceTable& queue,
                                                 const ActiveRequests& active) {
  counts_.clear();
  for (int i = first; i < first + count; ++i) {
    const LogitRow& row = rows_[index(i)];
    if (row.gone) {  // the cheapest number
      counts_.push_back(1);
      continue;
    }
    const SequenceOutput& output = active.output(row.seq);
    const bool scores = output.wants_logits(row.position, queue.sequence(row.seq).prompt_tokens);
    counts_.push_back(finishes_logits() || scores || changes_head(queue.sequence(row.seq)) || !row.pick ||
                              output.processor() || is_masked(output, row, queue)
                          ? 0
                          : candidates_of(output.options(), vocab));
  }
}

template <class DeviceP, class HeadView>
void Picker<DeviceP, HeadView>::take_masks(int first, int count, const ModelConfig& config, const SequenceTable& queue,
                                           const ActiveRequests& active) {
  const std::size_t words = (index(config.vocab) + 31) / 32;
  masks_.clear();
  masked_.assign(index(count), false);
  for (int i = 0; i < count; ++i) {
    const LogitRow& row = rows_[index(first + i)];
    if (!row.pick) continue;
    const SequenceOutput& output = active.output(row.seq);
    if (!is_masked(output, row, queue)) continue;
    masks_.resize(index(count) * words, ~std::uint32_t{0});
    const std::span<std::uint32_t> mask = std::span(masks_).subspan(index(i) * words, words);
    masked_[index(i)] = take_mask(output, queue.sequence(row.seq).remaining(), mask, outcomes_[index(first + i)]);
    const auto forbid = [&](TokenId token) { mask[index(token) / 32] &= ~(1u << (index(token) % 32)); };
    const bool early = is_early(output, row, queue);
    const bool ends_late = output.options().ignore_eos && output.constraint() && !holds_ends_alone(mask, config.eos);
    if (ends_late || (early && !output.options().ignore_eos))
      std::for_each(config.eos.begin(), config.eos.end(), forbid);
    if (early) std::for_each(output.options().stop_ids.begin(), output.options().stop_ids.end(), forbid);
  }
}

template <class DeviceP, class HeadView>
bool Picker<DeviceP, HeadView>::holds_ends_alone(std::span<const std::uint32_t> mask, std::span<const TokenId> ends) {
  int allowed = 0;
  for (const std::uint32_t word : mask) allowed += std::popcount(word);
  for (const TokenId end : ends) allowed -= mask[index(end) / 32] >> (index(end) % 32) & 1u;
  return allowed == 0;
}

template <class DeviceP, class HeadView>
bool Picker<DeviceP, HeadView>::take_mask(const SequenceOutput& output, int remaining, std::span<std::uint32_t> out,
                                          PickOutcome& outcome) {
  ConstraintState* const constraint = output.constraint();
  if (!constraint) return true;
  const auto failure = detail::attempt([&] {
    const std::span<const std::uint32_t> mask =
        output.options().finish_within_budget ? constraint->mask_within(remaining) : constraint->mask();
    detail::require(mask.size() == out.size(), "constraint", "must give a mask of the vocabulary's width");
    std::copy(mask.begin(), mask.end(), out.begin());
  });
  if (failure) outcome = failed(*failure);
  return !failure;
}

template <class DeviceP, class HeadView>
void Picker<DeviceP, HeadView>::pick_best(DeviceP& device, MatrixView<const float> hidden, const HeadView& head_view,
                                          int vocab, int first, const SequenceTable& queue,
                                          const ActiveRequests& active) {
  best_.resize(index(hidden.rows));
  head_best(device, HeadBestArgs<HeadView>{hidden, head_view, vocab, counts_.data(), best_.data()});
  device.pool().share(hidden.rows, 16, [&](int begin, int end, int thread) {
    Sampler& sampler = samplers_[index(thread)];
    for (int i = begin; i < end; ++i) {
      const LogitRow& row = rows_[index(first + i)];
      if (!row.pick) continue;
      const Sequence& s = queue.sequence(row.seq);
      std::vector<TokenLogit>& best = best_[index(i)];
      std::sort(best.begin(), best.end(), ranks_before);
      const SampleInput in = input(row, {}, nullptr, s, active);
      if (const auto token = sampler.best_of_row(in, best, index(vocab), false, 0))
        outcomes_[index(first + i)].pick.emplace().token = *token;
      else
        outcomes_[index(first + i)] = sample(sampler, row, {}, nullptr, s, active);  // says that it is not finite
    }
  });
}

template <class DeviceP, class HeadView>
template <class D>
void Picker<DeviceP, HeadView>::pick_drawn(D& device, MatrixView<const float> hidden, const HeadView& head_view,
                                           int vocab, int first, const SequenceTable& queue,
                                           const ActiveRequests& active) {
  draws_.reset(index(vocab));
  int wanted = 0, living = 0;
  for (int i = 0; i < hidden.rows; ++i) {
    const LogitRow& row = rows_[index(first + i)];
    if (row.gone) {
      draws_.pass_over();
      continue;
    }
    ++living;
    const Sequence& s = queue.sequence(row.seq);
    const SequenceOutput& output = active.output(row.seq);
    const bool whole = !row.pick || hashes_rows(output.options()) ||
                       output.wants_logits(row.position, s.prompt_tokens) ||
                       !outcomes_[index(first + i)].failure.empty();
    if (!whole && draws_.add(input(row, {}, mask_of(i, vocab), s, active), kMostBest))
      ++wanted;
    else
      draws_.pass_over();
  }
  if (2 * wanted <= living) return;  // the other rows need all logits anyway
  best_.resize(index(hidden.rows));
  totals_.resize(index(hidden.rows));
  log_totals_.resize(index(hidden.rows));
  head_draw(device, draws_.args<HeadView>(hidden, head_view, best_.data(), totals_.data(), log_totals_.data()));
  device.pool().share(hidden.rows, 16, [&](int begin, int end, int thread) {
    for (int i = begin; i < end; ++i) {
      const LogitRow& row = rows_[index(first + i)];
      if (row.gone) continue;
      const std::vector<TokenLogit>& best = best_[index(i)];
      const bool all = best.size() < index(kMostBest) || best.size() == index(vocab);
      const SampleInput in = input(row, {}, nullptr, queue.sequence(row.seq), active);
      const auto token = samplers_[index(thread)].best_of_row(in, best, index(vocab), all, totals_[index(i)]);
      if (!token) continue;
      Pick& pick = outcomes_[index(first + i)].pick.emplace();
      pick.token = *token;
      if (in.options.top_logprobs >= 0) Sampler::add_logprobs(in, best, log_totals_[index(i)], pick);
      undecided_[index(i)] = false;
    }
  });
}

template <class DeviceP, class HeadView>
void Picker<DeviceP, HeadView>::pick_undecided(DeviceP& device, MatrixView<const float> hidden,
                                               const HeadView& head_view, int vocab, int first,
                                               const SequenceTable& queue, ActiveRequests& active) {
  runs_.clear();
  for (int i = 0; i < hidden.rows; ++i) {
    if (!undecided_[index(i)]) continue;
    if (runs_.empty() || runs_.back().second < i) runs_.push_back({i, i});
    runs_.back().second = i + 1;
  }
  if (runs_.size() > kMostRuns) runs_ = {{runs_.front().first, runs_.back().second}};
  for (const auto& [begin, end] : runs_) {
    compute_logits(device, hidden.rows_from(begin, end - begin), head_view, vocab, first + begin, queue, active);
    pick_from_logits(device, end - begin, vocab, first, begin, queue, active);
  }
}

template <class DeviceP, class HeadView>
void Picker<DeviceP, HeadView>::compute_logits(DeviceP& device, MatrixView<const float> hidden,
                                               const HeadView& head_view, int vocab, int from,
                                               const SequenceTable& queue, const ActiveRequests& active) {
  const int count = hidden.rows;
  const std::size_t bytes = index(count) * index(vocab) * sizeof(float);
  if (bytes > logits_.bytes()) logits_ = device.allocate(bytes);
  const MatrixView<float> logits{reinterpret_cast<float*>(logits_.data()), count, vocab, vocab};
  head(device, HeadArgs<HeadView>{hidden, head_view, logits});
  if constexpr (ChangesProducts<DeviceP>) {
    head_changes_.clear();
    for (int i = 0; i < count; ++i) {
      const SeqId seq = rows_[index(from + i)].seq;
      const AdapterSet* const adapters = active.has_sequence(seq) ? queue.sequence(seq).adapters.get() : nullptr;
      head_changes_.push_back(adapters ? adapters->head() : nullptr);
    }
    if (std::any_of(head_changes_.begin(), head_changes_.end(), [](const TableChange* change) { return change; }))
      change_logits(device, ChangeLogitsArgs{hidden, head_changes_.data(), logits});
  }
  if (finishes_logits()) finish_logits(device, FinishLogitsArgs{logits, head_bias_, soft_cap_});
}

template <class DeviceP, class HeadView>
void Picker<DeviceP, HeadView>::pick_from_logits(DeviceP& device, int count, int vocab, int first, int skip,
                                                 const SequenceTable& queue, ActiveRequests& active) {
  const float* on_host = device.fetch(reinterpret_cast<const float*>(logits_.data()), index(count) * index(vocab));
  const auto values = [&](int i) { return std::span(on_host + index(i) * index(vocab), index(vocab)); };
  for (int i = 0; i < count; ++i) {
    const LogitRow& row = rows_[index(first + skip + i)];
    if (row.gone || row.position >= queue.sequence(row.seq).known()) continue;  // a guess: perhaps not in the text
    active.output(row.seq).score(row.position, prompt_of(queue.sequence(row.seq)), values(i));
  }
  // Pieces of two rows, which are hashed side by side, where each thread has several.
  const int grain = count >= 4 * static_cast<int>(samplers_.size()) ? 2 : 1;
  device.pool().share(count, grain, [&](int begin, int end, int thread) {
    detail::RowDigests digests;
    for (int i = begin; i < end; ++i) {
      const LogitRow& row = rows_[index(first + skip + i)];
      PickOutcome& outcome = outcomes_[index(first + skip + i)];
      if (!row.pick || !undecided_[index(skip + i)] || !outcome.failure.empty()) continue;
      outcome =
          sample(samplers_[index(thread)], row, values(i), mask_of(skip + i, vocab), queue.sequence(row.seq), active);
      if (active.output(row.seq).options().receipt && outcome.pick) digests.add(values(i), outcome.row_digest);
    }
    digests.finish();
  });
}

template <class DeviceP, class HeadView>
SampleInput Picker<DeviceP, HeadView>::input(const LogitRow& row, std::span<const float> logits,
                                             const std::uint32_t* mask, const Sequence& s,
                                             const ActiveRequests& active) {
  return {.logits = logits,
          .prompt = prompt_of(s),
          .generated = std::span(s.tokens).subspan(index(s.prompt_tokens), index(row.position + 1 - s.prompt_tokens)),
          .options = active.output(row.seq).options(),
          .position = row.position + 1,
          .mask = mask,
          .processor = &active.output(row.seq).processor()};
}

template <class DeviceP, class HeadView>
PickOutcome Picker<DeviceP, HeadView>::sample(Sampler& sampler, const LogitRow& row, std::span<const float> logits,
                                              const std::uint32_t* mask, const Sequence& s,
                                              const ActiveRequests& active) {
  PickOutcome out;
  const auto failure = detail::attempt([&] {
    const SampleInput in = input(row, logits, mask, s, active);
    out.pick = sampler.sample(in);
    if (in.options.logits_hash) out.row_hash = hash64(std::as_bytes(logits));
  });
  if (failure) out = failed(*failure);
  return out;
}

}  // namespace tenon
