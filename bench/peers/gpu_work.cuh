// The model of bench/compare --gpu, and what the device can do.
#pragma once
#include <tenon/tenon.cuh>

#include <algorithm>
#include <cstddef>
#include <string>

#include "engine_work.h"

namespace bench {

inline ModelConfig gpt2_small() {
  ModelConfig c;
  c.model_type = "gpt2";
  c.vocab = 50257;
  c.positions = 1024;
  c.hidden = 768;
  c.layers = 12;
  c.heads = c.kv_heads = 12;
  c.head_dim = 64;
  c.inner = 3072;
  c.activation = Activation::gelu_new;
  c.tied_head = true;
  return c;
}

// That of a folder, or GPT-2 124M with random weights.
inline ModelFiles checkpoint(const std::string& where) {
  return where == "random" ? random_checkpoint(gpt2_small(), 1234) : load_checkpoint(where);
}

// Bytes a second that the device copies, read and written, of memory that no cache holds.
class CopyRate {
 public:
  CopyRate() : from_(device_.allocate(kBytes)), to_(device_.allocate(kBytes)) {}
  double measure() {
    double best = 0;
    for (int i = 0; i < 5; ++i) {
      device_.synchronize();
      const double seconds = seconds_of([&] {
        tenon::cuda::check(cudaMemcpyAsync(to_.data(), from_.data(), kBytes, cudaMemcpyDeviceToDevice, device_.stream()), "copy");
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
