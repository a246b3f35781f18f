// When LoRA updates are fused into the product of their matrix.
#include <boost/test/unit_test.hpp>

#include "linear_problem.h"
#include "low_rank_problem.h"
#include "tenon/ops/cpu/prefetch_policy.h"

BOOST_AUTO_TEST_SUITE(ops_prefetch_policy)

using namespace tenon;
using namespace tenon::test;
using namespace tenon::test::low_rank_problem;

// Arithmetic bounds a product whose rows are many for the bytes that it reads. The numbers are GPT-2's c_attn at rank
// 16.
BOOST_AUTO_TEST_CASE(fused_where_arithmetic_bounds_the_product) {
  constexpr int kIn = 768, kOut = 2304;
  std::vector<TestAdapter> adapters;
  for (int i = 0; i < 64; ++i) adapters.emplace_back(kIn, std::vector{random_update(kIn, 0, kOut, 16, 7)});
  const auto idle = [&](const auto& weight, int rows, int distinct, int threads = 2, Isa isa = best_isa()) {
    Step s(kIn, kOut, rows);
    for (int r = 0; r < rows && distinct > 0; ++r) s.sets[size(r)] = adapters[size(r % distinct)].set.get();
    const AdapterGroups groups = arranged(s, AnyLoRA::Kind::segmented);
    Deltas d(s);
    const LowRankArgs updates{s.x.view(), &groups, 1, Site::qkv, d.memory.view(), d.rows.data()};
    LinearArgs<std::decay_t<decltype(weight)>> args{.x = s.x.view(), .weight = weight, .y = d.memory.view()};
    return cpu::is_compute_bound(Cpu({.threads = threads, .isa = isa}), args, updates);
  };
  const Bare<CodePanels<float>> floats{};
  const Bare<CodePanels<std::int8_t>> bytes{};
  const Bare<Int8Quads> quads{};
  if (best_isa() == Isa::avx512) {
    BOOST_TEST(idle(floats, 64, 64));
    BOOST_TEST(idle(floats, 32, 1));
    BOOST_TEST(idle(bytes, 8, 1));
    BOOST_TEST(idle(bytes, 16, 16));
    BOOST_TEST(idle(bytes, 64, 1, 9));
  } else {
    BOOST_TEST_MESSAGE("no AVX-512: updates are never fused");
  }
  BOOST_TEST(!idle(floats, 32, 32));
  BOOST_TEST(!idle(floats, 8, 1));
  BOOST_TEST(!idle(floats, 64, 0));  // no row has an update
  BOOST_TEST(!idle(bytes, 4, 4));
  BOOST_TEST(!idle(bytes, 6, 1));       // tiles of so few rows pace no prefetches
  BOOST_TEST(!idle(bytes, 300, 1));     // more than was measured
  BOOST_TEST(!idle(bytes, 64, 1, 10));  // 36 blocks are few for that many threads
  BOOST_TEST(!idle(quads, 64, 1));      // kernels of integers pace no prefetches
  BOOST_TEST(!idle(bytes, 64, 1, 2, Isa::portable));
}

BOOST_AUTO_TEST_SUITE_END()
