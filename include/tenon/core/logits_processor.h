// A user's function over a row of logits, before a token is picked from it.
#pragma once
#include <concepts>
#include <functional>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include "tenon/core/views.h"

namespace tenon {

/// f(logits, prompt, generated) changes one row of float32 logits, [vocab], in place. `prompt`, [1..], and `generated`,
/// [0..], are the tokens before the one that is picked next. f must be pure: equal arguments give equal logits,
/// whatever ran before, so that an answer stays the same alone and in any batch.
template <class F>
concept LogitsProcessor = std::copy_constructible<F> &&
    requires(const F& f, std::span<float> logits, std::span<const TokenId> prompt, std::span<const TokenId> generated) {
  { f(logits, prompt, generated) } -> std::same_as<void>;
};

/// Any LogitsProcessor, its type forgotten. Copies share it. Empty: logits stay as they are. One that is made from an
/// empty std::function or a null pointer is empty.
///
/// Order: the raw logits are checked to be finite; the processor; logit_bias; repetition, presence and frequency
/// penalties; the mask of a constraint or of min_new_tokens; temperature; top_k; top_p; min_p; typical_p.
///
/// It may write -inf, which bans a token, and +inf, which counts as the largest float; NaN fails the request.
/// Log-probabilities, best_of, logits_at and logits_hash stay those of the raw logits.
///
/// Each choice of a request (n, best_of) calls it, on threads of the engine's pool, for several rows at once. It must
/// not use the engine that calls it. An exception fails its own request with that text.
class AnyLogitsProcessor {
 public:
  AnyLogitsProcessor() = default;
  template <class F>
  requires(!std::same_as<F, AnyLogitsProcessor>) AnyLogitsProcessor(F f) {
    static_assert(LogitsProcessor<F>,
                  "tenon: this is no logits processor; it needs void operator()(std::span<float> logits, "
                  "std::span<const TokenId> prompt, std::span<const TokenId> generated) const, with that last const; "
                  "see docs/eigen.md");
    if constexpr (LogitsProcessor<F>) {
      if (Call call(std::move(f)); call) call_ = std::make_shared<const Call>(std::move(call));
    }
  }

  explicit operator bool() const { return call_ != nullptr; }
  void operator()(std::span<float> logits, std::span<const TokenId> prompt, std::span<const TokenId> generated) const {
    (*call_)(logits, prompt, generated);
  }

 private:
  using Call = std::function<void(std::span<float>, std::span<const TokenId>, std::span<const TokenId>)>;
  std::shared_ptr<const Call> call_;
};

}  // namespace tenon
