// Options of an engine.
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

/// Run-time options of an engine. Every default is a working value.
struct EngineOptions {
  int token_budget = 512;  ///< most rows of a step, and so the longest chunk of a prompt
  int batch = 32;          ///< sequences of full length that the default cache holds
  /// Tokens in the cache, of all sequences. 0: batch x the longest sequence, at most what 2 GiB holds, but at least one
  /// sequence.
  int cache_tokens = 0;
  std::size_t cache_bytes = 0;  ///< size of the cache in bytes, used if cache_tokens is 0
  /// Element of keys and values for a cache that chooses it at run time (AnyElementKV, AnyKV). Other caches have the
  /// element of their type, and refuse another one.
  KvType cache_element = KvType::float32;
  CacheKind cache_kind = CacheKind::paged16;  ///< the cache of an engine with AnyKV; others refuse another value
  /// Longest sequence; 0: what the model's files say. You can raise it only if positions are computed (rotary, ALiBi).
  int positions = 0;
  int threads = 0;                      ///< threads that compute, the caller's included; 0: all cores
  int device_index = 0;                 ///< which GPU, as CUDA counts them
  AdapterOptions adapters = {};         ///< limits of the adapters on the device, and where their folders are
  std::vector<AdapterUse> merged = {};  ///< adapters that `Adapter<MergedLoRA>` adds to the weights at load
  bool prefix_reuse = true;             ///< prompts may start with a cached prefix; the answers are the same
  /// Devices that sample on their own get the next step launched before this step's tokens reach the host.
  bool run_ahead = true;
  /// Most tokens guessed for one sequence in one step, by Draft<P> or a constraint. 0: no guesses, and
  /// Request::prediction is not used. Devices that sample on their own verify no guesses.
  int draft_tokens = 16;
  /// Guesses are verified if they should raise the tokens a second by at least this factor. The engine estimates it
  /// from measured step times. 0: all are verified.
  double draft_gain = 1.02;
  StepObserver on_step = {};  ///< called after each step with its rows; empty: costs nothing
};

/// Returns `o`. Error invalid_request, with the field's name, where no engine could be made with it.
EngineOptions checked(const EngineOptions& o);

/// The configuration with sequences of `positions`; 0: as it is. Error invalid_request where the model has learned
/// fewer.
ModelConfig with_positions(ModelConfig config, int positions);

/// Tokens of cache that the longest sequence of a model fills at once.
template <CachePolicy P>
int sequence_tokens(const KvShape& shape) {
  if constexpr (BoundsSequences<P>)
    return P::sequence_tokens(shape);
  else
    return shape.positions;
}

/// The sizes of an engine's cache. Error invalid_request where the options ask for another element, or another kind of
/// cache, than the type has.
template <CachePolicy P>
KvShape kv_shape(const EngineOptions& o, const ModelConfig& config) {
  if (!ChoosesElement<typename P::View> && o.cache_element != KvType::float32) {
    throw Error(
        Error::Kind::invalid_request, "cache_element",
        "is for a cache that chooses its element at run time, AnyKV or AnyElementKV<PagedOf>; this engine's cache "
        "has the element of its type");
  }
  if (!ChoosesCache<P> && o.cache_kind != CacheKind::paged16) {
    throw Error(Error::Kind::invalid_request, "cache_kind",
                "is for a cache that is chosen at run time, AnyKV; this engine's cache is that of its type");
  }
  KvShape shape = config.kv();
  shape.element = o.cache_element;
  shape.kind = o.cache_kind;
  return shape;
}

/// Tokens of cache for all sequences together. By default at least the longest sequence of the model.
template <CachePolicy P>
int cache_tokens_for(const EngineOptions& o, const KvShape& shape) {
  if (o.cache_tokens > 0) return o.cache_tokens;
  if (o.cache_bytes > 0) return tokens_within<P>(shape, o.cache_bytes);
  const std::int64_t each = sequence_tokens<P>(shape), wanted = o.batch * each;
  const std::int64_t fits = tokens_within<P>(shape, std::size_t{2} << 30);
  return static_cast<int>(std::max(std::min(wanted, fits), each));
}

/// The cache of an engine. Error capacity, which names the options that make it smaller, where memory is missing.
template <CachePolicy P, DevicePolicy D>
CacheStore<P, D> make_cache(D& device, const EngineOptions& o, const ModelConfig& config) {
  const KvShape shape = kv_shape<P>(o, config);
  const int tokens = cache_tokens_for<P>(o, shape);
  try {
    return CacheStore<P, D>(device, shape, tokens);
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
