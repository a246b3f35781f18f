#pragma once
#include <cmath>
#include <limits>

#include "tenon/core/request.h"
#include "tenon/core/require.h"

namespace tenon {

TENON_INLINE const char* to_string(FinishReason reason) {
  switch (reason) {
    case FinishReason::length:
      return "length";
    case FinishReason::stop:
      return "stop";
    case FinishReason::cancelled:
      return "cancelled";
    case FinishReason::deadline:
      return "deadline";
    case FinishReason::error:
      return "error";
    case FinishReason::moved:
      return "moved";
  }
  return "error";
}

}  // namespace tenon

namespace tenon::detail {

TENON_INLINE void require(bool holds, const char* field, const char* needed) {
  if (!holds) throw Error(Error::Kind::invalid_request, field, needed);
}

}  // namespace tenon::detail

namespace tenon {

TENON_INLINE void validate(const Options& o) {
  using detail::require;
  require(o.max_new_tokens >= 0, "max_new_tokens", "must be 0 or more");
  require(o.min_new_tokens >= 0 && o.min_new_tokens <= o.max_new_tokens, "min_new_tokens",
          "must lie in 0..max_new_tokens");
  require(std::isfinite(o.temperature) && o.temperature >= 0, "temperature", "must be a finite number, 0 or more");
  require(o.top_k >= 0, "top_k", "must be 0 (all) or more");
  require(o.top_p > 0 && o.top_p <= 1, "top_p", "must be above 0 and at most 1");
  require(o.min_p >= 0 && o.min_p <= 1, "min_p", "must lie in 0..1");
  require(o.typical_p > 0 && o.typical_p <= 1, "typical_p", "must be above 0 and at most 1");
  require(std::isfinite(o.repetition_penalty) && o.repetition_penalty > 0, "repetition_penalty",
          "must be a finite number above 0");
  require(std::isfinite(o.presence_penalty), "presence_penalty", "must be a finite number");
  require(std::isfinite(o.frequency_penalty), "frequency_penalty", "must be a finite number");
  for (const auto& bias : o.logit_bias) {
    require(!std::isnan(bias.second), "logit_bias", "must not be NaN");
    require(!o.receipt || std::isfinite(bias.second), "logit_bias", "must be finite beside receipt");
  }
  for (const auto& stop : o.stop) require(!stop.empty(), "stop", "must not hold an empty string");
  require(o.top_logprobs >= -1, "top_logprobs", "must be 0 or more (or -1: none)");
  require(o.prompt_logprobs >= -1, "prompt_logprobs", "must be 0 or more (or -1: none)");
  require(o.ordinal <= std::numeric_limits<int>::max() - kMostChoices, "ordinal", "must be at most 2147483519");
  require(o.n >= 1 && o.n <= kMostChoices, "n", "must lie in 1..128");
  if (o.pooling != Pooling::none) {
    require(o.max_new_tokens == 0, "max_new_tokens", "must be 0 for an embedding or a classification");
    require(o.n == 1 && o.best_of <= 1, "n", "must be 1 for an embedding or a classification");
    require(!o.receipt, "receipt", "is for generated text, not for an embedding or a classification");
    require(o.logits_at.empty() && !o.nll && o.prompt_logprobs < 0, "logits_at",
            "and other scores of the prompt cannot be combined with an embedding or a classification");
  }
  require(o.best_of == 0 || (o.best_of >= o.n && o.best_of <= kMostChoices), "best_of",
          "must be 0 (n) or lie in n..128");
}

}  // namespace tenon
