// In the compiled face: libtenon holds parts of engines on the CPU, for the library's own policies. A user's engine
// then compiles faster.
#pragma once
#include "tenon/core/require.h"

#ifdef TENON_COMPILED
#include "tenon/cache/any_cache.h"
#include "tenon/cache/contiguous.h"
#include "tenon/cache/store.h"
#include "tenon/engine/formats.h"
#include "tenon/engine/picker.h"
#include "tenon/engine/run_ahead.h"
#include "tenon/model/base_weights.h"
#include "tenon/model/decoder.h"

namespace tenon {

#ifndef TENON_PARTS  // src/instances.cpp defines it as nothing
#define TENON_PARTS extern
#endif
#ifndef TENON_FORWARDS  // src/forward.cpp defines it as nothing
#define TENON_FORWARDS extern
#endif

// For each weight format and head: the picker, the steps in flight, and the forward passes with three caches.
#define TENON_FORWARD(F, H, Attend, Cache)                                                                   \
  TENON_FORWARDS template MatrixView<const float> detail::run_decoder<true>(                                 \
      Cpu&, const ModelConfig&, const BatchView&, const DecoderViews<F::View, H::View>&, const Cache::View&, \
      const RowGrouper&, const Attend&, DecoderState<Cpu, F::View>&);
#define TENON_HEAD(F, H)                                                                                   \
  TENON_PARTS template class Picker<Cpu, H::View>;                                                         \
  TENON_PARTS template class RunAhead<Cpu, H::View>;                                                       \
  TENON_PARTS template BaseWeights base_weights<Cpu>(const DecoderParts<F::View, H::View, const float*>&); \
  TENON_FORWARD(F, H, FlashAttention, PagedKV)                                                             \
  TENON_FORWARD(F, H, FlashAttention, ContiguousKV)                                                        \
  TENON_FORWARD(F, H, AnyAttention, AnyKV)
#define TENON_FORMAT(F)                                   \
  TENON_PARTS template struct DecoderState<Cpu, F::View>; \
  TENON_HEAD(F, F)
#include "tenon/engine/formats.inc"
#undef TENON_HEAD
#undef TENON_FORMAT
#undef TENON_FORWARD

// The parts for caches.
TENON_PARTS template class BlockLedger<16>;
TENON_PARTS template class CacheStore<PagedKV, Cpu>;
TENON_PARTS template class CacheStore<AnyKV, Cpu>;
TENON_PARTS template void store_kv<PagedKV::View>(Cpu&, const StoreKvArgs<PagedKV::View>&);
TENON_PARTS template void store_kv(Cpu&, const StoreKvArgs<AnyKV::View>&);
TENON_PARTS template void attention<PagedKV::View>(Cpu&, FlashAttention, const AttentionArgs<PagedKV::View>&);
TENON_PARTS template void attention(Cpu&, AnyAttention, const AttentionArgs<AnyKV::View>&);

// The parts for adapters.
TENON_PARTS template class LowRankUpdates<Cpu>;
#undef TENON_PARTS
#undef TENON_FORWARDS

}  // namespace tenon
#endif
