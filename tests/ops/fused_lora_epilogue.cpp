// linear with the LoRA updates of its rows: fused or not, the bits are those of low_rank followed by linear.
#include <boost/test/unit_test.hpp>

#include <numeric>
#include <tuple>

#include "linear_problem.h"
#include "low_rank_problem.h"
#include "tenon/ops/cpu/prefetch_policy.h"
#include "tenon/weights/bfloat16.h"
#include "tenon/weights/bfloat16_dot.h"
#include "tenon/weights/float32.h"
#include "tenon/weights/float8.h"
#include "tenon/weights/int4.h"
#include "tenon/weights/int8.h"
#include "tenon/weights/int8_act8.h"

BOOST_AUTO_TEST_SUITE(ops_fused_lora_epilogue)

using namespace tenon;
using namespace tenon::test;
using namespace tenon::test::low_rank_problem;

// One format per kernel path, and one without kernels.
using Formats =
    std::tuple<Float32, BFloat16, Float8<E4M3>, ZeroPointInt8, GroupInt4, ZeroPointInt8Act8, BFloat16Dot, ColumnMajor>;

// Formats whose kernels pace prefetches.
using AskingFormats = std::tuple<Float32, BFloat16, Float8<E4M3>, Float8<E5M2>, ZeroPointInt8, GroupInt4, ColumnMajor>;

namespace {

// A matrix, and rows, some of which have updates.
struct Updated {
  Problem problem;
  Step step;
  AdapterGroups groups;
  Epilogue epilogue;

  Updated(int in, int out, int rows, const std::vector<TestAdapter>& adapters,
          AnyLoRA::Kind kind = AnyLoRA::Kind::segmented, const Epilogue& ends = kEpilogues[5])
      : problem(in, out), step(in, out, rows), epilogue(ends) {
    mix(step, adapters, static_cast<std::uint64_t>(rows));
    groups = arranged(step, kind);
  }

  // The y of op(args, updates) for the problem's first rows.
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
  all.emplace_back(
      in, std::vector{random_update(in, out / 5, out / 2, 3, 2), random_update(in, out / 3, out - out / 3, 17, 3)});
  all.emplace_back(in, std::vector{random_update(in, out - 1, 1, 5, 4, FactorType::float16)}, FactorType::float16);
  all.emplace_back(in, std::vector{random_update(in, 0, out, 8, 5, FactorType::bfloat16)}, FactorType::bfloat16);
  all.emplace_back(in, std::vector{random_update(in, 0, out, 4, 6)}, FactorType::float32,
                   Site::mlp_up);  // of another matrix
  all.emplace_back(in,
                   std::vector{random_update(in, 0, out, 6, 7, FactorType::float16), random_update(in, 0, out, 2, 8)},
                   std::vector{FactorType::float16, FactorType::float32});
  return all;
}

cpu::PanelJob job_of(const LowRankArgs& updates, int piece_panels) {
  cpu::PanelJob job{};
  job.tokens = updates.x.rows, job.inputs = updates.x.cols, job.outputs = updates.delta.cols;
  job.piece_panels = piece_panels;
  return job;
}

template <class P>
void check(int in, int out, int rows, int most_threads, const Epilogue& ends = kEpilogues[5]) {
  const std::vector<TestAdapter> adapters = some_adapters(in, out);
  const Updated u(in, out, rows, adapters, AnyLoRA::Kind::segmented, ends);
  const Packed<P> packed(u.problem.weight);
  Cpu plain({.threads = 1, .isa = Isa::portable});
  const Matrix truth = u.one_after_the_other(plain, packed.view());
  TestKv kv({.layers = 1, .heads = 3, .head_dim = 20, .positions = 50}, 4);
  Batch batch;
  for (int s = 0; s < 4; ++s) append(batch, s, 10 * s, 1);
  kv.see(batch.view());
  const auto view = kv.view();
  const KvPrefetchHint hint = kv_prefetch_hint(batch.view(), view, 0, 3, 20, 0);
  for_each_cpu(
      [&](Cpu& device) {
        const Matrix fused = u.result(packed.view(), [&](const auto& args, const LowRankArgs& updates) {
          cpu::multiply_and_update(device, args, updates);
        });
        const Matrix prefetching = u.result(packed.view(), [&](const auto& args, const LowRankArgs& updates) {
          device.will_read(hint);
          cpu::multiply_and_update(device, args, updates);
        });
        const Matrix either = u.result(
            packed.view(), [&](const auto& args, const LowRankArgs& updates) { linear(device, args, updates); });
        const std::string what = name_of(device) + ": " + std::to_string(in) + " -> " + std::to_string(out) + ", " +
                                 std::to_string(rows) + " rows";
        BOOST_TEST(same_bits(fused, truth), what);
        BOOST_TEST(same_bits(prefetching, truth), what);
        BOOST_TEST(same_bits(either, truth), what);
        BOOST_TEST((gaps_untouched(fused) && gaps_untouched(prefetching) && gaps_untouched(either)), what);
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
  check<P>(48, 131, 50, 4);  // fewer blocks than threads
  check<P>(40, 200, 40, 3, kEpilogues[10]);
}

// The same rows in other arrangements.
BOOST_AUTO_TEST_CASE(are_the_same_in_any_arrangement) {
  const std::vector<TestAdapter> adapters = some_adapters(64, 131);
  Cpu device({.threads = 2});
  std::vector<Matrix> results;
  for (const auto kind : kKinds) {
    const Updated u(64, 131, 37, adapters, kind);
    const Packed<Float32> packed(u.problem.weight);
    results.push_back(
        u.result(packed.view(), [&](const auto& args, const LowRankArgs& updates) { linear(device, args, updates); }));
    results.push_back(u.one_after_the_other(device, packed.view()));
  }
  for (const Matrix& each : results) BOOST_TEST(same_bits(each, results.front()));
}

// Consecutive rows of one adapter share its updates, although each is a group of its own: their factors are prefetched
// once.
BOOST_AUTO_TEST_CASE(gathered_rows_of_one_adapter_share_its_updates) {
  const std::vector<TestAdapter> adapters = some_adapters(64, 131);
  Step s(64, 131, 12);
  for (int r = 0; r < 12; ++r) s.sets[size(r)] = adapters[size(r / 6)].set.get();
  const AdapterGroups groups = arranged(s, AnyLoRA::Kind::gathered);
  Deltas d(s);
  const cpu::LowRankJobs all(LowRankArgs{s.x.view(), &groups, 1, Site::qkv, d.memory.view(), d.rows.data()}, 2);
  BOOST_REQUIRE(all.jobs.size() == 12u);
  BOOST_REQUIRE(all.terms.size() == 18u);  // one each for the first adapter's rows, two for the second's
  for (std::size_t i = 0; i < 18; ++i) BOOST_TEST(all.terms[i].again == (i != 0 && i != 6 && i != 7), "term " << i);
}

// Before the first block is made, and while each block but the last is multiplied. Few lines are prefetched at once.
BOOST_AUTO_TEST_CASE(factors_of_the_next_block_are_asked_for) {
  Cpu device({.threads = 1});
  for (const int rank : {4, 64}) {
    std::vector<TestAdapter> adapters;
    for (int i = 0; i < 3; ++i) adapters.emplace_back(64, std::vector{random_update(64, 0, 320, rank, size(i))});
    const Updated u(64, 320, 40, adapters);
    const Packed<Float32> packed(u.problem.weight);
    u.result(packed.view(), [&](const auto& args, const LowRankArgs& updates) {
      const std::size_t terms = cpu::LowRankJobs(updates, 1).terms.size();
      cpu::FusedLoraEpilogue made(device, updates, job_of(updates, 4));
      for (int output = 0; output < args.y.cols; output += 64) {
        BOOST_TEST(made.prefetched(output, 0) == terms);
        BOOST_TEST(made.prefetched(output + 64, 0) == 0u);
        cpu::PanelJob job{};
        made.make(output, output + 64, 0, job);
        BOOST_TEST((job.pacer != nullptr) == (rank == 64 && output + 64 < args.y.cols));
        if (!job.pacer) continue;
        BOOST_TEST(made.prefetched(output + 64, 0) == 0u);
        job.pacer->prefetch_all();
      }
    });
  }
}

// The outputs of the next block in each gain, once for rows that follow one another and share it.
BOOST_AUTO_TEST_CASE(gains_of_the_next_block_are_asked_for) {
  Cpu device({.threads = 1});
  std::vector<TestAdapter> adapters;
  for (int i = 0; i < 3; ++i) adapters.emplace_back(64, std::vector{random_update(64, 0, 320, 64, size(i))});
  const Updated u(64, 320, 40, adapters);
  const Packed<Float32> packed(u.problem.weight);
  u.result(packed.view(), [&](const auto&, const LowRankArgs& updates) {
    const auto asked = [&](const ProductChange* changes, int output) {
      cpu::PanelJob all = job_of(updates, 4), job{};
      all.changes = changes;
      cpu::FusedLoraEpilogue made(device, updates, all);
      made.make(output, output + 64, 0, job);
      return job.pacer ? job.pacer->lines() : 0;
    };
    std::vector<float> gains(3 * 320 + 16);
    const float* const first = gains.data() + 16 - reinterpret_cast<std::uintptr_t>(gains.data()) / 4 % 16;
    std::vector<ProductChange> changes(40);
    for (const std::size_t row : {3u, 4u, 20u}) changes[row].gain = first + (row == 20 ? 320 : 0);
    const std::vector<ProductChange> none(40);
    // Two gains of 64 outputs, each of four lines; too few lines alone are prefetched at once.
    const std::size_t factors = asked(nullptr, 64);
    BOOST_TEST(factors > cpu::cpu_tuning().immediate_prefetch_lines);
    BOOST_TEST(asked(none.data(), 64) == factors);
    BOOST_TEST(asked(changes.data(), 64) == factors + 8);
    BOOST_TEST(asked(changes.data(), 256) == 0u);  // the last block has no next one
  });
}

// With pieces of 3 panels, a block ends within a piece. Each block is prefetched once, with the piece that begins the
// block before.
BOOST_AUTO_TEST_CASE(pieces_that_are_no_blocks_ask_for_each_block_once) {
  Cpu device({.threads = 1});
  std::vector<TestAdapter> adapters;
  for (int i = 0; i < 3; ++i) adapters.emplace_back(64, std::vector{random_update(64, 0, 320, 64, size(i))});
  const Updated u(64, 320, 40, adapters);
  const Packed<Float32> packed(u.problem.weight);
  u.result(packed.view(), [&](const auto& args, const LowRankArgs& updates) {
    cpu::FusedLoraEpilogue made(device, updates, job_of(updates, 3));
    int begun = 0;  // blocks
    for (int output = 0; output < args.y.cols; output += 48) {
      cpu::PanelJob job{};
      const int last = std::min(output + 48, args.y.cols);
      if (begun < 5) BOOST_TEST(made.prefetched(begun * 64, 0) > 0u, "block " << begun);
      made.make(output, last, 0, job);
      const bool begins = begun * 64 < last;
      if (begins) ++begun;
      BOOST_TEST((job.pacer != nullptr) == (begins && begun < 5), "output " << output);
      if (job.pacer) job.pacer->prefetch_all();
    }
    BOOST_TEST(begun == 5);
  });
}

// In the order of a thread that takes pieces of others: a block that was dropped is made again.
BOOST_AUTO_TEST_CASE(pieces_in_any_order_find_their_updates) {
  const std::vector<TestAdapter> adapters = some_adapters(64, 700);
  const Updated u(64, 700, 20, adapters);
  const Packed<Float32> packed(u.problem.weight);
  Cpu device({.threads = 1});
  u.result(packed.view(), [&](const auto&, const LowRankArgs& updates) {
    low_rank(device, updates);
    for (const int panels : {3, 4}) {
      const cpu::PanelJob all = job_of(updates, panels);
      cpu::FusedLoraEpilogue made(device, updates, all);
      for (const int piece : {5, 0, 3, 4, 10, 9, 1, 2, 1, cpu::piece_count(all) - 1, 0}) {
        const int output = piece * panels * kPanelRows, last = std::min(output + panels * kPanelRows, all.outputs);
        cpu::PanelJob job{};
        made.make(output, last, 0, job);
        for (int r = 0; r < all.tokens; ++r) {
          BOOST_REQUIRE((job.delta[r] == nullptr) == (updates.deltas[r] == nullptr));
          if (!job.delta[r]) continue;
          BOOST_TEST(same_bits(job.delta[r] + (output - job.delta_begin), updates.deltas[r] + output, last - output),
                     "pieces of " << panels << " panels: " << piece << ", row " << r);
        }
      }
    }
  });
}

// While one thread multiplies a piece, it prefetches that piece's share of keys and values, not all of them.
BOOST_AUTO_TEST_CASE(keys_and_values_are_asked_for_piece_by_piece) {
  const std::vector<TestAdapter> adapters = some_adapters(64, 640);
  Updated u(64, 640, 20, adapters);
  const Packed<Float32> packed(u.problem.weight);
  TestKv kv({.layers = 1, .heads = 4, .head_dim = 64, .positions = 320}, 8);
  Batch batch;
  for (int s = 0; s < 8; ++s) append(batch, s, 319, 1);
  kv.see(batch.view());
  const auto view = kv.view();
  const KvPrefetchHint hint = kv_prefetch_hint(batch.view(), view, 0, 4, 64, 0);
  Cpu device({.threads = 1});
  u.result(packed.view(), [&](const auto& args, const LowRankArgs& updates) {
    for (const int panels : {3, 4}) {
      const cpu::PanelJob all = job_of(updates, panels);
      const int outputs = panels * kPanelRows;
      const auto pieces = static_cast<std::size_t>(cpu::piece_count(all));
      cpu::FusedLoraEpilogue with(device, updates, all, &hint), without(device, updates, all);
      const auto lines = [&](cpu::FusedLoraEpilogue& made, int output) {
        cpu::PanelJob job{};
        made.make(output, std::min(output + outputs, args.y.cols), 0, job);
        const std::size_t prefetched = job.pacer ? job.pacer->lines() : 0;
        if (job.pacer) job.pacer->prefetch_all();
        return prefetched;
      };
      std::size_t sum = 0;
      for (int output = 0; output < args.y.cols; output += outputs) {
        const std::size_t more = lines(with, output) - lines(without, output);
        BOOST_TEST((more >= cpu::most_kv_lines() / pieces && more <= cpu::most_kv_lines() / pieces + 1),
                   "output " << output << ": " << more);
        sum += more;
      }
      BOOST_TEST(sum == cpu::most_kv_lines());
    }
  });
}

// A matrix that no row has updates for.
BOOST_AUTO_TEST_CASE(no_updates_at_all) {
  std::vector<TestAdapter> adapters;
  adapters.emplace_back(64, std::vector{random_update(64, 0, 131, 4, 6)}, FactorType::float32, Site::mlp_up);
  const Updated u(64, 131, 20, adapters);
  const Packed<Float32> packed(u.problem.weight);
  Cpu device({.threads = 2});
  const Matrix plain = u.result(packed.view(), [&](const auto& args, const LowRankArgs&) { linear(device, args); });
  const Matrix fused = u.result(packed.view(), [&](const auto& args, const LowRankArgs& updates) {
    cpu::multiply_and_update(device, args, updates);
  });
  BOOST_TEST(same_bits(fused, plain));
}

// The inverse test: a missing update, or another one, is detected.
BOOST_AUTO_TEST_CASE(a_lost_update_is_caught) {
  const std::vector<TestAdapter> adapters = some_adapters(64, 131);
  Updated u(64, 131, 20, adapters);
  const Packed<Float32> packed(u.problem.weight);
  Cpu device({.threads = 2});
  const auto fused = [&] {
    return u.result(packed.view(), [&](const auto& args, const LowRankArgs& updates) {
      cpu::multiply_and_update(device, args, updates);
    });
  };
  const Matrix truth = u.one_after_the_other(device, packed.view());
  BOOST_TEST(same_bits(fused(), truth));
  AdapterGroup& group = u.groups.groups.front();
  --group.count;
  BOOST_TEST(!same_bits(fused(), truth));
  ++group.count;
  group.adapters = group.adapters == adapters[0].set.get() ? adapters[1].set.get() : adapters[0].set.get();
  BOOST_TEST(!same_bits(fused(), truth));
}

// Every line that an update's outputs read, and no further block.
BOOST_AUTO_TEST_CASE(lines_of_b_are_those_that_are_read) {
  for (const FactorType type : kTypes) {
    const auto bytes = type == FactorType::float32 ? 4u : 2u;
    for (const int rank : {1, 3, 16}) {
      for (const int first_output : {0, 30, 64}) {
        for (const int outputs : {1, 63, 64, 150}) {
          LowRank u;
          u.b = reinterpret_cast<const void*>(std::uintptr_t{1} << 20);
          u.type = type, u.rank = rank, u.first_output = first_output, u.outputs = outputs;
          for (int first = 0; first < 256; first += 64) {
            const auto range = cpu::lines_of_b(u, first, first + 64);
            std::uintptr_t least = 0, most = 0;  // bytes that are read
            for (int o = std::max(first - first_output, 0); o < std::min(first + 64 - first_output, outputs); ++o) {
              const int block = o / kFactorBlock * kFactorBlock, width = std::min(outputs - block, kFactorBlock);
              for (int i = 0; i < rank; ++i) {
                const auto at = (std::uintptr_t{1} << 20) +
                                bytes * static_cast<std::uintptr_t>(block * rank + i * width + o - block);
                least = least == 0 ? at : std::min(least, at);
                most = std::max(most, at + bytes);
              }
            }
            if (least == 0) {
              BOOST_TEST(range.at == range.end);
              continue;
            }
            BOOST_TEST((range.at <= least && range.end >= most && range.at % 64 == 0 && range.end % 64 == 0));
            BOOST_TEST(range.end - range.at <= 2 * bytes * static_cast<std::uintptr_t>(kFactorBlock * rank) + 64);
          }
        }
      }
    }
  }
}

// A kernel passes enough lines to prefetch everything.
BOOST_AUTO_TEST_CASE_TEMPLATE(a_block_of_panels_asks_for_all_lines, P, AskingFormats) {
  if (best_isa() != Isa::avx512) {
    BOOST_TEST_MESSAGE("no AVX-512: kernels prefetch nothing");
    return;
  }
  Cpu device({.threads = 1});
  for (const int in : {8, 66, 77, 200}) {
    const Problem p(in, 64);
    const Packed<P> packed(p.weight);
    for (int rows = cpu::cpu_tuning().least_prefetch_rows; rows <= kMostRows; rows += 3) {
      for (const int lines : {1, 300, 5000}) {
        Matrix y = p.output(rows);
        const auto here = reinterpret_cast<std::uintptr_t>(y.row(0)) / 64 * 64;
        std::vector<cpu::PrefetchPacer::Lines> ranges(static_cast<std::size_t>(lines), {here, here + 64});
        cpu::PrefetchPacer pacer;
        pacer.begin(ranges);
        cpu::with_panels(device, p.args(packed.view(), kEpilogues[0], 0, rows, y),
                         [&](cpu::PanelJob job, auto&& compute) {
                           job.pacer = &pacer;
                           compute(job, 0, 4, 0, 0);
                         });
        BOOST_TEST(pacer.lines() == 0u,
                   in << " inputs, " << rows << " rows: of " << lines << " lines are left " << pacer.lines());
      }
    }
  }
}

// The product with a also passes enough.
BOOST_AUTO_TEST_CASE(a_term_that_shrinks_asks_for_all_lines) {
  for (const int in : {16, 33, 768}) {
    for (const int rank : kRanks) {
      const TestAdapter adapter(in, {random_update(in, 0, 64, rank, 1)});
      for (const int rows : {1, 2, 3, 16}) {
        const Step s(in, 64, rows);
        std::vector<int> all(size(rows));
        std::iota(all.begin(), all.end(), 0);
        std::vector<float> u(size(rows * rank)), prefetching(u);
        const cpu::LowRankTerm term{adapter.updates.front(), all.data(), 0, rows, true, false};
        for (const Isa isa : isas()) {
          cpu::shrink(isa, term, s.x.view(), u.data(), term.update.b);
          for (const int lines : {1, 300, 5000}) {
            const auto here = reinterpret_cast<std::uintptr_t>(u.data()) / 64 * 64;
            const std::vector<cpu::PrefetchPacer::Lines> ranges(size(lines), {here, here + 64});
            cpu::PrefetchPacer pacer;
            pacer.begin(ranges);
            cpu::shrink(isa, term, s.x.view(), prefetching.data(), term.update.b, &pacer);
            BOOST_TEST(pacer.lines() == 0u,
                       in << " inputs, rank " << rank << ", " << rows << " rows: " << pacer.lines() << " are left");
            BOOST_TEST((prefetching == u));
          }
        }
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
