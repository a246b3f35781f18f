// Engines on an NVIDIA GPU with weights of 8 bits or fewer.
#include "engine_cuda.h"

namespace program {

std::vector<MenuEntry> cuda_integer_engines() {
  using namespace tenon;
  return {on_cuda<Float8<E4M3>>(),      on_cuda<Float8<E5M2>>(),
          on_cuda<ZeroPointInt8>(),     on_cuda<ZeroPointInt8Of<PerTensor>>(),
          on_cuda<ZeroPointInt8Act8>(), on_cuda<GroupInt4>(),
          on_cuda<GroupInt4Act8>(),     on_cuda<GroupInt8>(),
          on_cuda<NormalFloat4>()};
}

}  // namespace program
