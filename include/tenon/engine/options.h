// What an engine takes at run time.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tenon/adapter/options.h"
#include "tenon/cache/store.h"
#include "tenon/core/request.h"
#include "tenon/engine/step_report.h"
#include "tenon/model/config.h"

namespace tenon {

struct EngineOptions {
  int token_budget = 512;       // rows of a step, and so the longest chunk of a prompt
  int batch = 32;               // sequences that the default cache has room for
  int cache_tokens = 0;         // of all sequences; 0: batch x what a longest one fills, at most what 2 GiB holds
  std::size_t cache_bytes = 0;  // in place of cache_tokens: as many as so many bytes hold
  int positions = 0;     // the longest sequence; 0: what the model's files say. More only where positions are computed
  int threads = 0;       // 0: all cores
  int device_index = 0;  // of several GPUs, as CUDA counts them
  AdapterOptions adapters = {};
  std::vector<AdapterUse> merged = {};  // adapters that go into the weights, for engines that do that
  bool prefix_reuse = true;  // prompts may begin with what others left in the cache; the answers are the same
  bool run_ahead =
      true;  // a step may be launched before the tokens of the one before are known here, where the device picks them
  StepObserver on_step = {};
};

// Refuses what no engine could be made of, naming the field.
EngineOptions checked(const EngineOptions& o);

// The model with sequences as long as asked for; 0: as long as its files say. Positions that were learned have an end.
ModelConfig with_positions(ModelConfig config, int positions, bool learned);

// Tokens that one sequence, as long as the model allows, fills of the cache at once.
template <CachePolicy P>
int sequence_tokens(const KvShape& shape) {
  if constexpr (requires { P::sequence_tokens(shape); })
    return P::sequence_tokens(shape);
  else
    return shape.positions;
}

// Tokens of cache for all sequences together: never less than one that is as long as the model allows, unless few were
// asked for.
template <CachePolicy P>
int cache_tokens_for(const EngineOptions& o, const ModelConfig& config) {
  if (o.cache_tokens > 0) return o.cache_tokens;
  if (o.cache_bytes > 0) return tokens_within<P>(config.kv(), o.cache_bytes);
  const std::int64_t each = sequence_tokens<P>(config.kv()), wanted = o.batch * each;
  const std::int64_t fits = tokens_within<P>(config.kv(), std::size_t{2} << 30);
  return static_cast<int>(std::max(std::min(wanted, fits), each));
}

// The cache of an engine. Error capacity, with what would make it smaller, where there is no memory for it.
template <CachePolicy P, DevicePolicy D>
CacheStore<P, D> make_cache(D& device, const EngineOptions& o, const ModelConfig& config) {
  const int tokens = cache_tokens_for<P>(o, config);
  try {
    return CacheStore<P, D>(device, config.kv(), tokens);
  } catch (const Error& error) {
    throw Error(error.kind(), "cache",
                std::to_string(tokens) + " tokens of a model with " + std::to_string(config.positions) +
                    " positions: " + error.what() +
                    "; ask for less by cache_tokens (--cache-tokens) or positions (--positions)");
  }
}

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/engine/options-inl.h"
#endif
