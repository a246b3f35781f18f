#pragma once
#include "tenon/core/require.h"
#include "tenon/engine/options.h"

namespace tenon {

TENON_INLINE EngineOptions checked(const EngineOptions& o) {
  detail::require(o.token_budget >= 1, "token_budget", "must be 1 or more");
  detail::require(o.batch >= 1, "batch", "must be 1 or more");
  detail::require(o.cache_tokens >= 0, "cache_tokens", "must be 0 (default) or more");
  detail::require(o.cache_tokens == 0 || o.cache_bytes == 0, "cache_bytes",
                  "given beside cache_tokens; keep one of them");
  detail::require(o.positions >= 0, "positions", "must be 0 (the model's own) or more");
  detail::require(o.threads >= 0, "threads", "must be 0 (all cores) or more");
  detail::require(o.device_index >= 0, "device_index", "must be 0 or more");
  detail::require(o.draft_tokens >= 0, "draft_tokens", "must be 0 (none) or more");
  detail::require(o.draft_gain >= 0, "draft_gain", "must be 0 (verify every guess) or more");
  return o;
}

TENON_INLINE ModelConfig with_positions(ModelConfig config, int positions) {
  if (config.position_kind == PositionKind::learned && positions > config.positions) {
    throw Error(Error::Kind::invalid_request, "positions",
                "must be at most " + std::to_string(config.positions) + ": the model has learned no others");
  }
  if (config.most_positions > 0 && positions > config.most_positions) {
    throw Error(Error::Kind::unsupported, "positions",
                "must be at most " + std::to_string(config.most_positions) + ", the sliding_window of config.json");
  }
  if (positions > 0) config.positions = positions;
  return config;
}

}  // namespace tenon
