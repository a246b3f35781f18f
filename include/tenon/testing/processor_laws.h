// The laws of LogitsProcessor: a pure function of a row of logits and the tokens before it.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <exception>
#include <future>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "tenon/core/logits_processor.h"
#include "tenon/testing/random.h"

namespace tenon::testing {

namespace detail {

// The arguments of one call, with guards on both sides of the row.
struct ProcessorCall {
  static constexpr std::size_t kGuard = 16;
  static constexpr float kUntouched = -12345.5f;

  std::vector<float> logits;  // [vocab], finite
  std::vector<TokenId> prompt, generated;

  ProcessorCall(Random& random, int vocab) {
    for (int i = 0; i < vocab; ++i) logits.push_back(static_cast<float>(random.between(-8000, 8000)) / 500);
    for (int i = random.between(1, 12); i > 0; --i) prompt.push_back(random.between(0, vocab - 1));
    for (int i = random.between(0, 12); i > 0; --i) generated.push_back(random.between(0, vocab - 1));
    // The first and the last token are where an index is wrong by one.
    prompt.front() = random.between(0, 1) * (vocab - 1);
    if (!generated.empty() && random.between(0, 1) == 0) generated.back() = random.between(0, 1) * (vocab - 1);
  }

  template <class F>
  std::vector<float> run(const F& f) const {
    std::vector<float> row(kGuard, kUntouched);
    row.insert(row.end(), logits.begin(), logits.end());
    row.resize(row.size() + kGuard, kUntouched);
    f(std::span<float>(row).subspan(kGuard, logits.size()), std::span<const TokenId>(prompt),
      std::span<const TokenId>(generated));
    return row;
  }
};

inline void row_laws(const std::vector<float>& row, Violations& broken) {
  const auto begin = row.begin() + ProcessorCall::kGuard, end = row.end() - ProcessorCall::kGuard;
  const auto untouched = [](float x) { return x == ProcessorCall::kUntouched; };
  note(broken, std::all_of(row.begin(), begin, untouched) && std::all_of(end, row.end(), untouched),
       "processor: writes its own row, and nothing beside it");
  note(broken, std::none_of(begin, end, [](float x) { return std::isnan(x); }), "processor: writes no NaN");
  note(broken, std::any_of(begin, end, [](float x) { return x > -std::numeric_limits<float>::infinity(); }),
       "processor: does not ban all tokens");
}

// Runs all calls on each of several threads at once.
template <class F>
bool same_on_threads(const F& f, const std::vector<ProcessorCall>& calls, const std::vector<std::vector<float>>& rows) {
  std::vector<std::future<bool>> threads;
  for (int t = 0; t < 3; ++t) {
    threads.push_back(std::async(std::launch::async, [&] {
      bool same = true;
      for (std::size_t i = 0; i < calls.size(); ++i) same = same_bits(calls[i].run(f), rows[i]) && same;
      return same;
    }));
  }
  bool same = true;
  for (auto& thread : threads) same = thread.get() && same;
  return same;
}

}  // namespace detail

/// Calls a processor with random finite rows of `vocab` logits and random tokens below `vocab`: again, in another
/// order, as a copy, and on several threads at once. Returns the broken laws.
template <class F>
Violations processor_laws(const F& processor, int vocab = 50) {
  static_assert(LogitsProcessor<F>,
                "tenon: processor_laws got a type that is no logits processor; it needs void "
                "operator()(std::span<float> logits, std::span<const TokenId> prompt, std::span<const TokenId> "
                "generated) const, with that last const; see docs/eigen.md");
  Violations broken;
  if constexpr (LogitsProcessor<F>) {
    try {
      Random random(23);
      std::vector<detail::ProcessorCall> calls;
      std::vector<std::vector<float>> rows;
      for (int i = 0; i < 60; ++i) rows.push_back(calls.emplace_back(random, vocab).run(processor));
      for (const auto& row : rows) detail::row_laws(row, broken);
      bool again = true, copies = true;
      for (std::size_t i = calls.size(); i-- > 0;) {
        again = again && detail::same_bits(calls[i].run(processor), rows[i]);
        const F copy(processor);
        copies = copies && detail::same_bits(calls[i].run(copy), rows[i]);
      }
      detail::note(broken, again, "processor: equal arguments give equal logits, whatever was called between");
      detail::note(broken, copies, "processor: copies give equal logits");
      detail::note(broken, detail::same_on_threads(processor, calls, rows),
                   "processor: any thread gets the same logits, several at once");
    } catch (const std::exception& e) {
      broken.push_back(std::string("processor: throws nothing, but threw: ") + e.what());
    }
  }
  return broken;
}

}  // namespace tenon::testing
