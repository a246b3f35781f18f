// Engines on an NVIDIA GPU, with the paged cache: weights in floats of 16 and 32 bits.
#include "engine_cuda.h"

namespace program {

std::vector<MenuEntry> cuda_engines() {
  using namespace tenon;
  std::vector<MenuEntry> all = {on_cuda<Float32>(), on_cuda<Float32, PagedKV, DirectAttention>(), on_cuda<BFloat16>(),
                                on_cuda<BFloat16Dot>(), on_cuda<Float16>()};
  for (const auto& more : {cuda_integer_engines(), cuda_tensor_core_engines()})
    all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace program
