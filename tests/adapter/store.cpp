// AdapterStore: concurrent requests share one load, leases stay valid, limits hold, and failures are temporary.
#include <boost/test/unit_test.hpp>

#include <atomic>
#include <filesystem>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "../io/scratch.h"
#include "tenon/adapter/store.h"
#include "tenon/device/cpu.h"
#include "tenon/testing/random_adapter.h"

BOOST_AUTO_TEST_SUITE(adapter_store)

using namespace tenon;
using namespace tenon::test;

namespace {

// One layer: queries, keys and values are three linears. The file has the halves of the keys in reverse order.
AdapterSites sites() {
  AdapterSites all{1, {}};
  all.sites.push_back({{.path = "h.0.q", .inputs = 8, .outputs = 6}, 0, Site::qkv, 0, {{0, 0, 6}}});
  all.sites.push_back({{.path = "h.0.k", .inputs = 8, .outputs = 4}, 0, Site::qkv, 6, {{2, 6, 2}, {0, 8, 2}}});
  all.sites.push_back({{.path = "h.0.out", .inputs = 6, .outputs = 130}, 0, Site::attn_out, 0, {{0, 0, 130}}});
  return all;
}

struct Folder {
  Scratch scratch;
  std::atomic<int> opened = 0;
  std::chrono::milliseconds delay{0};  // the least time of a load

  std::string add(const std::string& name, std::uint64_t seed, int rank = 3) {
    testing::write_adapter(scratch.folder() / name, sites().sites, {.rank = rank, .seed = seed});
    return name;
  }
  AdapterOptions options(AdapterOptions o = {}) {
    o.folder_of = [this](const std::string& name) {
      ++opened;
      std::this_thread::sleep_for(delay);
      return scratch.folder() / name;
    };
    return o;
  }
  AdapterStore<Cpu> store(AdapterOptions o = {}) {
    return AdapterStore<Cpu>([] { return Cpu({.threads = 1}); }, sites(), options(std::move(o)));
  }
};

AdapterLease lease(AdapterStore<Cpu>& store, const std::string& name, float weight = 1) {
  const AdapterUse use{name, weight};
  return store.lease({&use, 1});
}

// A lease in its own thread, which waits as long as necessary by default.
std::future<AdapterLease> waiting(AdapterStore<Cpu>& store, std::vector<std::string> names,
                                  Patience patience = TimePoint::max()) {
  const int before = store.stats().waiting;
  auto waits = std::async(std::launch::async, [&store, patience = std::move(patience), names = std::move(names)] {
    std::vector<AdapterUse> uses;
    for (const std::string& name : names) uses.push_back({name});
    return store.lease(uses, patience);
  });
  while (store.stats().waiting == before && waits.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) {
  }
  return waits;
}

template <class T>
bool is_there(const std::future<T>& value) {
  return value.wait_for(std::chrono::milliseconds(20)) == std::future_status::ready;
}

}  // namespace

BOOST_AUTO_TEST_CASE(factors_stand_where_the_ops_look_for_them) {
  Folder folder;
  folder.add("a", 1);
  auto store = folder.store();
  const AdapterLease held = lease(store, "a");
  const PeftAdapter file = PeftAdapter::open(folder.scratch.folder() / "a", sites().modules());
  const auto updates = held.set->at(0, Site::qkv);
  BOOST_REQUIRE(updates.size() == 2u);
  BOOST_TEST(updates[1].first_output == 6);
  BOOST_TEST(updates[1].outputs == 4);
  BOOST_TEST(static_cast<double>(updates[1].scale) == static_cast<double>(static_cast<float>(16.0 / 3)));
  BOOST_TEST(held.set->at(0, Site::mlp_up).empty());
  const auto values = [&](const char* name) {
    const TensorInfo& tensor = *file.tensors().find(name);
    std::vector<float> all(static_cast<std::size_t>(PeftAdapter::bytes_of(tensor)) / sizeof(float));
    file.read(tensor, std::as_writable_bytes(std::span(all)));
    return all;
  };
  const auto check = [&](const LowRank& update, const std::vector<float>& a, const std::vector<float>& b,
                         auto stored_row) {
    const auto* own_a = static_cast<const float*>(update.a);
    const auto* own_b = static_cast<const float*>(update.b);
    BOOST_TEST(std::equal(a.begin(), a.end(), own_a));
    for (int o = 0; o < update.outputs; ++o) {
      const int block = o / kFactorBlock * kFactorBlock, width = std::min(kFactorBlock, update.outputs - block);
      for (int r = 0; r < update.rank; ++r) {
        BOOST_TEST(own_b[block * update.rank + r * width + o - block] ==
                   b[static_cast<std::size_t>(stored_row(o) * update.rank + r)]);
      }
    }
  };
  BOOST_TEST(store.list().front().digest == file.digest());
  check(updates[1], values("base_model.model.h.0.k.lora_A.weight"), values("base_model.model.h.0.k.lora_B.weight"),
        [](int o) { return (o + 2) % 4; });
  check(held.set->at(0, Site::attn_out)[0], values("base_model.model.h.0.out.lora_A.weight"),
        values("base_model.model.h.0.out.lora_B.weight"), [](int o) { return o; });
}

BOOST_AUTO_TEST_CASE(concurrent_first_uses_share_one_load) {
  Folder folder;
  folder.add("a", 1);
  folder.delay = std::chrono::milliseconds(100);  // the others come while it loads
  auto store = folder.store();
  std::vector<std::thread> clients;
  std::atomic<const AdapterSet*> first = nullptr;
  std::atomic<int> others = 0;
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back([&] {
      const AdapterLease mine = lease(store, "a");
      const AdapterSet* expected = nullptr;
      if (!first.compare_exchange_strong(expected, mine.set.get()) && expected != mine.set.get()) ++others;
    });
  }
  for (auto& client : clients) client.join();
  BOOST_TEST(others == 0);
  BOOST_TEST(folder.opened == 1);
  BOOST_TEST(store.stats().loads == 1u);
}

BOOST_AUTO_TEST_CASE(all_who_wait_for_a_load_hear_that_it_failed) {
  Folder folder;
  folder.delay = std::chrono::milliseconds(100);
  auto store = folder.store();
  std::vector<std::thread> clients;
  std::atomic<int> refused = 0;
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back(
        [&] { refused += mentions(refusal([&] { lease(store, "nobody"); }), {"adapter_config.json"}); });
  }
  for (auto& client : clients) client.join();
  BOOST_TEST(refused == 4);
  BOOST_TEST(folder.opened == 1);
}

BOOST_AUTO_TEST_CASE(unloading_while_it_loads_begins_anew) {
  Folder folder;
  folder.add("a", 1);
  folder.delay = std::chrono::milliseconds(200);
  auto store = folder.store();
  auto loading = store.prefetch("a");
  while (folder.opened == 0) std::this_thread::yield();
  BOOST_TEST(!store.unload("a"));  // nothing is resident yet
  loading.get();
  BOOST_TEST(folder.opened == 2);
  BOOST_TEST(store.list().size() == 1u);
}

BOOST_AUTO_TEST_CASE(identity_is_content_and_weight) {
  Folder folder;
  folder.add("a", 1);
  folder.add("same", 1);
  folder.add("b", 2);
  auto store = folder.store();
  BOOST_TEST(lease(store, "a").identity == lease(store, "same").identity);
  BOOST_TEST(lease(store, "a").identity != lease(store, "b").identity);
  BOOST_TEST(lease(store, "a").identity != lease(store, "a", 0.5f).identity);
  BOOST_TEST(lease(store, "a").tenant != lease(store, "b").tenant);
  BOOST_TEST(lease(store, "a").tenant == lease(store, "a", 0.5f).tenant);
  const std::vector<AdapterUse> ab = {{"a", 0.7f}, {"b", 0.5f}};
  const AdapterLease one = store.lease(ab), two = store.lease(ab);
  BOOST_TEST(one.set.get() == two.set.get());
  const auto updates = one.set->at(0, Site::attn_out);
  BOOST_REQUIRE(updates.size() == 2u);
  BOOST_TEST(updates[0].a == lease(store, "a").set->at(0, Site::attn_out)[0].a);  // factors are shared
  BOOST_TEST(updates[0].scale ==
             static_cast<float>(static_cast<double>(static_cast<float>(16.0 / 3)) * static_cast<double>(0.7f)));
}

BOOST_AUTO_TEST_CASE(the_least_recently_used_adapter_is_evicted_unless_in_use) {
  Folder folder;
  for (const char* name : {"a", "b", "c", "d"}) folder.add(name, static_cast<std::uint64_t>(name[0]));
  auto store = folder.store({.count = 2});
  const AdapterLease a = lease(store, "a");
  lease(store, "b");
  lease(store, "c");  // evicts b, because a is held
  const auto names = [&] {
    std::string all;
    for (const AdapterInfo& each : store.list()) all += each.name;
    return all;
  };
  BOOST_TEST(names() == "ac");
  const AdapterLease c = lease(store, "c");
  BOOST_TEST(mentions(refusal([&] { lease(store, "d"); }), {"in use", "adapters.count 2"}));
  BOOST_TEST(names() == "ac");
  { const AdapterLease again = lease(store, "a"); }  // a resident adapter needs no budget
}

BOOST_AUTO_TEST_CASE(waiting_requests_are_served_in_order) {
  Folder folder;
  for (const char* name : {"a", "b", "c", "d"}) folder.add(name, static_cast<std::uint64_t>(name[0]));
  auto store = folder.store({.count = 1});
  std::optional<AdapterLease> a = lease(store, "a");
  auto b = waiting(store, {"b"}), c = waiting(store, {"c"}), d = waiting(store, {"d"});
  BOOST_TEST(store.stats().waiting == 3);
  BOOST_TEST(!is_there(b));
  BOOST_TEST(mentions(refusal([&] { lease(store, "d"); }), {"others wait"}));  // this request does not wait
  a.reset();
  std::optional<AdapterLease> has_b = b.get();
  BOOST_TEST(!is_there(c));
  has_b.reset();
  std::optional<AdapterLease> has_c = c.get();
  BOOST_TEST(!is_there(d));
  has_c.reset();
  d.get();
  BOOST_TEST(store.stats().waiting == 0);
  BOOST_TEST(store.stats().failures == 0u);
}

// A request whose client has disconnected leaves the queue and delays no other request.
BOOST_AUTO_TEST_CASE(unwanted_requests_leave_the_queue) {
  Folder folder;
  for (const char* name : {"a", "b", "c"}) folder.add(name, static_cast<std::uint64_t>(name[0]));
  auto store = folder.store({.count = 1});
  std::optional<AdapterLease> a = lease(store, "a");
  std::atomic<bool> wanted = true;
  auto b = waiting(store, {"b"}, {TimePoint::max(), [&] { return wanted.load(); }}), c = waiting(store, {"c"});
  BOOST_TEST(!is_there(b));
  wanted = false;
  BOOST_TEST(mentions(refusal([&] { b.get(); }), {"no room"}));
  BOOST_TEST(store.stats().waiting == 1);
  BOOST_TEST(!is_there(c));
  a.reset();
  BOOST_TEST(c.get().set != nullptr);
}

BOOST_AUTO_TEST_CASE(an_adapter_always_in_use_yields_to_who_waits) {
  Folder folder;
  for (const char* name : {"hot", "cold"}) folder.add(name, static_cast<std::uint64_t>(name[0]));
  auto store = folder.store({.count = 1});
  std::optional<AdapterLease> first = lease(store, "hot");
  auto cold = waiting(store, {"cold"});
  { const AdapterLease impatient = lease(store, "hot"); }  // a request that does not wait delays others only briefly
  auto hot = waiting(store, {"hot"});
  BOOST_TEST(!is_there(hot));  // otherwise its lease would overlap the first one, and the next would overlap it
  first.reset();
  std::optional<AdapterLease> has_cold = cold.get();
  BOOST_TEST(!is_there(hot));
  has_cold.reset();
  BOOST_TEST(hot.get().set != nullptr);
}

// A request that cannot have all of its adapters yet holds none of them, not even briefly: the first request would find
// them in use and wait on.
BOOST_AUTO_TEST_CASE(a_request_for_several_adapters_does_not_delay_the_first) {
  Folder folder;
  for (const char* name : {"hot", "a", "cold"}) folder.add(name, static_cast<std::uint64_t>(name[0]));
  for (int i = 0; i < 100; ++i) {
    auto store = folder.store({.count = 2});
    std::optional<AdapterLease> hot = lease(store, "hot"), a = lease(store, "a");
    auto cold = waiting(store, {"cold"}), both = waiting(store, {"a", "hot"});
    a.reset();
    const bool served = cold.wait_for(std::chrono::seconds(20)) == std::future_status::ready;
    hot.reset();  // otherwise they would wait for ever
    BOOST_TEST_REQUIRE(served);
    cold.get();
    both.get();
  }
}

BOOST_AUTO_TEST_CASE(resident_adapters_need_no_waiting) {
  Folder folder;
  for (const char* name : {"a", "b", "c"}) folder.add(name, static_cast<std::uint64_t>(name[0]));
  auto store = folder.store({.count = 2});
  const AdapterLease a = lease(store, "a");
  std::optional<AdapterLease> b = lease(store, "b");
  auto c = waiting(store, {"c"});  // a, which was loaded first, yields
  BOOST_TEST(is_there(waiting(store, {"b"})));
  BOOST_TEST(!is_there(c));
  BOOST_TEST(store.unload("b"));
  BOOST_TEST(!is_there(c));  // a request still uses it
  b.reset();
  BOOST_TEST(c.get().set != nullptr);
}

BOOST_AUTO_TEST_CASE(compositions_wait_for_all_their_parts_and_hold_none_meanwhile) {
  Folder folder;
  for (const char* name : {"a", "b", "c", "d"}) folder.add(name, static_cast<std::uint64_t>(name[0]));
  auto store = folder.store({.count = 2});
  std::optional<AdapterLease> a = lease(store, "a"), b = lease(store, "b");
  auto cd = waiting(store, {"c", "d"}), ab = waiting(store, {"b", "a"});
  a.reset();
  BOOST_TEST(!is_there(cd));
  b.reset();
  std::optional<AdapterLease> has_cd = cd.get();
  BOOST_TEST(!is_there(ab));
  has_cd.reset();
  BOOST_TEST(ab.get().set != nullptr);
  BOOST_TEST(mentions(refusal([&] {
                        store.lease(std::vector<AdapterUse>{{"a"}, {"b"}, {"c"}}, TimePoint::max());
                      }),
                      {"3 at once", "adapters.count"}));
}

BOOST_AUTO_TEST_CASE(waiting_ends_with_its_time) {
  Folder folder;
  for (const char* name : {"a", "b"}) folder.add(name, static_cast<std::uint64_t>(name[0]));
  auto store = folder.store({.count = 1});
  std::optional<AdapterLease> a = lease(store, "a");
  auto b = waiting(store, {"b"}, Clock::now() + std::chrono::milliseconds(30));
  BOOST_TEST(mentions(refusal([&] { b.get(); }), {"no room"}));
  BOOST_TEST(store.stats().waiting == 0);
  auto pinned = waiting(store, {"b"});
  store.pin("a");
  BOOST_TEST(!is_there(pinned));
  BOOST_TEST(store.unload("a"));
  BOOST_TEST(!is_there(pinned));
  a.reset();
  pinned.get();
}

BOOST_AUTO_TEST_CASE(bytes_are_bounded_and_compositions_hold_their_parts) {
  Folder folder;
  for (const char* name : {"a", "b", "c"}) folder.add(name, static_cast<std::uint64_t>(name[0]));
  auto one = folder.store();
  lease(one, "a");
  const std::size_t bytes = one.stats().bytes;
  auto store = folder.store({.bytes = 2 * bytes});
  const std::vector<AdapterUse> ab = {{"a", 1}, {"b", 1}};
  {
    const AdapterLease both = store.lease(ab);
    BOOST_TEST(mentions(refusal([&] { lease(store, "c"); }), {"in use"}));
  }
  BOOST_TEST(refusal([&] { lease(store, "c"); }) == "accepted");
  BOOST_TEST(store.stats().bytes == 2 * bytes);
  auto narrow = folder.store({.bytes = bytes - 1});
  BOOST_TEST(mentions(refusal([&] { lease(narrow, "a"); }), {"bytes"}));
  // An adapter that cannot fit causes no eviction.
  folder.add("huge", 9, 5);
  lease(store, "a");
  const AdapterLease held = lease(store, "b");
  BOOST_TEST(mentions(refusal([&] { lease(store, "huge"); }), {"no room"}));
  BOOST_TEST(store.stats().resident == 2);
}

BOOST_AUTO_TEST_CASE(a_pinned_adapter_stays) {
  Folder folder;
  for (const char* name : {"a", "b"}) folder.add(name, static_cast<std::uint64_t>(name[0]));
  auto store = folder.store({.count = 1});
  store.pin("a");
  BOOST_TEST(mentions(refusal([&] { lease(store, "b"); }), {"pinned"}));
  BOOST_TEST(store.unpin("a"));
  BOOST_TEST(!store.unpin("a"));
  BOOST_TEST(refusal([&] { lease(store, "b"); }) == "accepted");
}

BOOST_AUTO_TEST_CASE(failures_are_remembered_and_pass) {
  Folder folder;
  auto store = folder.store({.remember_failures = std::chrono::milliseconds(50)});
  const auto ask = [&] { return refusal([&] { lease(store, "a"); }); };
  const std::string failure = ask();
  BOOST_TEST(mentions(failure, {"adapter_config.json"}), failure);
  folder.add("a", 1);
  BOOST_TEST(ask() == failure);  // at once, without another look at the disk
  BOOST_TEST(folder.opened == 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  BOOST_TEST(ask() == "accepted");
  BOOST_TEST(store.stats().failures == 1u);
}

BOOST_AUTO_TEST_CASE(replacing_compares_first_and_leases_keep_what_they_hold) {
  Folder folder;
  folder.add("a", 1);
  folder.add("new", 2);
  auto store = folder.store();
  const AdapterLease old = lease(store, "a");
  const std::string digest = store.list().front().digest;
  BOOST_TEST(mentions(refusal([&] { store.replace("a", folder.scratch.folder() / "new", "sha256:0"); }), {"digest"}));
  BOOST_TEST(mentions(refusal([&] { store.replace("a", folder.scratch.folder() / "new", ""); }), {"digest"}));
  BOOST_TEST(mentions(refusal([&] { store.replace("b", folder.scratch.folder() / "new", digest); }), {"digest"}));
  const std::string next = store.replace("a", folder.scratch.folder() / "new", digest);
  BOOST_TEST(next != digest);
  BOOST_TEST(store.stats().resident == 1);
  BOOST_TEST(store.stats().versions == 2);  // the version of the old lease counts, too
  BOOST_TEST(store.list().front().digest == next);
  BOOST_TEST(lease(store, "a").identity != old.identity);
  BOOST_TEST(old.set->at(0, Site::qkv).size() == 2u);
  BOOST_TEST(store.unload("a"));
  BOOST_TEST(!store.unload("a"));
  BOOST_TEST(store.list().empty());
  BOOST_TEST(old.set->at(0, Site::qkv)[0].rank == 3);
  BOOST_TEST(lease(store, "a").identity == old.identity);  // the name stands for its folder again
}

BOOST_AUTO_TEST_CASE(prefetch_loads_for_those_who_come) {
  Folder folder;
  folder.add("a", 1);
  auto store = folder.store();
  store.prefetch("a").get();
  lease(store, "a");
  BOOST_TEST(folder.opened == 1);
  BOOST_TEST(mentions(refusal([&] { store.prefetch("nobody").get(); }), {"adapter_config.json"}));
}

// Threads lease, read and release while adapters are loaded and unloaded: a lease always has one complete adapter.
BOOST_AUTO_TEST_CASE(churn) {
  Folder folder;
  std::vector<std::string> names;
  for (int i = 0; i < 6; ++i)
    names.push_back(folder.add("a" + std::to_string(i), static_cast<std::uint64_t>(i), 1 + i));
  std::filesystem::create_directories(folder.scratch.folder() / "bad");
  auto store = folder.store({.count = 4, .remember_failures = std::chrono::milliseconds(1)});
  std::atomic<int> wrong = 0, granted = 0, refused = 0, bad = 0;
  std::vector<std::thread> clients;
  for (int c = 0; c < 4; ++c) {
    clients.emplace_back([&, c] {
      for (int i = 0; i < 250; ++i) {
        const std::uint64_t draw = mix64(static_cast<std::uint64_t>(c * 1000 + i));
        try {
          if (draw % 5 == 0) {
            ++bad;
            lease(store, "bad");
            ++wrong;
          } else {
            const std::size_t which = draw / 5 % names.size();
            const AdapterLease held = lease(store, names[which]);
            ++granted;
            for (const LowRank& update : held.set->at(0, Site::qkv))
              wrong += update.rank != static_cast<int>(which) + 1;
            if (draw % 7 == 0) store.unload(names[which]);
          }
        } catch (const Error&) {
          ++refused;
        }
      }
    });
  }
  for (auto& client : clients) client.join();
  BOOST_TEST(wrong == 0);
  BOOST_TEST(refused == bad);
  BOOST_TEST(granted == 1000 - bad);
  BOOST_TEST(store.stats().versions <= 4);
}

// More threads than the budget admits, some with compositions: every one is served with the adapters that it names.
BOOST_AUTO_TEST_CASE(crowd) {
  Folder folder;
  std::vector<std::string> names;
  for (int i = 0; i < 6; ++i)
    names.push_back(folder.add("a" + std::to_string(i), static_cast<std::uint64_t>(i), 1 + i));
  auto store = folder.store({.count = 2});
  std::atomic<int> wrong = 0, granted = 0;
  std::vector<std::thread> clients;
  for (int c = 0; c < 8; ++c) {
    clients.emplace_back([&, c] {
      for (int i = 0; i < 100; ++i) {
        const std::uint64_t draw = mix64(static_cast<std::uint64_t>(c * 1000 + i));
        const std::size_t one = draw % 6, two = draw / 6 % 6;
        std::vector<AdapterUse> uses = {{names[one]}};
        if (draw % 4 == 0) uses.push_back({names[two]});
        const AdapterLease held = store.lease(uses, TimePoint::max());
        ++granted;
        const auto updates = held.set->at(0, Site::attn_out);
        wrong += updates.size() != uses.size() || updates[0].rank != static_cast<int>(one) + 1 ||
                 updates.back().rank != static_cast<int>(uses.size() == 2 ? two : one) + 1;
        std::this_thread::sleep_for(std::chrono::microseconds(draw % 200));
      }
    });
  }
  for (auto& client : clients) client.join();
  BOOST_TEST(wrong == 0);
  BOOST_TEST(granted == 800);
  BOOST_TEST(store.stats().versions <= 2);
  BOOST_TEST(store.stats().waiting == 0);
}

BOOST_AUTO_TEST_CASE(compositions_are_bounded_and_say_which_adapter_is_wrong) {
  Folder folder;
  folder.add("a", 1);
  auto store = folder.store();
  const auto refused = [&](std::vector<AdapterUse> uses) { return refusal([&] { store.lease(uses); }); };
  BOOST_TEST(mentions(refused({{"a", 0.5f}, {"nobody", 1}}), {"adapter nobody", "adapter_config.json"}));
  BOOST_TEST(mentions(refused({{"a", 3e38f}}), {"adapter", "float32"}));
  BOOST_TEST(mentions(refused({{"a", std::numeric_limits<float>::quiet_NaN()}}), {"adapter", "finite"}));
  BOOST_TEST(mentions(refused(std::vector<AdapterUse>(kMostAdapters + 1, {"a", 1})), {"adapter", "64"}));
  BOOST_TEST(refused(std::vector<AdapterUse>(kMostAdapters, {"a", 1})) == "accepted");
}

BOOST_AUTO_TEST_SUITE_END()
