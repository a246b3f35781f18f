// Keys, values and attention have the CPU's bits, with every cache element and both attentions, windows, slopes, shared
// heads and odd sizes, in whatever pieces a text comes.
#define BOOST_TEST_MODULE tenon ops cuda attention
#include <boost/test/unit_test.hpp>

#include <tuple>

#include "attention_side.h"

using namespace tenon;
using namespace tenon::test;

BOOST_TEST_GLOBAL_FIXTURE(NeedsCuda);

namespace {

// steps: rows of each of three texts, per step
template <class P, class Attend>
void check(const Shapes& s, const std::vector<std::vector<int>>& steps, int positions) {
  Cpu cpu = reference_cpu();
  Cuda cuda;
  Side<Cpu, P, Attend> here(cpu, s, positions, 3);
  Side<Cuda, P, Attend> there(cuda, s, positions, 3);
  const std::vector<float> slopes = slopes_of(s);
  const OnDevice<float> device_slopes(cuda, slopes);
  std::vector<int> known(3, 0);
  std::uint64_t seed = 1;
  for (const auto& rows_of : steps) {
    const Batch batch = batch_of(rows_of, known);
    const int rows = static_cast<int>(batch.tokens.size());
    const Matrix q = random_matrix(rows, s.heads * s.head_dim, ++seed, 0, 4.0f);
    const Matrix k = random_matrix(rows, s.kv_heads * s.head_dim, ++seed),
                 v = random_matrix(rows, s.kv_heads * s.head_dim, ++seed);
    Matrix out(rows, s.heads * s.head_dim, s.heads * s.head_dim + 3);
    const DeviceMatrix device_q(cuda, q), device_k(cuda, k), device_v(cuda, v), device_out(cuda, out);
    here.run(batch, q.view(), k.view(), v.view(), slopes.data(), out.view());
    there.run(batch, device_q.view(), device_k.view(), device_v.view(), device_slopes.data(), device_out.view());
    BOOST_TEST_REQUIRE((device_out == out),
                       s.heads << " heads on " << s.kv_heads << " of " << s.head_dim << ", window " << s.window);
  }
}

// Prompts of three lengths, then chunks and single tokens together.
const std::vector<std::vector<int>> kSteps = {{300, 17, 64}, {1, 1, 1}, {70, 1, 256}, {1, 240, 1}, {1, 1, 1}};

}  // namespace

using Caches = std::tuple<PagedKV, PagedKVOf<32, bfloat16>, PagedKVOf<64, std::int8_t>>;

BOOST_AUTO_TEST_CASE_TEMPLATE(flash, P, Caches) {
  for (const Shapes& s : kShapes) check<P, FlashAttention>(s, kSteps, 600);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(direct, P, Caches) {
  for (const Shapes& s : kShapes) check<P, DirectAttention>(s, kSteps, 600);
}

// Biases of keys and sinks, of families that have them.
BOOST_AUTO_TEST_CASE_TEMPLATE(biases_and_sinks, P, Caches) {
  for (const Shapes& s : {Shapes{12, 12, 64, 0, false, true, false}, Shapes{8, 2, 80, 0, false, false, true},
                          Shapes{4, 1, 128, 100, false, true, true}, Shapes{3, 3, 7, 0, true, true, true}}) {
    check<P, FlashAttention>(s, kSteps, 600);
    check<P, DirectAttention>(s, kSteps, 600);
  }
}

// More splits than a block attends in parallel, with a window and without.
BOOST_AUTO_TEST_CASE(long_texts) {
  const std::vector<std::vector<int>> steps = {{2'400, 5, 3}, {1, 1, 1}, {160, 1, 1}, {1, 1, 1}};
  check<PagedKV, FlashAttention>({2, 1, 16, 0, false}, steps, 2'600);
  check<PagedKV, FlashAttention>({2, 1, 16, 2'100, true}, steps, 2'600);
  check<PagedKV, FlashAttention>({2, 1, 72, 0, false}, steps, 2'600);
  check<PagedKV, FlashAttention>({2, 1, 72, 2'100, true}, steps, 2'600);
  check<PagedKV, FlashAttention>({40, 1, 16, 0, false}, steps, 2'600);
}
