// Keys, values and attention have the CPU's bits: in every cache element and both attentions, with windows, slopes, shared
// heads and odd sizes, whatever the pieces in which a text comes.
#define BOOST_TEST_MODULE tenon ops cuda attention
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <tuple>

#include "problem.h"
#include "tenon/model/decoder.h"

using namespace tenon;
using namespace tenon::test;

BOOST_TEST_GLOBAL_FIXTURE(NeedsCuda);

namespace {

struct Shapes {
  int heads, kv_heads, head_dim, window;
  bool sloped;
};

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
      if (!store_.ledger().grow(r.seq, r.rows)) throw std::runtime_error("no room");
    }
    const auto view = store_.view(device_, batch.sequences);
    const BatchView there = on_device(device_, batch.view());
    using View = typename P::View;
    store_kv(device_, StoreKvArgs<View>{there, k, v, view, 1, s_.kv_heads, s_.head_dim});
    attention(device_, Attend{}, AttentionArgs<View>{there, q, view, 1, s_.heads, s_.kv_heads, s_.head_dim,
                                                     1.0f / std::sqrt(static_cast<float>(s_.head_dim)), out, s_.window,
                                                     s_.sloped ? slopes : nullptr});
  }

 private:
  static KvShape shape(const Shapes& s, int positions) {
    return {.layers = 2, .heads = s.kv_heads, .head_dim = s.head_dim, .positions = positions};
  }
  D& device_;
  Shapes s_;
  CacheStore<P, D> store_;
};

// steps: rows of each of three texts, by step
template <class P, class Attend>
void check(const Shapes& s, const std::vector<std::vector<int>>& steps, int positions) {
  Cpu cpu = reference_cpu();
  Cuda cuda;
  Side<Cpu, P, Attend> here(cpu, s, positions, 3);
  Side<Cuda, P, Attend> there(cuda, s, positions, 3);
  std::vector<float> slopes;
  for (int h = 0; h < s.heads; ++h) slopes.push_back(std::exp2(-static_cast<float>(h + 1)));
  const OnDevice<float> device_slopes(cuda, slopes);
  std::vector<int> known(3, 0);
  std::uint64_t seed = 1;
  for (const auto& rows_of : steps) {
    Batch batch;
    int rows = 0;
    for (int i = 0; i < 3; ++i) {
      const int n = rows_of[static_cast<std::size_t>(i)];
      batch.sequences.push_back({static_cast<SeqId>(i), rows, n, known[static_cast<std::size_t>(i)], i});
      for (int r = 0; r < n; ++r) {
        batch.tokens.push_back(0);
        batch.positions.push_back(known[static_cast<std::size_t>(i)] + r);
      }
      known[static_cast<std::size_t>(i)] += n;
      rows += n;
    }
    const Matrix q = random_matrix(rows, s.heads * s.head_dim, ++seed, 0, 4.0f);
    const Matrix k = random_matrix(rows, s.kv_heads * s.head_dim, ++seed), v = random_matrix(rows, s.kv_heads * s.head_dim, ++seed);
    Matrix out(rows, s.heads * s.head_dim, s.heads * s.head_dim + 3);
    const DeviceMatrix device_q(cuda, q), device_k(cuda, k), device_v(cuda, v), device_out(cuda, out);
    here.run(batch, q.view(), k.view(), v.view(), slopes.data(), out.view());
    there.run(batch, device_q.view(), device_k.view(), device_v.view(), device_slopes.data(), device_out.view());
    BOOST_TEST_REQUIRE((device_out == out), s.heads << " heads on " << s.kv_heads << " of " << s.head_dim << ", window " << s.window);
  }
}

// Heads on as many, on fewer, and on fewer than a job's queries; heads so wide that a job has fewer.
constexpr Shapes kShapes[] = {{12, 12, 64, 0, false}, {8, 2, 80, 0, false},  {4, 1, 128, 100, false},
                              {3, 3, 7, 0, true},     {12, 1, 32, 0, false}, {2, 2, 256, 0, false}};
// Prompts of three lengths, then chunks and single tokens side by side.
const std::vector<std::vector<int>> kSteps = {{300, 17, 64}, {1, 1, 1}, {70, 1, 256}, {1, 240, 1}, {1, 1, 1}};

}  // namespace

using Caches = std::tuple<PagedKV, PagedKVOf<32, bfloat16>, PagedKVOf<64, std::int8_t>>;

BOOST_AUTO_TEST_CASE_TEMPLATE(flash, P, Caches) {
  for (const Shapes& s : kShapes) check<P, FlashAttention>(s, kSteps, 600);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(direct, P, Caches) {
  for (const Shapes& s : kShapes) check<P, DirectAttention>(s, kSteps, 600);
}

// More splits than a block walks beside one another, with a window and without.
BOOST_AUTO_TEST_CASE(long_texts) {
  const std::vector<std::vector<int>> steps = {{2'400, 5, 3}, {1, 1, 1}, {160, 1, 1}, {1, 1, 1}};
  check<PagedKV, FlashAttention>({2, 1, 16, 0, false}, steps, 2'600);
  check<PagedKV, FlashAttention>({2, 1, 16, 2'100, true}, steps, 2'600);
}
