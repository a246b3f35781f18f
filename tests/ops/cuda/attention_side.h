// Shared by the tests of attention on a GPU: a cache on either device, and shapes of heads.
#pragma once
#include <cmath>
#include <stdexcept>

#include "problem.h"
#include "tenon/model/device_batch.h"

namespace tenon::test {

struct Shapes {
  int heads, kv_heads, head_dim, window;
  bool sloped;
  bool biased = false, sunk = false;  ///< biases of keys; sinks, which are the slopes
};

inline constexpr int kBiases = 2624;  // positions of a head's biases

// The slopes of all heads, then the biases of keys, [heads, kBiases].
inline std::vector<float> slopes_of(const Shapes& s) {
  std::vector<float> slopes;
  for (int h = 0; h < s.heads; ++h) slopes.push_back(std::exp2(-static_cast<float>(h + 1)));
  for (int i = 0; s.biased && i < s.heads * kBiases; ++i) slopes.push_back(static_cast<float>(i % 37) * 0.1f);
  return slopes;
}

template <class D, class P, class Attend>
class Side {
 public:
  Side(D& device, const Shapes& s, int positions, int sequences)
      : device_(device), s_(s), store_(device, shape(s, positions), positions * sequences) {}

  // q, k, v: of the rows of the batch.
  void run(const Batch& batch, MatrixView<const float> q, MatrixView<const float> k, MatrixView<const float> v,
           const float* slopes, MatrixView<float> out) {
    device_.begin_step();
    for (const SequenceRows& r : batch.sequences) {
      if constexpr (TrimsSequences<typename P::Ledger>) store_.ledger().trim(r.seq, r.start - s_.window + 1);
      if (!store_.ledger().grow(r.seq, r.rows)) throw std::runtime_error("no room");
    }
    const auto view = store_.view(device_, batch.sequences);
    const BatchView there = on_device(device_, batch.view(), tile_rows<D, Attend>(s_.heads / s_.kv_heads));
    using View = typename P::View;
    store_kv(device_, StoreKvArgs<View>{there, k, v, view, 1, s_.kv_heads, s_.head_dim});
    attend(there, view, q, slopes, out);
  }
  // Attention of rows whose keys and values are stored.
  template <class Out>
  void run_again(const Batch& batch, MatrixView<const float> q, const float* slopes, Out out) {
    device_.begin_step();
    const auto view = store_.view(device_, batch.sequences);
    attend(on_device(device_, batch.view(), tile_rows<D, Attend>(s_.heads / s_.kv_heads)), view, q, slopes, out);
  }

  void forget(SeqId seq) { store_.ledger().release(seq); }

 private:
  template <class Out>
  void attend(const BatchView& there, const typename P::View& view, MatrixView<const float> q, const float* slopes,
              Out out) {
    attention(device_, Attend{},
              AttentionArgs<typename P::View, Out>{
                  there, q, view, 1, s_.heads, s_.kv_heads, s_.head_dim,
                  1.0f / std::sqrt(static_cast<float>(s_.head_dim)), out, s_.window, s_.sloped ? slopes : nullptr, 0,
                  s_.biased ? slopes + s_.heads : nullptr, kBiases, s_.sunk ? slopes : nullptr});
  }
  static KvShape shape(const Shapes& s, int positions) {
    return {.layers = 2, .heads = s.kv_heads, .head_dim = s.head_dim, .positions = positions, .window = s.window};
  }
  D& device_;
  Shapes s_;
  CacheStore<P, D> store_;
};

// The next rows of each text; some texts have none.
inline Batch batch_of(const std::vector<int>& rows, std::vector<int>& known) {
  Batch batch;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] == 0) continue;
    batch.sequences.push_back({static_cast<SeqId>(i), static_cast<int>(batch.tokens.size()), rows[i], known[i],
                               static_cast<int>(batch.sequences.size())});
    for (int r = 0; r < rows[i]; ++r) {
      batch.tokens.push_back(0);
      batch.positions.push_back(known[i]++);
    }
  }
  return batch;
}

// As many key/value heads as heads, fewer, and fewer than a job's queries; and heads so wide that a job has fewer
// queries.
inline constexpr Shapes kShapes[] = {{12, 12, 64, 0, false}, {8, 2, 80, 0, false},  {4, 1, 128, 100, false},
                                     {3, 3, 7, 0, true},     {12, 1, 32, 0, false}, {2, 2, 256, 0, false},
                                     {20, 1, 32, 0, false}};
}  // namespace tenon::test
