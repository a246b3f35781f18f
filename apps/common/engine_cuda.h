// Engines on an NVIDIA GPU, split into several translation units that nvcc compiles in parallel.
#pragma once
#include "engine_unit.h"
#include "tenon/tenon.cuh"

namespace program {

template <class WeightP, class CacheP = tenon::PagedKV, class AttentionP = tenon::FlashAttention>
MenuEntry on_cuda() {
  return menu_entry<WeightP, CacheP, AttentionP, WeightP, tenon::Cuda>();
}

std::vector<MenuEntry> cuda_integer_engines();  // engine_cuda_integers.cu

}  // namespace program
