// Engines on an NVIDIA GPU, split into several translation units that nvcc compiles in parallel.
#pragma once
#include "engine_unit.h"
#include "tenon/tenon.cuh"

namespace program {

// By default the paged cache with any element.
template <class WeightP, class CacheP = tenon::AnyElementKV<tenon::PagedOf>, class AttentionP = tenon::FlashAttention>
MenuEntry on_cuda() {
  return menu_entry<WeightP, CacheP, AttentionP, WeightP, tenon::Cuda>();
}

std::vector<MenuEntry> cuda_integer_engines();      // engine_cuda_integers.cu
std::vector<MenuEntry> cuda_tensor_core_engines();  // engine_cuda_tensor_cores.cu

}  // namespace program
