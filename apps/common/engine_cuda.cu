// Engines on an NVIDIA GPU: every weight format, with the paged cache.
#include "engine_cuda.h"

namespace program {

std::vector<MenuEntry> cuda_engines() {
  using namespace tenon;
  std::vector<MenuEntry> all = {on_cuda<Float32>(),
                                on_cuda<Float32, PagedKV, DirectAttention>(),
                                on_cuda<Float32, PagedKVOf<16, bfloat16>>(),
                                on_cuda<Float32, PagedKVOf<16, std::int8_t>>(),
                                on_cuda<BFloat16>(),
                                on_cuda<BFloat16, PagedKVOf<16, bfloat16>>(),
                                on_cuda<BFloat16Dot>(),
                                on_cuda<Float16>()};
  const std::vector<MenuEntry> integers = cuda_integer_engines();
  all.insert(all.end(), integers.begin(), integers.end());
  return all;
}

}  // namespace program
