// GPT-2 on an NVIDIA GPU: every format of weights, in the paged cache.
#include "engine_unit.h"
#include "tenon/tenon.cuh"

namespace program {

namespace {

template <class WeightP, class CacheP, class AttentionP>
MenuEntry entry() {
  return menu_entry<tenon::Gpt2, WeightP, CacheP, AttentionP, WeightP, tenon::Cuda>();
}

}  // namespace

std::vector<MenuEntry> cuda_engines() {
  using namespace tenon;
  return {entry<Float32, PagedKV, FlashAttention>(),
          entry<Float32, PagedKV, DirectAttention>(),
          entry<Float32, PagedKVOf<16, bfloat16>, FlashAttention>(),
          entry<Float32, PagedKVOf<16, std::int8_t>, FlashAttention>(),
          entry<BFloat16, PagedKV, FlashAttention>(),
          entry<BFloat16, PagedKVOf<16, bfloat16>, FlashAttention>(),
          entry<Float16, PagedKV, FlashAttention>(),
          entry<Float8<E4M3>, PagedKV, FlashAttention>(),
          entry<Float8<E5M2>, PagedKV, FlashAttention>(),
          entry<ZeroPointInt8, PagedKV, FlashAttention>(),
          entry<ZeroPointInt8Of<PerTensor>, PagedKV, FlashAttention>(),
          entry<ZeroPointInt8Act8, PagedKV, FlashAttention>(),
          entry<GroupInt4, PagedKV, FlashAttention>(),
          entry<GroupInt4Act8, PagedKV, FlashAttention>(),
          entry<BFloat16Dot, PagedKV, FlashAttention>()};
}

}  // namespace program
