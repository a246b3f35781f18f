// ops/cpu/top_k.h: the result of a row's pass does not depend on the order of its logits.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include "tenon/ops/cpu/top_k.h"

BOOST_AUTO_TEST_SUITE(ops_top_k)

using namespace tenon;
using namespace tenon::cpu;

namespace {

// By definition: sorted by (value descending, id ascending), the first `count`, in order of ids.
std::vector<TokenLogit> best_by_sorting(std::vector<TokenLogit> all, int count) {
  std::sort(all.begin(), all.end(), [](const TokenLogit& a, const TokenLogit& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
  });
  all.resize(std::min(all.size(), static_cast<std::size_t>(count)));
  std::sort(all.begin(), all.end(), [](const TokenLogit& a, const TokenLogit& b) { return a.id < b.id; });
  return all;
}

void offer(TopK& best, const std::vector<TokenLogit>& all, int first, int n) {
  std::vector<float> values;
  for (int i = first; i < first + n; ++i) values.push_back(all[static_cast<std::size_t>(i)].logit);
  best.offer(values.data(), n, first, *std::max_element(values.begin(), values.end()));
}

bool same(const std::vector<TokenLogit>& a, const std::vector<TokenLogit>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const TokenLogit& x, const TokenLogit& y) { return x.logit == y.logit && x.id == y.id; });
}

}  // namespace

// Few different values, so that ties lie at the limit.
BOOST_AUTO_TEST_CASE(pieces_may_come_in_any_order) {
  constexpr int kPiece = 16, kPieces = 20;
  std::mt19937 random(7);
  for (const int values : {1, 2, 5, 1000}) {
    std::vector<TokenLogit> all;
    for (int i = 0; i < kPiece * kPieces; ++i) {
      all.push_back({static_cast<float>(random() % static_cast<unsigned>(values)), i});
    }
    std::vector<int> order(kPieces);
    for (int i = 0; i < kPieces; ++i) order[static_cast<std::size_t>(i)] = i;
    for (int trial = 0; trial < 20; ++trial) {
      std::shuffle(order.begin(), order.end(), random);
      for (const int count : {1, 2, 7, 40, 500}) {
        TopK here, there;
        here.reset(count);
        there.reset(count);
        for (int i = 0; i < kPieces; ++i) {
          offer(i % 3 == 0 ? there : here, all, order[static_cast<std::size_t>(i)] * kPiece, kPiece);
        }
        here.add(there);
        BOOST_TEST(same(here.take(), best_by_sorting(all, count)));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_value_that_is_not_finite_empties_all) {
  for (const bool in_other : {false, true}) {
    TopK best, other;
    best.reset(2);
    other.reset(2);
    const float good[] = {1, 2, 3};
    best.offer(good, 3, 0, 3);
    (in_other ? other : best).offer(good, 3, 3, std::numeric_limits<float>::quiet_NaN());
    best.add(other);
    BOOST_TEST(best.take().empty());
  }
}

BOOST_AUTO_TEST_SUITE_END()
