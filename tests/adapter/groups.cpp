// Adapter policies: every row that has an adapter is in exactly one group, that of its adapter.
#include <boost/test/unit_test.hpp>

#include <vector>

#include "tenon/adapter/any_lora.h"
#include "tenon/adapter/merged.h"
#include "tenon/adapter/no_adapter.h"
#include "tenon/core/hash.h"

BOOST_AUTO_TEST_SUITE(adapter_groups)

using namespace tenon;

namespace {

const AdapterSet kSets[5];

// The adapter sets of random rows; some rows have none.
std::vector<const AdapterSet*> rows(std::uint64_t seed, int count) {
  std::vector<const AdapterSet*> all;
  for (int r = 0; r < count; ++r) {
    const auto draw = mix64(seed * 1000 + static_cast<std::uint64_t>(r)) % 6;
    all.push_back(draw == 5 ? nullptr : &kSets[draw]);
  }
  return all;
}

template <AdapterPolicy P>
AdapterGroups arranged(const P& policy, const std::vector<const AdapterSet*>& of_row) {
  AdapterGroups out;
  out.rows = {7, 7, 7};  // left from the previous step
  out.groups.resize(2);
  policy.arrange(of_row, out);
  return out;
}

void check_every_row_once(const AdapterGroups& groups, const std::vector<const AdapterSet*>& of_row) {
  std::vector<int> seen(of_row.size());
  int next = 0;
  for (const AdapterGroup& group : groups.groups) {
    BOOST_TEST(group.first == next);
    BOOST_TEST(group.count > 0);
    next += group.count;
    for (int i = group.first; i < group.first + group.count; ++i) {
      const auto row = static_cast<std::size_t>(groups.rows[static_cast<std::size_t>(i)]);
      BOOST_TEST(of_row[row] == group.adapters);
      if (i > group.first)
        BOOST_TEST(groups.rows[static_cast<std::size_t>(i - 1)] < groups.rows[static_cast<std::size_t>(i)]);
      ++seen[row];
    }
  }
  BOOST_TEST(static_cast<std::size_t>(next) == groups.rows.size());
  for (std::size_t r = 0; r < seen.size(); ++r) BOOST_TEST(seen[r] == (of_row[r] ? 1 : 0));
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_row_that_has_an_adapter_is_taken_once) {
  for (const int count : {0, 1, 2, 7, 64}) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      const auto of_row = rows(seed, count);
      check_every_row_once(arranged(SegmentedLoRA{}, of_row), of_row);
      check_every_row_once(arranged(GatheredLoRA{}, of_row), of_row);
      check_every_row_once(arranged(LoopedLoRA{}, of_row), of_row);
      for (const auto kind : {AnyLoRA::Kind::segmented, AnyLoRA::Kind::gathered, AnyLoRA::Kind::looped}) {
        check_every_row_once(arranged(AnyLoRA(kind), of_row), of_row);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(groups_of_each_policy) {
  const std::vector<const AdapterSet*> of_row = {&kSets[1], nullptr, &kSets[0], &kSets[1], &kSets[0], &kSets[1]};
  const AdapterGroups segmented = arranged(SegmentedLoRA{}, of_row);
  BOOST_TEST(segmented.groups.size() == 2u);
  BOOST_TEST(segmented.rows == (std::vector<int>{0, 3, 5, 2, 4}), boost::test_tools::per_element());
  BOOST_TEST(!segmented.one_by_one);
  BOOST_TEST(arranged(GatheredLoRA{}, of_row).groups.size() == 5u);
  BOOST_TEST(!arranged(GatheredLoRA{}, of_row).one_by_one);
  BOOST_TEST(arranged(LoopedLoRA{}, of_row).one_by_one);
  BOOST_TEST(arranged(NoAdapter{}, of_row).groups.empty());
  BOOST_TEST(arranged(MergedLoRA{}, of_row).groups.empty());
}

BOOST_AUTO_TEST_SUITE_END()
