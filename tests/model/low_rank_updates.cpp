// The low-rank updates of a step's rows. A product without updates is computed as if the step had no adapters.
#include <boost/test/unit_test.hpp>

#include <string>
#include <vector>

#include "../ops/linear_problem.h"
#include "../ops/low_rank_problem.h"
#include "tenon/adapter/resident.h"
#include "tenon/model/low_rank_updates.h"
#include "tenon/ops/cpu/all.h"
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

// Rows of three adapters beside plain rows: one scales inputs, one outputs and updates them, one has a bias. Each row
// has the bits that it has alone, in every arrangement.
BOOST_AUTO_TEST_CASE(changes_of_products_meet_their_own_rows_alone) {
  const TestAdapter lora(kIn, {random_update(kIn, 0, kOut, 4, 1)});
  const Matrix vectors = random_matrix(3, kOut, 11), gains = random_matrix(1, kIn, 12);
  std::vector<ProductChange> by_place[3];
  AdapterChanges changes[3];
  AdapterSet sets[3];
  const std::vector<int> none(size(kLayers * kSites) + 1, 0);
  for (int i = 0; i < 3; ++i) {
    by_place[i].resize(size(kLayers * kSites));
    changes[i].products = by_place[i].data();
    sets[i].updates = lora.set->updates;  // none of them, as `none` says
    sets[i].begins = none.data();
    sets[i].sites = 0;
    sets[i].changes = &changes[i];
  }
  const std::size_t place = size(kSites + static_cast<int>(Site::qkv));  // of layer 1
  by_place[0][place].input_gain = gains.row(0);
  by_place[1][place].gain = vectors.row(0);
  by_place[1][place].bias = vectors.row(1);
  by_place[2][place].bias = vectors.row(2);
  sets[1].begins = lora.set->begins;
  sets[1].sites = ~0u;
  const std::vector<const AdapterSet*> of_sequences = {&sets[0], nullptr, &sets[1], &sets[2],
                                                       &sets[1], nullptr, &sets[0]};
  const Problem p(kIn, kOut);
  const Packed<Float32> packed(p.weight);
  const auto product = [&](Cpu& device, AnyLoRA::Kind kind, int layer, std::size_t first, std::size_t count) {
    Batch batch;
    for (std::size_t s = 0; s < count; ++s) append(batch, static_cast<int>(s), 3, 2);
    for (std::size_t s = 0; s < count; ++s) batch.sequences[s].adapters = of_sequences[first + s];
    LowRankUpdates<Cpu> updates;
    updates.arrange(device, AnyLoRA(kind), batch.view());
    Matrix y(static_cast<int>(2 * count), kOut, kOut);
    updates.multiply(device, p.args(packed.view(), kEpilogues[1], static_cast<int>(2 * first), y.rows, y), layer,
                     Site::qkv);
    return y;
  };
  for_each_cpu([&](Cpu& device) {
    for (const AnyLoRA::Kind kind : kKinds) {
      const Matrix all = product(device, kind, 1, 0, of_sequences.size());
      for (std::size_t s = 0; s < of_sequences.size(); ++s) {
        const Matrix one = product(device, kind, 1, s, 1);
        const Matrix plain = product(device, kind, 0, s, 1);  // layer 0 has no changes
        for (int i = 0; i < 2; ++i) {
          const float* const row = all.row(static_cast<int>(2 * s) + i);
          BOOST_TEST(same_bits(row, one.row(i), kOut), name_of(device) << ", sequence " << s);
          BOOST_TEST(same_bits(row, plain.row(i), kOut) == !of_sequences[s], name_of(device) << ", sequence " << s);
        }
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(an_input_gain_multiplies_the_rows_before_the_product) {
  const Problem p(kIn, kOut);
  const Packed<Float32> packed(p.weight);
  const Matrix gains = random_matrix(1, kIn, 12);
  std::vector<ProductChange> by_place(size(kLayers * kSites));
  by_place[static_cast<int>(Site::mlp_down)].input_gain = gains.row(0);
  AdapterChanges changes;
  changes.products = by_place.data();
  const std::vector<int> none(by_place.size() + 1, 0);
  AdapterSet set;
  set.begins = none.data();
  set.sites = 0;
  set.changes = &changes;
  Batch batch;
  append(batch, 0, 3, 2);
  batch.sequences[0].adapters = &set;
  Cpu device({.threads = 1});
  LowRankUpdates<Cpu> updates;
  updates.arrange(device, SegmentedLoRA{}, batch.view());
  Matrix x(2, kIn, kIn), expected(2, kOut, kOut), y(2, kOut, kOut);
  for (int r = 0; r < 2; ++r) {
    for (int k = 0; k < kIn; ++k) x.row(r)[k] = p.x.row(r)[k] * gains.row(0)[k];
  }
  linear(device, LinearArgs<Float32::View>{
                     .x = x.view(), .weight = packed.view(), .bias = p.bias.row(0), .y = expected.view()});
  updates.multiply(device, p.args(packed.view(), kEpilogues[1], 0, 2, y), 0, Site::mlp_down);
  for (int r = 0; r < 2; ++r) BOOST_TEST(same_bits(y.row(r), expected.row(r), kOut));
}

BOOST_AUTO_TEST_CASE(norms_run_over_rows_with_one_norm) {
  const float gain[] = {1, 2};
  NormChange norms[kLayers * kNormSites] = {};
  norms[kNormSites + static_cast<int>(NormSite::mlp)].gain = gain;
  AdapterChanges changes;
  changes.norms = norms;
  AdapterSet set;
  const std::vector<int> none(size(kLayers * kSites) + 1, 0);
  set.begins = none.data();
  set.changes = &changes;
  Batch batch;
  for (int s = 0; s < 4; ++s) append(batch, s, 3, 2);
  batch.sequences[1].adapters = batch.sequences[2].adapters = &set;
  Cpu device({.threads = 1});
  LowRankUpdates<Cpu> updates;
  const auto runs = [&](int layer, NormSite site) {
    std::string text;
    updates.for_norm_runs(8, layer, site, [&](int first, int count, const NormChange& change) {
      text += std::to_string(first) + "+" + std::to_string(count) + (change.gain == gain ? "! " : " ");
    });
    return text;
  };
  updates.arrange(device, SegmentedLoRA{}, batch.view());
  BOOST_TEST(runs(1, NormSite::mlp) == "0+2 2+4! 6+2 ");
  BOOST_TEST(runs(0, NormSite::mlp) == "0+8 ");
  BOOST_TEST(runs(1, NormSite::attention) == "0+8 ");
  updates.arrange(device, SegmentedLoRA{}, Batch{}.view());
  BOOST_TEST(runs(1, NormSite::mlp) == "0+8 ");
}

BOOST_AUTO_TEST_SUITE_END()
