// Classification heads of adapters in the store: leased with the adapter, identified, counted in the budget, evicted.
#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "../io/scratch.h"
#include "tenon/adapter/store.h"
#include "tenon/device/cpu.h"
#include "tenon/testing/random_adapter.h"

BOOST_AUTO_TEST_SUITE(adapter_heads)

using namespace tenon;
using tenon::test::mentions;
using tenon::test::refusal;
using tenon::test::Scratch;
using testing::RandomKind;

namespace {

AdapterSites sites() {
  AdapterSites all{1, {}};
  all.sites.push_back({{.path = "h.0.q", .inputs = 8, .outputs = 6}, 0, Site::qkv, 0, {{0, 0, 6}}});
  all.base.head_width = 8;
  return all;
}

struct Folder {
  Scratch scratch;

  // labels: 0 for a plain LoRA. Adapters of one seed have equal updates.
  void add(const std::string& name, int labels, std::uint64_t seed = 1) const {
    testing::write_adapter(
        scratch / name, sites().sites,
        {.rank = 3, .seed = seed, .kind = labels > 0 ? RandomKind::classifier : RandomKind::lora, .labels = labels}, {},
        sites().base);
  }
  AdapterStore<Cpu> store(AdapterOptions options = {}) const {
    options.folder_of = [root = scratch.folder()](const std::string& name) { return root / name; };
    return AdapterStore<Cpu>([] { return Cpu({.threads = 1}); }, sites(), std::move(options));
  }
  PeftAdapter open(const std::string& name) const {
    return PeftAdapter::open(scratch / name, sites().modules(), sites().base);
  }
  std::size_t bytes(const std::string& name) const { return ResidentAdapter<Cpu>::bytes_of(open(name), sites()); }
};

AdapterLease lease(AdapterStore<Cpu>& store, const std::string& name, float weight = 1) {
  const AdapterUse use{name, weight};
  return store.lease({&use, 1});
}

std::string resident(const AdapterStore<Cpu>& store) {
  std::string names;
  for (const AdapterInfo& each : store.list()) names += each.name;
  return names;
}

}  // namespace

// No model's weights are at hand, as on a GPU: heads run on the host.
BOOST_AUTO_TEST_CASE(a_lease_has_the_head_of_its_adapter) {
  const Folder folder;
  folder.add("a", 3);
  folder.add("b", 40);
  folder.add("plain", 0);
  auto store = folder.store();
  const std::vector<float> row{1, 2, 3, 4, 5, 6, 7, 8};
  for (const auto& [name, labels] : {std::pair("a", 3), std::pair("b", 40)}) {
    const AdapterLease held = lease(store, name);
    BOOST_REQUIRE(held.head != nullptr);
    BOOST_TEST(held.head->labels() == labels);
    BOOST_CHECK(held.task == AdapterTask::classify);
    BOOST_TEST((held.head->logits(row) == folder.open(name).read_classifier()->logits(row)));
    BOOST_TEST(held.set->changes == nullptr);
  }
  BOOST_TEST(lease(store, "plain").head == nullptr);
  BOOST_CHECK(lease(store, "plain").task == AdapterTask::text);
}

BOOST_AUTO_TEST_CASE(heads_are_part_of_the_identity) {
  const Folder folder;
  folder.add("a", 3);
  folder.add("same", 3);
  folder.add("more", 4);
  folder.add("plain", 0);
  auto store = folder.store();
  BOOST_TEST(lease(store, "a").identity == lease(store, "same").identity);
  BOOST_TEST(lease(store, "a").identity != lease(store, "more").identity);
  BOOST_TEST(lease(store, "a").identity != lease(store, "plain").identity);
  for (const AdapterInfo& each : store.list()) BOOST_TEST(each.digest == folder.open(each.name).digest());
}

BOOST_AUTO_TEST_CASE(their_bytes_count_in_the_budget) {
  const Folder folder;
  folder.add("a", 100, 1);
  folder.add("b", 100, 2);
  folder.add("c", 100, 3);
  folder.add("plain", 0, 4);
  const std::size_t head = 100 * 8 * sizeof(float), plain = folder.bytes("plain");
  BOOST_TEST(folder.bytes("a") == plain + head);
  auto store = folder.store({.bytes = 2 * (plain + head)});
  lease(store, "a");
  BOOST_TEST(store.stats().bytes == plain + head);
  lease(store, "b");
  BOOST_TEST(resident(store) == "ab");
  lease(store, "c");  // evicts a. Without their heads all three would have room
  BOOST_TEST(resident(store) == "bc");
  BOOST_TEST(store.stats().bytes == 2 * (plain + head));
  const AdapterLease b = lease(store, "b"), c = lease(store, "c");
  BOOST_TEST(mentions(refusal([&] { lease(store, "a"); }), {"in use", "adapters.bytes"}));
  auto small = folder.store({.bytes = plain + head - 1});
  lease(small, "plain");
  BOOST_TEST(mentions(refusal([&] { lease(small, "a"); }), {"adapters.bytes"}));
}

// A request may end after its adapter was unloaded.
BOOST_AUTO_TEST_CASE(a_leased_head_outlives_its_name) {
  const Folder folder;
  folder.add("a", 3);
  auto store = folder.store();
  const AdapterLease held = lease(store, "a");
  BOOST_TEST(store.unload("a"));
  BOOST_TEST(held.head->labels() == 3);
  BOOST_TEST(store.stats().versions == 1);
}

BOOST_AUTO_TEST_CASE(heads_take_no_weight_and_are_not_added) {
  const Folder folder;
  folder.add("a", 3);
  folder.add("plain", 0);
  auto store = folder.store();
  BOOST_TEST(mentions(refusal([&] { lease(store, "a", 0.5f); }), {"score.weight", "weight"}));
  const std::vector<AdapterUse> sum{{"plain"}, {"a"}};
  BOOST_TEST(mentions(refusal([&] { store.lease(sum); }), {"adapter a", "score.weight", "added"}));
}

BOOST_AUTO_TEST_CASE(a_sum_with_an_adapter_for_embeddings_is_for_embeddings) {
  const Folder folder;
  folder.add("plain", 0, 1);
  folder.add("embeds", 0, 2);
  const auto path = folder.scratch / "embeds" / "adapter_config.json";
  std::ifstream in(path);
  std::string config(std::istreambuf_iterator<char>(in), {});
  config.insert(1, R"("task_type": "FEATURE_EXTRACTION", )");
  std::ofstream(path) << config;
  auto store = folder.store();
  BOOST_CHECK(lease(store, "embeds").task == AdapterTask::embed);
  for (const std::vector<AdapterUse>& uses :
       std::vector<std::vector<AdapterUse>>{{{"plain"}, {"embeds"}}, {{"embeds"}, {"plain", 0.5f}}})
    BOOST_CHECK(store.lease(uses).task == AdapterTask::embed);
}

BOOST_AUTO_TEST_SUITE_END()
