// Our adapter policies obey the laws, and each law is broken by one that is made to break it.
#include "tenon/testing/adapter_laws.h"

#include <boost/test/unit_test.hpp>

#include "obeys.h"
#include "tenon/adapter/any_lora.h"
#include "tenon/adapter/merged.h"

BOOST_AUTO_TEST_SUITE(testing_adapter_laws)

using namespace tenon;
using test::breaks;
using test::obeys;
using testing::adapter_laws;
using Rows = std::span<const AdapterSet* const>;

namespace {

struct EverySecond : SegmentedLoRA {  // forgets the others
  void arrange(Rows rows, AdapterGroups& out) const {
    out.clear();
    for (std::size_t r = 0; r < rows.size(); r += 2) {
      if (!rows[r]) continue;
      out.groups.push_back({rows[r], static_cast<int>(out.rows.size()), 1});
      out.rows.push_back(static_cast<int>(r));
    }
  }
};
struct Twice : GatheredLoRA {  // updates a row again
  void arrange(Rows rows, AdapterGroups& out) const {
    GatheredLoRA::arrange(rows, out);
    if (!out.groups.empty()) out.groups.push_back(out.groups.front());
  }
};
struct Spreads : SegmentedLoRA {  // the first adapter to all groups
  void arrange(Rows rows, AdapterGroups& out) const {
    SegmentedLoRA::arrange(rows, out);
    for (AdapterGroup& group : out.groups) group.adapters = out.groups.front().adapters;
  }
};
struct Generous : GatheredLoRA {  // to rows that asked for none
  void arrange(Rows rows, AdapterGroups& out) const {
    out.clear();
    const AdapterSet* some = nullptr;
    for (const AdapterSet* set : rows) some = set ? set : some;
    for (std::size_t r = 0; some && r < rows.size(); ++r) {
      out.groups.push_back({rows[r] ? rows[r] : some, static_cast<int>(r), 1});
      out.rows.push_back(static_cast<int>(r));
    }
  }
};
struct FewGroups : SegmentedLoRA {  // has room for sixteen
  void arrange(Rows rows, AdapterGroups& out) const {
    SegmentedLoRA::arrange(rows, out);
    if (out.groups.size() > 16) out.groups.resize(16);
  }
};
struct Backwards : SegmentedLoRA {
  void arrange(Rows rows, AdapterGroups& out) const {
    SegmentedLoRA::arrange(rows, out);
    for (const AdapterGroup& g : out.groups)
      std::reverse(out.rows.begin() + g.first, out.rows.begin() + g.first + g.count);
  }
};
struct Heaps : GatheredLoRA {  // adds to the groups of the step before
  void arrange(Rows rows, AdapterGroups& out) const {
    AdapterGroups own;
    GatheredLoRA::arrange(rows, own);
    for (AdapterGroup& g : own.groups) g.first += static_cast<int>(out.rows.size());
    out.groups.insert(out.groups.end(), own.groups.begin(), own.groups.end());
    out.rows.insert(out.rows.end(), own.rows.begin(), own.rows.end());
  }
};
struct Beyond : GatheredLoRA {  // a group longer than its rows
  void arrange(Rows rows, AdapterGroups& out) const {
    GatheredLoRA::arrange(rows, out);
    if (!out.groups.empty()) ++out.groups.back().count;
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(our_adapter_policies_obey) {
  obeys(adapter_laws<SegmentedLoRA>());
  obeys(adapter_laws<GatheredLoRA>());
  obeys(adapter_laws<LoopedLoRA>());
  obeys(adapter_laws(AnyLoRA(AnyLoRA::Kind::looped)));
  obeys(adapter_laws<NoAdapter>());
  obeys(adapter_laws<MergedLoRA>());
}

BOOST_AUTO_TEST_CASE(wrong_adapter_policies_are_caught) {
  BOOST_TEST(breaks(adapter_laws<EverySecond>(), "in exactly one group"));
  BOOST_TEST(breaks(adapter_laws<Twice>(), "in exactly one group"));
  BOOST_TEST(breaks(adapter_laws<FewGroups>(), "in exactly one group"));
  BOOST_TEST(breaks(adapter_laws<Spreads>(), "that of each of its rows"));
  BOOST_TEST(breaks(adapter_laws<Generous>(), "stands in no group"));
  BOOST_TEST(breaks(adapter_laws<Backwards>(), "the rows of a group ascend"));
  BOOST_TEST(breaks(adapter_laws<Heaps>(), "whatever was arranged before"));
  BOOST_TEST(breaks(adapter_laws<Beyond>(), "groups lie within"));
}

BOOST_AUTO_TEST_SUITE_END()
