// Low-rank updates have the CPU's bits in every arrangement.
#define BOOST_TEST_MODULE tenon ops cuda low_rank
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <deque>
#include <string>

#include "../low_rank_problem.h"
#include "problem.h"

using namespace tenon;
using namespace tenon::test;
using namespace tenon::test::low_rank_problem;

BOOST_TEST_GLOBAL_FIXTURE(NeedsCuda);

namespace {

// An adapter's tables and factors.
class DeviceAdapter {
 public:
  DeviceAdapter(Cuda& device, const TestAdapter& host) {
    for (const Factor& factor : host.factors) factors_.emplace_back(device, factor.bytes);
    std::vector<LowRank> updates = host.updates;
    for (std::size_t i = 0; i < updates.size(); ++i) {
      updates[i].a = factors_[2 * i].data();
      updates[i].b = factors_[2 * i + 1].data();
    }
    const auto& there = updates_.emplace_back(device, updates);
    const auto& begins = begins_.emplace_back(device, host.begins);
    set = {{there.data(), begins.data()}};
  }

  AdapterSet set;

 private:
  std::deque<OnDevice<std::byte>> factors_;
  std::deque<OnDevice<LowRank>> updates_;
  std::deque<OnDevice<int>> begins_;
};

// Every row's delta, and which rows have one.
void check(const Step& step, const std::vector<TestAdapter>& adapters, const std::string& what, Site site = Site::qkv) {
  Cpu cpu = reference_cpu();
  Cuda cuda;
  std::deque<DeviceAdapter> there;
  for (const TestAdapter& adapter : adapters) there.emplace_back(cuda, adapter);
  const DeviceMatrix x(cuda, step.x);
  for (const AnyLoRA::Kind kind : kKinds) {
    Deltas expected(step);
    const DeviceMatrix delta(cuda, expected.memory);
    const OnDevice<const float*> deltas(cuda, expected.rows);
    AdapterGroups groups = arranged(step, kind);
    const auto run = [&](auto& device, auto in, auto out, const float** table) {
      low_rank(device,
               LowRankArgs{.x = in, .groups = &groups, .layer = 1, .site = site, .delta = out, .deltas = table});
    };
    run(cpu, step.x.view(), expected.memory.view(), expected.rows.data());
    for (AdapterGroup& group : groups.groups) {
      const auto same = [&](const TestAdapter& adapter) { return adapter.set.get() == group.adapters; };
      group.adapters = &there[static_cast<std::size_t>(std::ranges::find_if(adapters, same) - adapters.begin())].set;
    }
    cuda.begin_step();
    put_tiles(cuda, step.rows(), groups);
    run(cuda, x.view(), delta.view(), deltas.data());
    cuda.synchronize();
    BOOST_TEST((delta == expected.memory), what << ", kind " << static_cast<int>(kind));
    const auto rows = deltas.values();
    for (int r = 0; r < step.rows(); ++r) {
      BOOST_TEST((rows[size(r)] == (expected.rows[size(r)] ? delta.row(r) : nullptr)), what << ", row " << r);
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(arrangements) {
  int number = 0;
  for (const int in : {1, 16, 77, 768}) {
    for (const int out : {1, 63, 256, 321, 2304}) {
      const int rank = kRanks[size(number) % std::size(kRanks)], other = kRanks[size(number + 3) % std::size(kRanks)];
      const FactorType type = kTypes[number++ % 3];
      std::vector<TestAdapter> adapters;
      adapters.emplace_back(in, std::vector{random_update(in, 0, out, rank, 2, type)}, type);
      adapters.emplace_back(in, std::vector{random_update(in, out / 3, out - out / 3, other, 3)});
      adapters.emplace_back(in, std::vector{random_update(in, 0, (out + 1) / 2, 2, 4, type)}, type);
      adapters.emplace_back(in, std::vector{random_update(in, 0, out, 3, 5)}, FactorType::float32, Site::attn_out);
      Step step(in, out, number % 2 ? 23 : 39);
      mix(step, adapters, static_cast<std::uint64_t>(number));
      check(step, adapters, std::to_string(in) + " -> " + std::to_string(out));
      check(step, adapters, std::to_string(in) + " -> " + std::to_string(out) + " elsewhere", Site::attn_out);
    }
  }
}

// Full tiles and partial ones.
BOOST_AUTO_TEST_CASE(groups_of_every_size) {
  std::vector<TestAdapter> adapters;
  for (int i = 0; i < 2; ++i) adapters.emplace_back(77, std::vector{random_update(77, 0, 131, 7, size(i))});
  for (int rows = 1; rows <= 2 * Cuda::rows_together + 1; ++rows) {
    Step step(77, 131, rows + 1);
    std::ranges::fill(step.sets, adapters[0].set.get());
    step.sets.front() = adapters[1].set.get();
    check(step, adapters, std::to_string(rows) + " rows");
  }
}

// More ranks than a block keeps products of, several updates of one matrix, and outputs that two updates share.
BOOST_AUTO_TEST_CASE(ranks_and_updates) {
  for (const FactorType type : kTypes) {
    std::vector<TestAdapter> adapters;
    adapters.emplace_back(33, std::vector{random_update(33, 0, 700, 200, 5, type)}, type);
    adapters.emplace_back(
        33, std::vector{random_update(33, 3, 300, 4, 7, type), random_update(33, 305, 300, 17, 8, type)}, type);
    adapters.emplace_back(33, std::vector{random_update(33, 0, 500, 3, 17), random_update(33, 250, 450, 4, 18)});
    Step step(33, 700, 40);
    mix(step, adapters, 9);
    check(step, adapters, "several updates");
  }
}

// More plain rows than a block has threads.
BOOST_AUTO_TEST_CASE(many_rows_of_which_few_have_adapters) {
  std::vector<TestAdapter> adapters;
  adapters.emplace_back(16, std::vector{random_update(16, 0, 5, 2, 6)});
  Step step(16, 5, 600);
  step.sets.front() = step.sets.back() = adapters[0].set.get();
  check(step, adapters, "600 rows");
}

// A chain that underflows to -0 in the last, partial strip: zeros past the columns make it +0.
BOOST_AUTO_TEST_CASE(zeros_have_the_cpus_signs) {
  auto first = random_update(17, 0, 1, 1, 1), second = first;
  first.scale = second.scale = 1;
  first.a.assign(17, 0.0f), first.a[0] = 1, first.b = {-1e-30f};
  second.a.assign(17, -1e-30f), second.b = {1};
  std::vector<TestAdapter> adapters;
  adapters.emplace_back(17, std::vector{first, second});
  Step step(17, 1, 1);
  std::fill_n(step.x.row(0), 17, 1e-30f);
  step.sets[0] = adapters[0].set.get();
  check(step, adapters, "underflow");
}
