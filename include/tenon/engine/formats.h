// In the compiled face: libtenon holds the code that is compiled for each format of weights.
#pragma once
#include "tenon/core/require.h"

#ifdef TENON_COMPILED
#include "tenon/model/load.h"
#include "tenon/ops/cpu/all.h"
#include "tenon/weights/bfloat16.h"
#include "tenon/weights/bfloat16_amx.h"
#include "tenon/weights/bfloat16_dot.h"
#include "tenon/weights/float16.h"
#include "tenon/weights/float32.h"
#include "tenon/weights/float8.h"
#include "tenon/weights/group_int8.h"
#include "tenon/weights/int4.h"
#include "tenon/weights/int4_act8.h"
#include "tenon/weights/int8.h"
#include "tenon/weights/int8_act8.h"
#include "tenon/weights/int8_exact.h"
#include "tenon/weights/normal_float4.h"

namespace tenon {

#define TENON_HEAD_OPS(H)                                                                            \
  TENON_EXTERN template void embed<H::View>(Cpu&, const EmbedArgs<H::View>&);                        \
  TENON_EXTERN template void change_embeddings<H::View>(Cpu&, const ChangeEmbeddingsArgs<H::View>&); \
  TENON_EXTERN template void head<H::View>(Cpu&, const HeadArgs<H::View>&);                          \
  TENON_EXTERN template void head_best<H::View>(Cpu&, const HeadBestArgs<H::View>&);
#define TENON_FORMAT(F)                                                                                          \
  TENON_EXTERN template class DecoderWeights<F, F, Cpu>;                                                         \
  TENON_EXTERN template void mixture<F::View>(Cpu&, const MixtureArgs<F::View>&);                                \
  TENON_EXTERN template void linear<F::View>(Cpu&, const LinearArgs<F::View>&);                                  \
  TENON_EXTERN template void linear<Cpu, F::View>(Cpu&, const LinearArgs<F::View>&, const LowRankArgs& updates); \
  TENON_HEAD_OPS(F)
#define TENON_HEAD(F, H)                                 \
  TENON_EXTERN template class DecoderWeights<F, H, Cpu>; \
  TENON_HEAD_OPS(H)

#ifndef TENON_EXTERN  // src/formats.cpp defines it as nothing
#define TENON_EXTERN extern
#endif
#include "tenon/engine/formats.inc"
#undef TENON_EXTERN
#undef TENON_HEAD
#undef TENON_FORMAT
#undef TENON_HEAD_OPS

}  // namespace tenon
#endif
