// linear with the updates of its rows: the bits of low_rank and linear one after the other, whichever way they are made.
#include <boost/test/unit_test.hpp>

#include <tuple>

#include "linear_problem.h"
#include "low_rank_problem.h"
#include "tenon/weights/bfloat16.h"
#include "tenon/weights/bfloat16_dot.h"
#include "tenon/weights/float32.h"
#include "tenon/weights/float8.h"
#include "tenon/weights/int4.h"
#include "tenon/weights/int8.h"
#include "tenon/weights/int8_act8.h"

BOOST_AUTO_TEST_SUITE(ops_panel_updates)

using namespace tenon;
using namespace tenon::test;
using namespace tenon::test::low_rank_problem;

// One format of each path through the kernels, and one that kernels know nothing of.
using Formats = std::tuple<Float32, BFloat16, Float8<E4M3>, ZeroPointInt8, GroupInt4, ZeroPointInt8Act8, BFloat16Dot, ColumnMajor>;

namespace {

// A matrix, and rows of which some have updates.
struct Updated {
  Problem problem;
  Step step;
  AdapterGroups groups;
  Epilogue epilogue = kEpilogues[5];

  Updated(int in, int out, int rows, const std::vector<TestAdapter>& adapters, AnyLoRA::Kind kind = AnyLoRA::Kind::segmented)
      : problem(in, out), step(in, out, rows) {
    mix(step, adapters, static_cast<std::uint64_t>(rows));
    groups = arranged(step, kind);
  }

  // What op(args, updates) makes of y, rows being the problem's first.
  template <class W, class Op>
  Matrix result(const W& weight, Op&& op) const {
    Matrix y = problem.output(step.rows());
    const LinearArgs<W> args = problem.args(weight, epilogue, 0, step.rows(), y);
    Deltas d(step);
    const LowRankArgs updates{args.x, &groups, 1, Site::qkv, d.memory.view(), d.rows.data()};
    op(args, updates);
    return y;
  }
  template <class W>
  Matrix one_after_the_other(Cpu& device, const W& weight) const {
    return result(weight, [&](LinearArgs<W> args, const LowRankArgs& updates) {
      low_rank(device, updates);
      args.delta = updates.deltas;
      linear(device, args);
    });
  }
};

std::vector<TestAdapter> some_adapters(int in, int out) {
  std::vector<TestAdapter> all;
  all.emplace_back(in, std::vector{random_update(in, 0, out, 16, 1)});
  all.emplace_back(in, std::vector{random_update(in, out / 5, out / 2, 3, 2), random_update(in, out / 3, out - out / 3, 17, 3)});
  all.emplace_back(in, std::vector{random_update(in, out - 1, 1, 5, 4, FactorType::float16)}, FactorType::float16);
  all.emplace_back(in, std::vector{random_update(in, 0, out, 8, 5, FactorType::bfloat16)}, FactorType::bfloat16);
  all.emplace_back(in, std::vector{random_update(in, 0, out, 4, 6)}, FactorType::float32, Site::mlp_up);  // of another matrix
  return all;
}

template <class P>
void check(int in, int out, int rows, int most_threads) {
  const std::vector<TestAdapter> adapters = some_adapters(in, out);
  const Updated u(in, out, rows, adapters);
  const Packed<P> packed(u.problem.weight);
  Cpu plain({.threads = 1, .isa = Isa::portable});
  const Matrix truth = u.one_after_the_other(plain, packed.view());
  for_each_cpu(
      [&](Cpu& device) {
        const Matrix beside = u.result(packed.view(), [&](const auto& args, const LowRankArgs& updates) {
          cpu::multiply_and_update(device, args, updates);
        });
        const Matrix either = u.result(packed.view(), [&](const auto& args, const LowRankArgs& updates) { linear(device, args, updates); });
        const std::string what = name_of(device) + ": " + std::to_string(in) + " -> " + std::to_string(out) + ", " + std::to_string(rows) + " rows";
        BOOST_TEST(same_bits(beside, truth), what);
        BOOST_TEST(same_bits(either, truth), what);
        BOOST_TEST((gaps_untouched(beside) && gaps_untouched(either)), what);
      },
      most_threads);
}

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(are_the_same_beside_the_product_and_before_it, P, Formats) {
  int number = 0;
  for (const int rows : {1, 2, 5, 7, 13, 24, 40}) {
    check<P>(77, 200, rows, 1 + number++ % 3);
  }
  check<P>(64, 64, 30, 3);
  check<P>(16, 5, 30, 2);
  check<P>(33, 321, kMostRows, 4);
}

// Other arrangements of the same rows.
BOOST_AUTO_TEST_CASE(are_the_same_in_any_arrangement) {
  const std::vector<TestAdapter> adapters = some_adapters(64, 131);
  Cpu device({.threads = 2});
  std::vector<Matrix> results;
  for (const auto kind : kKinds) {
    const Updated u(64, 131, 37, adapters, kind);
    const Packed<Float32> packed(u.problem.weight);
    results.push_back(u.result(packed.view(), [&](const auto& args, const LowRankArgs& updates) { linear(device, args, updates); }));
    results.push_back(u.one_after_the_other(device, packed.view()));
  }
  for (const Matrix& each : results) BOOST_TEST(same_bits(each, results.front()));
}

// The twin: an update that is left out, or another, is seen.
BOOST_AUTO_TEST_CASE(a_lost_update_is_caught) {
  const std::vector<TestAdapter> adapters = some_adapters(64, 131);
  Updated u(64, 131, 20, adapters);
  const Packed<Float32> packed(u.problem.weight);
  Cpu device({.threads = 2});
  const auto beside = [&] {
    return u.result(packed.view(), [&](const auto& args, const LowRankArgs& updates) { cpu::multiply_and_update(device, args, updates); });
  };
  const Matrix truth = u.one_after_the_other(device, packed.view());
  BOOST_TEST(same_bits(beside(), truth));
  AdapterGroup& group = u.groups.groups.front();
  --group.count;
  BOOST_TEST(!same_bits(beside(), truth));
  ++group.count;
  group.adapters = group.adapters == adapters[0].set.get() ? adapters[1].set.get() : adapters[0].set.get();
  BOOST_TEST(!same_bits(beside(), truth));
}

// Memory is idle where rows are many for what is read; the numbers are GPT-2's c_attn, of rank 16.
BOOST_AUTO_TEST_CASE(are_made_beside_the_product_where_that_leaves_memory_idle) {
  constexpr int kIn = 768, kOut = 2304;
  std::vector<TestAdapter> adapters;
  for (int i = 0; i < 64; ++i) adapters.emplace_back(kIn, std::vector{random_update(kIn, 0, kOut, 16, 7)});
  const auto idle = [&](const auto& weight, int rows, int distinct, Isa isa = Isa::avx512) {
    Step s(kIn, kOut, rows);
    for (int r = 0; r < rows && distinct > 0; ++r) s.sets[size(r)] = adapters[size(r % distinct)].set.get();
    const AdapterGroups groups = arranged(s, AnyLoRA::Kind::segmented);
    Deltas d(s);
    const LowRankArgs updates{s.x.view(), &groups, 1, Site::qkv, d.memory.view(), d.rows.data()};
    LinearArgs<std::decay_t<decltype(weight)>> args{.x = s.x.view(), .weight = weight, .y = d.memory.view()};
    return cpu::leaves_memory_idle(isa, args, updates);
  };
  const Bare<CodePanels<float>> floats{};
  const Bare<CodePanels<std::int8_t>> bytes{};
  const Bare<Int8Quads> quads{};
  BOOST_TEST(idle(floats, 64, 64));
  BOOST_TEST(!idle(floats, 64, 64, Isa::avx2));
  BOOST_TEST(!idle(floats, 32, 32));
  BOOST_TEST(idle(floats, 32, 1));
  BOOST_TEST(!idle(floats, 8, 1));
  BOOST_TEST(!idle(floats, 64, 0));  // nobody has an update
  BOOST_TEST(idle(bytes, 8, 1));
  BOOST_TEST(idle(bytes, 16, 16));
  BOOST_TEST(!idle(bytes, 4, 4));
  BOOST_TEST(!idle(quads, 64, 64));
  BOOST_TEST(idle(quads, 64, 1));
}

// Every line is asked for once the passes are over, and not long before.
BOOST_AUTO_TEST_CASE(lines_are_asked_for_evenly) {
  for (const std::ptrdiff_t passes : {1, 3, 64, 1000, 9216}) {
    for (const int lines : {0, 1, 2, 63, 64, 1000}) {
      std::vector<cpu::AskBeside::Range> ranges;
      const auto begin = reinterpret_cast<std::uintptr_t>(&ranges) / 64 * 64;  // asking for what is there
      for (int left = lines, i = 0; left > 0; ++i) {
        const int some = std::min(left, 1 + i % 7);
        ranges.push_back({begin, begin + 64 * static_cast<std::uintptr_t>(some)});
        left -= some;
      }
      cpu::AskBeside beside;
      beside.begin(ranges);
      BOOST_TEST(beside.has_asked() == (lines == 0));
      beside.spread(passes);
      std::ptrdiff_t done = 0;
      while (done < passes && !beside.has_asked()) beside.pass(), ++done;
      BOOST_TEST(beside.has_asked(), lines << " lines in " << passes << " passes");
      // The last comes at most two of its own shares early.
      if (lines > 0) BOOST_TEST((done + 2) * lines >= passes * (lines - 1));
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
