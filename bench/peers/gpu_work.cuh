// The models of bench/compare --gpu, and the copy rate of the device.
#pragma once
#include <tenon/tenon.cuh>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include "engine_work.h"

namespace bench {

// Names of models with random weights in the shapes of a published model.
inline constexpr std::string_view kRandom = "random", kRandomLlama = "random-llama-1b";

// Opens a model: "random" has the shapes of GPT-2 124M, "random-llama-1b" those of Llama 3.2 1B. Any other name is a
// folder.
inline ModelFiles checkpoint(const std::string& where) {
  if (where == kRandom) return random_checkpoint(Gpt2::small(), 1234);
  if (where == kRandomLlama) return random_checkpoint(Llama::one_billion(), 1234);
  return load_checkpoint(where);
}

// The device's copy rate in GB/s, bytes read plus bytes written, in memory larger than its caches.
class CopyRate {
 public:
  CopyRate() : from_(device_.allocate(kBytes)), to_(device_.allocate(kBytes)) {}
  double measure() {
    double best = 0;
    for (int i = 0; i < 5; ++i) {
      device_.synchronize();
      const double seconds = seconds_of([&] {
        tenon::cuda::check(
            cudaMemcpyAsync(to_.data(), from_.data(), kBytes, cudaMemcpyDeviceToDevice, device_.stream()), "copy");
        device_.synchronize();
      });
      best = std::max(best, 2e-9 * kBytes / seconds);
    }
    return best;
  }

 private:
  static constexpr std::size_t kBytes = std::size_t{1} << 30;
  Cuda device_;
  Cuda::Memory from_, to_;
};

}  // namespace bench
