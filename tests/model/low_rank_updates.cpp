// The low-rank updates of a step's rows. A product without updates is computed as if the step had no adapters.
#include <boost/test/unit_test.hpp>

#include <vector>

#include "../ops/linear_problem.h"
#include "../ops/low_rank_problem.h"
#include "tenon/adapter/resident.h"
#include "tenon/model/low_rank_updates.h"
#include "tenon/weights/float32.h"

BOOST_AUTO_TEST_SUITE(model_low_rank_updates)

using namespace tenon;
using namespace tenon::test;
using namespace tenon::test::low_rank_problem;

namespace {

// Counts the products that are computed with updates.
struct CountingCpu : Cpu {
  using Cpu::Cpu;
  int updated = 0;
};
template <class W>
void linear(CountingCpu& device, const LinearArgs<W>& args, const LowRankArgs& updates) {
  ++device.updated;
  linear_after_updates(device, args, updates);
}

constexpr int kIn = 33, kOut = 70, kLayers = 2;
constexpr Site kAllSites[] = {Site::qkv, Site::attn_out, Site::mlp_up, Site::mlp_down};

// Updates of layer 1 at the given sites.
std::vector<std::vector<LowRank>> places(const TestAdapter& adapter, std::initializer_list<Site> sites) {
  std::vector<std::vector<LowRank>> by_place(size(kLayers * kSites));
  for (const Site site : sites) by_place[size(kSites + static_cast<int>(site))] = adapter.updates;
  return by_place;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_table_says_which_sites_have_updates) {
  const TestAdapter adapter(kIn, {random_update(kIn, 0, kOut, 4, 1)});
  Cpu device({.threads = 1});
  const auto sites = [&](std::initializer_list<Site> of) {
    return UpdateTable<Cpu>(device, places(adapter, of)).set().sites;
  };
  BOOST_TEST(sites({}) == 0u);
  BOOST_TEST(sites({Site::qkv}) == AdapterSet::bit(Site::qkv));
  BOOST_TEST(AdapterSet{}.sites == ~0u);  // a set made by hand may have updates at any site
  BOOST_TEST(sites({Site::attn_out, Site::mlp_down}) ==
             (AdapterSet::bit(Site::attn_out) | AdapterSet::bit(Site::mlp_down)));
}

BOOST_AUTO_TEST_CASE(only_sites_of_the_steps_adapters_are_given_updates) {
  const TestAdapter adapter(kIn, {random_update(kIn, 0, kOut, 4, 1)});
  CountingCpu device({.threads = 2});
  const UpdateTable<CountingCpu> qkv(device, places(adapter, {Site::qkv})), up(device, places(adapter, {Site::mlp_up}));
  AdapterSet by_hand = up.set();  // a set that does not know its sites
  by_hand.sites = AdapterSet{}.sites;
  const Problem p(kIn, kOut);
  const Packed<Float32> packed(p.weight);
  LowRankUpdates<CountingCpu> updates;
  // The rows have these sets; the last row has none. Checks whether the product of a site is computed with updates, and
  // whether they change the result.
  const auto check = [&](std::vector<const AdapterSet*> sets, Site site, bool given, bool changes) {
    Batch batch;
    for (std::size_t s = 0; s <= sets.size(); ++s) append(batch, static_cast<int>(s), 3, 1);
    for (std::size_t s = 0; s < sets.size(); ++s) batch.sequences[s].adapters = sets[s];
    updates.arrange(device, SegmentedLoRA{}, batch.view());
    const int rows = batch.view().rows;
    Matrix plain = p.output(rows), y = p.output(rows);
    linear(device, p.args(packed.view(), kEpilogues[1], 0, rows, plain));
    device.updated = 0;
    updates.multiply(device, p.args(packed.view(), kEpilogues[1], 0, rows, y), 1, site);
    BOOST_TEST((device.updated == 1) == given);
    BOOST_TEST(same_bits(y, plain) == !changes);
    BOOST_TEST(same_bits(y.row(rows - 1), plain.row(rows - 1), kOut));
  };
  for (const Site site : kAllSites) {
    const bool is_qkv = site == Site::qkv, is_up = site == Site::mlp_up;
    check({}, site, false, false);
    check({&qkv.set()}, site, is_qkv, is_qkv);
    check({&qkv.set(), nullptr, &up.set(), &qkv.set()}, site, is_qkv || is_up, is_qkv || is_up);
    check({&by_hand}, site, true, is_up);
    check({nullptr, nullptr}, site, false, false);
  }
}

BOOST_AUTO_TEST_SUITE_END()
