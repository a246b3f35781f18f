// In the compiled face: libtenon holds the parts of engines on the CPU that depend on one or two policies, for the
// library's own policies. A user's engine then compiles faster.
#pragma once
#include "tenon/core/require.h"

#ifdef TENON_COMPILED
#include "tenon/adapter/segmented.h"
#include "tenon/adapter/store.h"
#include "tenon/cache/any_cache.h"
#include "tenon/cache/store.h"
#include "tenon/draft/suffix_draft.h"
#include "tenon/engine/drafter.h"
#include "tenon/engine/formats.h"
#include "tenon/engine/open_sequences.h"
#include "tenon/engine/picker.h"
#include "tenon/engine/run_ahead.h"
#include "tenon/model/decoder.h"
#include "tenon/schedule/any_scheduler.h"
#include "tenon/schedule/continuous.h"

namespace tenon {

#ifndef TENON_PARTS  // src/instances.cpp defines it as nothing
#define TENON_PARTS extern
#endif

// The parts for each weight format and head.
#define TENON_PICKS(H)                                    \
  TENON_PARTS template class Picker<Cpu, H::View>;        \
  TENON_PARTS template struct LaunchedStep<Cpu, H::View>; \
  TENON_PARTS template class RunAhead<Cpu, H::View>;
#define TENON_FORMAT(F)                                   \
  TENON_PARTS template struct DecoderState<Cpu, F::View>; \
  TENON_PICKS(F)
#define TENON_HEAD(F, H) TENON_PICKS(H)
#include "tenon/engine/formats.inc"
#undef TENON_HEAD
#undef TENON_FORMAT
#undef TENON_PICKS

// The parts for caches.
TENON_PARTS template class BlockLedger<16>;
TENON_PARTS template class CacheStore<PagedKV, Cpu>;
TENON_PARTS template class CacheStore<AnyKV, Cpu>;
TENON_PARTS template void store_kv<PagedKV::View>(Cpu&, const StoreKvArgs<PagedKV::View>&);
TENON_PARTS template void store_kv(Cpu&, const StoreKvArgs<AnyKV::View>&);
TENON_PARTS template void attention<PagedKV::View>(Cpu&, FlashAttention, const AttentionArgs<PagedKV::View>&);
TENON_PARTS template void attention(Cpu&, AnyAttention, const AttentionArgs<AnyKV::View>&);

// The parts for schedulers, with their ledgers.
#define TENON_QUEUE(P, L)                                                                                              \
  TENON_PARTS template SeqId RequestQueue<P>::add(NewSequence, const L&);                                              \
  TENON_PARTS template const Plan& RequestQueue<P>::plan(L&, int, TimePoint);                                          \
  TENON_PARTS template int RequestQueue<P>::guess(std::size_t, std::span<const TokenId>, L&);                          \
  TENON_PARTS template void RequestQueue<P>::commit(const Plan&, L&);                                                  \
  TENON_PARTS template bool RequestQueue<P>::cancel(SeqId, L&);                                                        \
  TENON_PARTS template bool RequestQueue<P>::hold(SeqId, L&);                                                          \
  TENON_PARTS template void OpenSequences<P, Cpu>::open(RequestId, const PreparedRequest&, const Tokenizer*,           \
                                                        const std::vector<TokenId>&, L&);                              \
  TENON_PARTS template bool OpenSequences<P, Cpu>::append(SeqId, PickOutcome&, bool, const std::vector<TokenId>&, L&); \
  TENON_PARTS template void OpenSequences<P, Cpu>::finish(SeqId, FinishReason, L&, std::string);                       \
  TENON_PARTS template bool OpenSequences<P, Cpu>::fail(SeqId, Error::Kind, std::string, L&);                          \
  TENON_PARTS template std::uint64_t Drafter::extend(SuffixDraft&, RequestQueue<P>&, const Plan&, L&, ActiveRequests&, \
                                                     const DraftSettings&);
TENON_PARTS template class OpenSequences<ContinuousPolicy, Cpu>;
TENON_PARTS template class OpenSequences<AnyScheduler, Cpu>;
TENON_QUEUE(ContinuousPolicy, BlockLedger<16>)
TENON_QUEUE(AnyScheduler, BlockLedger<16>)
TENON_QUEUE(AnyScheduler, AnyLedger)
#undef TENON_QUEUE
TENON_PARTS template void Drafter::offer(SuffixDraft&, std::size_t, const Sequence&, SequenceOutput&, int,
                                         const DraftSettings&);

// The parts for adapters.
TENON_PARTS template class AdapterStore<Cpu>;
TENON_PARTS template class LowRankUpdates<Cpu>;

// The forward pass of the default policies.
TENON_PARTS template MatrixView<const float> forward(Cpu&, const ModelConfig&, const BatchView&,
                                                     const DecoderViews<Float32::View, Float32::View>&,
                                                     const PagedKV::View&, const SegmentedLoRA&, const FlashAttention&,
                                                     DecoderState<Cpu, Float32::View>&);
#undef TENON_PARTS

}  // namespace tenon
#endif
