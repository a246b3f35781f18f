// KV prefetch: a product prefetches all lines of the tiles that are read next, once, and no bit of the product depends
// on it.
#include <boost/test/unit_test.hpp>

#include <set>
#include <tuple>
#include <utility>

#include "helpers.h"
#include "linear_problem.h"
#include "tenon/ops/cpu/head.h"
#include "tenon/weights/bfloat16.h"
#include "tenon/weights/float32.h"
#include "tenon/weights/float8.h"
#include "tenon/weights/int4.h"
#include "tenon/weights/int8.h"
#include "tenon/weights/int8_act8.h"

BOOST_AUTO_TEST_SUITE(ops_kv_prefetch)

using namespace tenon;
using namespace tenon::test;

namespace {

constexpr int kLayer = 1, kHeads = 3;

// A step of sequences of different lengths. Every third has `rows` rows, the others one.
template <class E>
struct Step {
  KvShape shape;
  TestKvOf<E> kv;
  Batch batch;

  Step(int sequences, int head_dim, int longest, int rows = 1)
      : shape{.layers = 2, .heads = kHeads, .head_dim = head_dim, .positions = longest + rows}, kv(shape, sequences) {
    for (int s = 0; s < sequences; ++s)
      append(batch, sequences - 1 - s, (s * 37 + longest) % (longest + 1), s % 3 == 1 ? rows : 1);
    kv.see(batch.view());
  }
};

template <class V>
KvPrefetchHint hint_of(const BatchView& batch, const V& view, int head_dim, int window = 0) {
  return kv_prefetch_hint(batch, view, kLayer, kHeads, head_dim, window);
}

// Numbers of the lines of all visible tiles of all heads.
template <class E>
std::multiset<std::uintptr_t> lines_of(const Step<E>& s, int window) {
  std::multiset<std::uintptr_t> lines;
  const auto add = [&](const auto* data, std::size_t count) {
    const auto begin = reinterpret_cast<std::uintptr_t>(data), end = begin + count * sizeof *data;
    for (std::uintptr_t line = begin / 64; line < (end + 63) / 64; ++line) lines.insert(line);
  };
  const BatchView batch = s.batch.view();
  const auto view = s.kv.view();
  const auto dim = static_cast<std::size_t>(s.shape.head_dim), width = static_cast<std::size_t>(s.shape.value_stride());
  for (int i = 0; i < batch.sequence_count; ++i) {
    const SequenceRows& rows = batch.sequences[i];
    const int sees = window > 0 ? std::max(0, rows.start - window + 1) : 0;
    for (int h = 0; h < kHeads; ++h) {
      for (int t = sees / 16; t <= (rows.start + rows.rows - 1) / 16; ++t) {
        const auto tile = view.tile(kLayer, rows.slot, h, t);
        add(tile.keys, dim * 16), add(tile.values, width * 16);
        if constexpr (has_scales<E>) add(tile.key_scales, 16), add(tile.value_scales, 16);
      }
    }
  }
  return lines;
}

// Lines of all pieces, whose shares are equal.
std::multiset<std::uintptr_t> lines_prefetched(cpu::KvLines kv, int pieces) {
  std::multiset<std::uintptr_t> lines;
  std::size_t least = SIZE_MAX, most = 0;
  for (int piece = 0; piece < pieces; ++piece) {
    std::vector<cpu::PrefetchPacer::Lines> ranges;
    kv.share(ranges);
    const std::size_t before = lines.size();
    for (const auto& range : ranges) {
      BOOST_TEST((range.at < range.end && range.at % 64 == 0 && range.end % 64 == 0));
      for (std::uintptr_t at = range.at; at < range.end; at += 64) lines.insert(at / 64);
    }
    least = std::min(least, lines.size() - before), most = std::max(most, lines.size() - before);
  }
  BOOST_TEST(most <= least + 1);
  std::vector<cpu::PrefetchPacer::Lines> more;  // for a piece of another thread's part
  kv.share(more);
  BOOST_TEST(more.empty());
  return lines;
}

using Elements = std::tuple<float, bfloat16, std::int8_t>;
using Formats = std::tuple<Float32, BFloat16, Float8<E4M3>, ZeroPointInt8, GroupInt4, ZeroPointInt8Act8>;

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(threads_ask_for_every_line_together, E, Elements) {
  for (const int head_dim : {64, 21}) {
    for (const int threads : {1, 2, 5}) {
      for (const auto& [window, rows] : {std::pair(0, 1), std::pair(24, 1), std::pair(0, 40), std::pair(24, 40)}) {
        ThreadPool pool(threads);
        Step<E> s(7, head_dim, 70, rows);
        const auto view = s.kv.view();
        const KvPrefetchHint hint = hint_of(s.batch.view(), view, head_dim, window);
        std::multiset<std::uintptr_t> prefetched;
        for (int t = 0; t < threads; ++t) prefetched.merge(lines_prefetched({pool, hint, t, 1 + 8 * t}, 1 + 8 * t));
        const auto wanted = lines_of(s, window);
        // Tiles that share a line list it each. No line is missing, and no other line is listed.
        BOOST_TEST((std::set(prefetched.begin(), prefetched.end()) == std::set(wanted.begin(), wanted.end())));
        BOOST_TEST(prefetched.size() <= wanted.size());
      }
    }
  }
}

// At most the budget, beginning with the tiles that are written.
BOOST_AUTO_TEST_CASE(long_texts_are_asked_for_from_the_newest_tiles_on) {
  ThreadPool pool(1);
  Step<float> s(8, 64, 1000);
  const auto view = s.kv.view();
  const auto prefetched = lines_prefetched({pool, hint_of(s.batch.view(), view, 64), 0, 18}, 18);
  BOOST_TEST(prefetched.size() == cpu::most_kv_lines());
  for (const auto line : lines_of(s, 1)) BOOST_TEST(prefetched.count(line) == 1u);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(products_have_the_same_bits, P, Formats) {
  Step<float> s(9, 20, 40);
  const auto view = s.kv.view();
  const KvPrefetchHint hint = hint_of(s.batch.view(), view, 20);
  for (const int rows : {1, 6, 7, 9, 40}) {
    const Problem p(77, 200);
    const Packed<P> packed(p.weight);
    for_each_cpu(
        [&](Cpu& device) {
          Matrix plain = p.output(rows), prefetching = p.output(rows);
          auto args = p.args(packed.view(), kEpilogues[5], 0, rows, plain);
          linear(device, args);
          args = p.args(packed.view(), kEpilogues[5], 0, rows, prefetching);
          device.will_read(hint);
          linear(device, args);
          BOOST_TEST(same_bits(plain, prefetching), name_of(device) << ", " << rows << " rows");
        },
        3);
  }
}

// Kernels pass often enough to prefetch everything.
BOOST_AUTO_TEST_CASE(a_product_asks_for_all_lines) {
  if (best_isa() != Isa::avx512) {
    BOOST_TEST_MESSAGE("no AVX-512: kernels prefetch nothing");
    return;
  }
  Step<float> s(9, 64, 100);
  const auto view = s.kv.view();
  const KvPrefetchHint hint = hint_of(s.batch.view(), view, 64);
  const Problem p(77, 200);
  const Packed<ZeroPointInt8> packed(p.weight);
  Cpu device({.threads = 1});
  Matrix y = p.output(8);
  cpu::KvPrefetch prefetch(device, hint);
  cpu::with_panels(device, p.args(packed.view(), kEpilogues[0], 0, 8, y), [&](cpu::PanelJob job, auto&& compute) {
    for (int piece = 0; piece < 4; ++piece) {
      job.pacer = prefetch.next(0, 4);  // not all at once
      BOOST_REQUIRE(job.pacer);
      compute(job, piece * 3, piece * 3 + 3, piece * 48, 0);
      BOOST_TEST(job.pacer->lines() == 0u);
    }
  });
  BOOST_TEST(!prefetch.next(0, 4));
}

namespace {

int tiles_listed = 0;
KvPrefetchHint::Tile count_tiles(const void*, int, int, int, int, int) {
  return ++tiles_listed, KvPrefetchHint::Tile{};
}

}  // namespace

// A hint is for the next product alone, whether or not that prefetches.
BOOST_AUTO_TEST_CASE(one_product_takes_the_hint) {
  Step<float> s(9, 64, 100);
  const auto view = s.kv.view();
  KvPrefetchHint hint = hint_of(s.batch.view(), view, 64);
  hint.tile_of = count_tiles;
  const Problem p(77, 200);
  const Packed<ZeroPointInt8> packed(p.weight);
  Cpu device({.threads = 1});
  const auto listed = [&](int rows) {
    Matrix y = p.output(rows);
    tiles_listed = 0;
    linear(device, p.args(packed.view(), kEpilogues[0], 0, rows, y));
    return tiles_listed > 0;
  };
  const bool paces = best_isa() == Isa::avx512;
  BOOST_TEST(!listed(8));
  device.will_read(hint);
  BOOST_TEST(listed(8) == paces);
  BOOST_TEST(!listed(8));
  device.will_read(hint);
  BOOST_TEST(!listed(1));  // memory bounds it
  BOOST_TEST(!listed(8));
  device.will_read(hint);
  device.begin_step();
  BOOST_TEST(!listed(8));
  device.will_read(hint);
  Matrix logits(8, 200, 200);
  head(device, HeadArgs<ZeroPointInt8::View>{p.x.view(0, 8), packed.view(), logits.view()});
  BOOST_TEST(!tiles_listed);
  BOOST_TEST(!listed(8));
}

BOOST_AUTO_TEST_SUITE_END()
