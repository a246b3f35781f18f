// Engines on an NVIDIA GPU whose products are made by tensor cores: numeric classes of their own, which no CPU has.
#include "engine_cuda.h"
#include "tenon/weights/bfloat16_mma.h"
#include "tenon/weights/float16_mma.h"

namespace program {

std::vector<MenuEntry> cuda_tensor_core_engines() {
  using namespace tenon;
  return {on_cuda<BFloat16Mma, PagedKV>(), on_cuda<BFloat16Mma, PagedKVOf<16, bfloat16>, FlashMma>(),
          on_cuda<Float16Mma, PagedKV>(), on_cuda<Float16Mma, PagedKVOf<16, float16>, FlashMma>()};
}

}  // namespace program
