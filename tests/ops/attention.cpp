// attention: a row's result depends on its own sequence up to its own position and on the cache's element, and on
// nothing else. It does not depend on chunks, neighbours, threads, instruction sets, the cache, or the cache's contents
// after the row.
#include <boost/test/unit_test.hpp>

#include "attention_problem.h"
#include "tenon/cache/contiguous.h"
#include "tenon/cache/no_cache.h"
#include "tenon/cache/paged.h"
#include "tenon/cache/store.h"

BOOST_AUTO_TEST_SUITE(ops_attention)

using namespace tenon;
using namespace tenon::test;

BOOST_AUTO_TEST_CASE_TEMPLATE(a_short_sequence_may_be_cut_anywhere, Case, Cases) {
  using Policy = typename Case::Policy;
  using E = typename Case::E;
  for (const auto& p : problems<E>(1, 70)) {
    const Matrix truth = truth_of<Policy>(p);
    for_each_cpu(
        [&](Cpu& device) {
          const auto op = op_on<Policy>(device);
          BOOST_TEST(first_difference(at_once(p, op).view(), truth.view()) == -1, name_of(device)
                                                                                      << ", head_dim " << p.head_dim);
          for (int cut = 1; cut < p.length; cut += kEvery<E> * (p.head_dim <= 20 ? 1 : 3)) {
            auto kv = p.cache();
            Matrix out = p.output();
            step(p, kv, {{0, 0, cut}}, out, op);
            step(p, kv, {{0, cut, p.length - cut}}, out, op);
            BOOST_TEST(first_difference(out.view(), truth.view()) == -1,
                       name_of(device) << ", head_dim " << p.head_dim << ", cut at " << cut);
          }
        },
        p.head_dim == 20 ? 3 : 1);
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(rows_are_the_same_in_any_company_and_chunks, Case, Cases) {
  using Policy = typename Case::Policy;
  using E = typename Case::E;
  for (const auto& p : problems<E>(3, 70)) {
    const Matrix truth = truth_of<Policy>(p);
    for_each_cpu(
        [&](Cpu& device) {
          const auto op = op_on<Policy>(device);
          BOOST_TEST(first_difference(at_once(p, op).view(), truth.view()) == -1, name_of(device)
                                                                                      << ", head_dim " << p.head_dim);
          for (const std::uint64_t seed : {1, 2, 3}) {
            BOOST_TEST(first_difference(in_chunks(p, 20, seed, op).view(), truth.view()) == -1,
                       name_of(device) << ", head_dim " << p.head_dim);
          }
        },
        p.head_dim == 64 ? 4 : 1);
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_long_sequence_crosses_a_split, Case, Cases) {
  using Policy = typename Case::Policy;
  using E = typename Case::E;
  for (const auto& p : {AttentionProblem<E>(1, 300, 2, 1, 20), AttentionProblem<E>(1, 300, 1, 1, 64)}) {
    const int threads = p.head_dim == 20 ? 4 : 1;
    const Matrix truth = truth_of<Policy>(p);
    for_each_cpu(
        [&](Cpu& device) {
          const auto op = op_on<Policy>(device);
          BOOST_TEST(first_difference(at_once(p, op).view(), truth.view()) == -1, name_of(device));
          for (const int most : {7, 64, 200}) {
            BOOST_TEST(
                first_difference(in_chunks(p, most, static_cast<std::uint64_t>(most), op).view(), truth.view()) == -1,
                name_of(device));
          }
        },
        threads);
  }
}

// Blocks of 1..17 rows that begin on both sides of every boundary: tiles of 16, strides of 64, splits of 256.
BOOST_AUTO_TEST_CASE_TEMPLATE(blocks_of_rows_meet_every_boundary, Case, Cases) {
  using Policy = typename Case::Policy;
  using E = typename Case::E;
  const AttentionProblem<E> p(1, 600, 1, 1, 20);
  const Matrix truth = truth_of<Policy>(p);
  for (const Isa isa : isas()) {
    Cpu device({.threads = 1, .isa = isa});
    for (const int boundary : {0, 16, 64, 128, 256, 512}) {
      auto kv = p.cache();
      Matrix out = p.output();
      const int before = std::max(0, boundary - 18);
      if (before > 0) step(p, kv, {{0, 0, before}}, out, [](const auto&) {});  // only into the cache
      for (int start = before; start <= boundary + 1; ++start) {
        for (int rows = 1; rows <= 17;
             rows += isa == Isa::portable ? 4 : kEvery<E>) {  // plain C++ has no blocks and is slow
          auto now = kv;                                      // NaN after this block's last row
          step(p, now, {{0, start, rows}}, out, op_on<Policy>(device));
          BOOST_TEST(first_difference(out.view(start, rows), truth.view(start, rows)) == -1,
                     to_string(isa) << ": " << rows << " rows from " << start);
        }
        step(p, kv, {{0, start, 1}}, out, [](const auto&) {});
      }
    }
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(nothing_behind_a_row_and_nobody_beside_it_leaks_in, Case, Cases) {
  using Policy = typename Case::Policy;
  using E = typename Case::E;
  const AttentionProblem<E> p(3, 70, 2, 1, 20);
  const Matrix truth = truth_of<Policy>(p);
  auto hostile = p;  // the middle sequence is NaN and infinity everywhere
  for (int r = p.length; r < 2 * p.length; ++r) {
    for (int c = 0; c < p.q.cols; ++c) hostile.q.row(r)[c] = kNaN;
    for (int c = 0; c < p.keys.cols; ++c)
      hostile.keys.row(r)[c] = hostile.values.row(r)[c] = c % 2 ? kNaN : std::numeric_limits<float>::infinity();
  }
  for_each_cpu([&](Cpu& device) {
    for (const auto& out :
         {at_once(hostile, op_on<Policy>(device)), in_chunks(hostile, 20, 5, op_on<Policy>(device))}) {
      BOOST_TEST(first_difference(out.view(0, p.length), truth.view(0, p.length)) == -1);
      BOOST_TEST(first_difference(out.view(2 * p.length, p.length), truth.view(2 * p.length, p.length)) == -1);
      for (int r = p.length; r < 2 * p.length; ++r) BOOST_TEST(std::isnan(out.row(r)[0]));  // and stays visible
    }
  });
}

// A NaN key or query makes NaN of every row that sees it, and of no other.
BOOST_AUTO_TEST_CASE_TEMPLATE(nan_is_not_hidden, Case, Cases) {
  using Policy = typename Case::Policy;
  using E = typename Case::E;
  const AttentionProblem<E> p(1, 70, 1, 1, 20);
  const Matrix truth = truth_of<Policy>(p);
  for (const int bad : {0, 15, 16, 40, 69}) {
    auto hostile = p;
    hostile.keys.row(bad)[3] = kNaN;
    for_each_cpu(
        [&](Cpu& device) {
          const Matrix out = at_once(hostile, op_on<Policy>(device));
          BOOST_TEST(first_difference(out.view(0, bad), truth.view(0, bad)) == -1);
          for (int r = bad; r < p.length; ++r) {
            for (int c = 0; c < out.cols; ++c) BOOST_TEST(std::isnan(out.row(r)[c]));
          }
        },
        1);
  }
}

// The same for values: NaN or infinity affects their column, or the row's whole head if elements share a scale.
BOOST_AUTO_TEST_CASE_TEMPLATE(values_that_are_not_finite_are_not_hidden, Case, Cases) {
  using Policy = typename Case::Policy;
  using E = typename Case::E;
  const AttentionProblem<E> p(1, 70, 1, 1, 20);
  const Matrix truth = truth_of<Policy>(p);
  for (const float wrong : {kNaN, std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()}) {
    for (const int bad : {0, 16, 69}) {
      auto hostile = p;
      hostile.values.row(bad)[3] = wrong;
      for_each_cpu(
          [&](Cpu& device) {
            const Matrix out = at_once(hostile, op_on<Policy>(device));
            BOOST_TEST(first_difference(out.view(0, bad), truth.view(0, bad)) == -1);
            for (int r = bad; r < p.length; ++r) {
              for (int c = 0; c < out.cols; ++c) {
                if (c == 3 || has_scales<E>)
                  BOOST_TEST(!std::isfinite(out.row(r)[c]));
                else
                  BOOST_TEST(same_bits(out.row(r) + c, truth.row(r) + c, 1));
              }
            }
          },
          1);
    }
  }
}

// An infinite key, whose scores float32 would hide if they are -infinity.
BOOST_AUTO_TEST_CASE_TEMPLATE(an_infinite_key_is_not_hidden_by_its_scale, Policy, Policies) {
  AttentionProblem<std::int8_t> p(1, 20, 1, 1, 20);
  p.keys.row(7)[3] = std::numeric_limits<float>::infinity();
  for_each_cpu(
      [&](Cpu& device) {
        const Matrix out = at_once(p, op_on<Policy>(device));
        for (int r = 0; r < p.length; ++r) BOOST_TEST(std::isnan(out.row(r)[0]) == (r >= 7));
      },
      1);
}

namespace {

// The text through a cache: all its sequences together, in chunks if the cache keeps them.
template <class P, class Policy, class E>
Matrix through(const AttentionProblem<E>& p, Cpu& device) {
  CacheStore<P, Cpu> store(device, p.shape(), p.sequences * (p.length + 64));
  Matrix out = p.output();
  const int chunk = P::keeps_tokens ? 37 : p.length;
  for (int start = 0; start < p.length; start += chunk) {
    const int rows = std::min(chunk, p.length - start);
    Batch batch;
    for (int s = 0; s < p.sequences; ++s) {
      append(batch, s, start, rows);
      if (!store.ledger().grow(static_cast<SeqId>(s), rows)) throw std::runtime_error("no room");
    }
    Matrix q(p.sequences * rows, p.q.cols, p.q.cols), keys(q.rows, p.keys.cols, p.keys.cols),
        values = keys, y(q.rows, out.cols, out.cols);
    for (int i = 0; i < q.rows; ++i) {
      const int r = i / rows * p.length + start + i % rows;
      copy_row(p.q, r, q, i);
      copy_row(p.keys, r, keys, i);
      copy_row(p.values, r, values, i);
    }
    const auto kv = store.view(device, batch.sequences);
    store_kv(device,
             StoreKvArgs<typename P::View>{batch.view(), keys.view(), values.view(), kv, 1, p.kv_heads, p.head_dim});
    const float scale = 1.0f / std::sqrt(static_cast<float>(p.head_dim));
    attention(device, Policy{},
              AttentionArgs<typename P::View>{batch.view(), q.view(), kv, 1, p.heads, p.kv_heads, p.head_dim, scale,
                                              y.view()});
    for (int i = 0; i < q.rows; ++i) copy_row(y, i, out, i / rows * p.length + start + i % rows);
  }
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(every_cache_gives_the_same_bits, Case, Cases) {
  using Policy = typename Case::Policy;
  using E = typename Case::E;
  const AttentionProblem<E> p(2, 150, 2, 1, 20);
  const Matrix truth = truth_of<Policy>(p);
  for_each_cpu(
      [&](Cpu& device) {
        BOOST_TEST(first_difference(through<PagedKVOf<16, E>, Policy>(p, device).view(), truth.view()) == -1,
                   name_of(device));
        BOOST_TEST(first_difference(through<PagedKVOf<32, E>, Policy>(p, device).view(), truth.view()) == -1,
                   name_of(device));
        BOOST_TEST(first_difference(through<PagedKVOf<64, E>, Policy>(p, device).view(), truth.view()) == -1,
                   name_of(device));
        BOOST_TEST(first_difference(through<ContiguousKVOf<E>, Policy>(p, device).view(), truth.view()) == -1,
                   name_of(device));
        BOOST_TEST(first_difference(through<NoCacheOf<E>, Policy>(p, device).view(), truth.view()) == -1,
                   name_of(device));
      },
      2);
}

namespace {

template <class E>
AttentionProblem<E> stored_as(const AttentionProblem<float>& p) {
  AttentionProblem<E> other(p.sequences, p.length, p.heads, p.kv_heads, p.head_dim);
  other.q = p.q;
  other.keys = p.keys;
  other.values = p.values;
  return other;
}

}  // namespace

// bfloat16 is widened exactly: attention over it equals attention over float32 keys and values that were rounded
// before.
BOOST_AUTO_TEST_CASE_TEMPLATE(bfloat16_is_float32_over_rounded_values, Policy, Policies) {
  for (AttentionProblem<float> p : problems<float>(1, 150)) {
    const auto as_it_is = stored_as<bfloat16>(p);
    const Matrix unrounded = truth_of<Policy>(p);
    for (Matrix* m : {&p.keys, &p.values}) {
      for (int r = 0; r < m->rows; ++r) {
        for (int c = 0; c < m->cols; ++c) m->row(r)[c] = static_cast<float>(bfloat16(m->row(r)[c]));
      }
    }
    const Matrix rounded = truth_of<Policy>(p);
    for_each_cpu(
        [&](Cpu& device) {
          const Matrix out = at_once(as_it_is, op_on<Policy>(device));
          BOOST_TEST(first_difference(out.view(), rounded.view()) == -1, name_of(device)
                                                                             << ", head_dim " << p.head_dim);
          BOOST_TEST(first_difference(out.view(), unrounded.view()) == 0);  // the inverse test
        },
        1);
  }
}

// Rows of integers up to 127 times a power of two are int8 without rounding, and their scales multiply without
// rounding. Attention over them equals attention over float32, to the bit.
BOOST_AUTO_TEST_CASE_TEMPLATE(int8_whose_scales_are_powers_of_two_is_float32, Policy, Policies) {
  for (AttentionProblem<float> p : problems<float>(1, 150)) {
    Random random(static_cast<std::uint64_t>(p.head_dim));
    for (Matrix* m : {&p.keys, &p.values}) {
      for (int r = 0; r < m->rows; ++r) {
        for (int head = 0; head < p.kv_heads; ++head) {
          const float scale = std::ldexp(1.0f, -random.below(6) - 4);
          float* row = m->row(r) + head * p.head_dim;  // [head_dim]
          for (int d = 0; d < p.head_dim; ++d) row[d] = scale * static_cast<float>(random.below(255) - 127);
          row[random.below(p.head_dim)] = 127 * scale;
        }
      }
    }
    const Matrix exact = truth_of<Policy>(p);
    for_each_cpu(
        [&](Cpu& device) {
          const Matrix out = at_once(stored_as<std::int8_t>(p), op_on<Policy>(device));
          BOOST_TEST(first_difference(out.view(), exact.view()) == -1, name_of(device) << ", head_dim " << p.head_dim);
        },
        1);
    p.values.row(0)[0] += 0x1p-11f;  // the inverse test: a quarter of the smallest scale
    Cpu device({.threads = 1});
    BOOST_TEST(first_difference(at_once(stored_as<std::int8_t>(p), op_on<Policy>(device)).view(),
                                truth_of<Policy>(p).view()) == 0);
  }
}

// Numbers that float16 holds are read back unchanged: attention over them equals attention over float32, to the bit.
BOOST_AUTO_TEST_CASE_TEMPLATE(numbers_that_float16_holds_are_float32, Policy, Policies) {
  for (AttentionProblem<float> p : problems<float>(1, 150)) {
    for (Matrix* m : {&p.keys, &p.values}) {
      for (int r = 0; r < m->rows; ++r) {
        for (int c = 0; c < m->cols; ++c) m->row(r)[c] = static_cast<float>(float16(m->row(r)[c]));
      }
    }
    const Matrix exact = truth_of<Policy>(p);
    for_each_cpu(
        [&](Cpu& device) {
          const Matrix out = at_once(stored_as<float16>(p), op_on<Policy>(device));
          BOOST_TEST(first_difference(out.view(), exact.view()) == -1, name_of(device) << ", head_dim " << p.head_dim);
        },
        1);
    p.values.row(0)[0] =
        std::nextafterf(p.values.row(0)[0], 9.0f);  // the inverse test: a float32 that float16 does not hold
    Cpu device({.threads = 1});
    BOOST_TEST(first_difference(at_once(stored_as<float16>(p), op_on<Policy>(device)).view(),
                                truth_of<Policy>(p).view()) == 0);
  }
}

// Later tokens of the same sequence that are already in the cache (a preempted sequence, a longer neighbour of a fork)
// are not seen.
BOOST_AUTO_TEST_CASE_TEMPLATE(later_positions_are_unseen, Case, Cases) {
  using Policy = typename Case::Policy;
  using E = typename Case::E;
  const AttentionProblem<E> p(1, 70, 2, 1, 16);
  const Matrix truth = truth_of<Policy>(p);
  for_each_cpu(
      [&](Cpu& device) {
        auto kv = p.cache();
        Matrix out = p.output();
        step(p, kv, {{0, 0, p.length}}, out, [](const auto&) {});
        for (int t = 0; t < p.length; ++t) step(p, kv, {{0, t, 1}}, out, op_on<Policy>(device));
        BOOST_TEST(first_difference(out.view(), truth.view()) == -1, name_of(device));
      },
      2);
}

// Scores in the hundreds: the largest is subtracted before exp, in whichever stride it is.
BOOST_AUTO_TEST_CASE_TEMPLATE(large_scores_stay_finite, Case, Cases) {
  using Policy = typename Case::Policy;
  using E = typename Case::E;
  const AttentionProblem<E> p(1, 300, 1, 1, 64, 512.0f);
  const Matrix truth = truth_of<Policy>(p);
  Matrix expected = at_once(p, [](const auto& args) { reference::attention(args); });
  for_each_cpu(
      [&](Cpu& device) {
        const Matrix out = at_once(p, op_on<Policy>(device));
        BOOST_TEST(first_difference(out.view(), truth.view()) == -1);
        // A score of 10^3 has an ulp of 6e-5, and a chain of 64 a few of them.
        BOOST_TEST(largest_difference(out, expected) < 2e-3);
      },
      1);
}

// Tolerance 1e-5: the scores are the same bits in both, weights are positive and sum to 1, |v| <= 1. The order of at
// most 300 additions differs, and the rescaling: n u = 1.8e-5 in the worst case, sqrt(n) u = 1e-6 usually.
BOOST_AUTO_TEST_CASE_TEMPLATE(flash_and_direct_agree, E, Elements) {
  Cpu device;
  for (const auto& p : problems<E>(1, 300)) {
    const Matrix flash = at_once(p, op_on<FlashAttention>(device)), direct = at_once(p, op_on<DirectAttention>(device));
    BOOST_TEST(largest_difference(flash, direct) < 1e-5);
    BOOST_TEST_MESSAGE("head_dim " << p.head_dim << ": flash and direct differ by "
                                   << largest_difference(flash, direct));
    // The inverse test: a scale off by a thousandth, or one key too few, is detected.
    const auto scaled = at_once(p, [&](auto args) {
      args.scale *= 1.001f;
      attention(device, FlashAttention{}, args);
    });
    BOOST_TEST(largest_difference(scaled, direct) > 1e-5);
    const auto short_sighted = at_once(p, [&](auto args) {
      SequenceRows rows = *args.batch.sequences;
      rows.first_row = rows.rows - 1;
      rows.rows = 1;
      rows.start = p.length - 2;
      args.batch.sequences = &rows;
      attention(device, FlashAttention{}, args);
    });
    const int last = p.length - 1;
    double difference = 0;
    for (int c = 0; c < flash.cols; ++c)
      difference = std::max(difference, std::fabs(double{short_sighted.row(last)[c]} - direct.row(last)[c]));
    BOOST_TEST(difference > 1e-5);
  }
}

// Tolerance: a score is a chain of head_dim roundings of partial sums, which random signs keep near sqrt(head_dim),
// times a scale of 1 / sqrt(head_dim). Its error is some 4 sqrt(head_dim) u, and the output changes by at most twice
// that. Both sides read the elements that the reference stored. int8 adds a rounding per score and per weight.
BOOST_AUTO_TEST_CASE_TEMPLATE(agrees_with_the_reference, Case, Cases) {
  using Policy = typename Case::Policy;
  using E = typename Case::E;
  for (const auto& p : problems<E>(1, 300)) {
    const Matrix expected = at_once(p, [](const auto& args) { reference::attention(args); });
    const double tolerance = 1e-6 + 0x1p-24 * 8 * std::sqrt(p.head_dim);
    for (const Isa isa : isas()) {
      Cpu device({.threads = 2, .isa = isa});
      const Matrix out = at_once(p, op_on<Policy>(device));
      BOOST_TEST(largest_difference(out, expected) < tolerance);
      BOOST_TEST_MESSAGE(to_string(isa) << ", head_dim " << p.head_dim << ": off the reference by "
                                        << largest_difference(out, expected));
      const auto scaled = at_once(p, [&](auto args) {
        args.scale *= 1.001f;
        attention(device, Policy{}, args);
      });
      BOOST_TEST(largest_difference(scaled, expected) > tolerance);
    }
  }
}

namespace {

// Online softmax with splits that follow the caller: a kernel that breaks the promise if they follow the batch.
template <class SplitOf>
auto variant(SplitOf&& split_of) {
  return [split_of](const auto& args) {
    for (const SequenceRows* s = args.batch.sequences; s < args.batch.sequences + args.batch.sequence_count; ++s) {
      for (int r = s->first_row; r < s->first_row + s->rows; ++r) {
        const int seen = s->start + r - s->first_row + 1, split = split_of(*s), n = args.head_dim;
        float largest = -1e30f, total = 0;
        std::vector<float> out(static_cast<std::size_t>(n), 0.0f);
        for (int begin = 0; begin < seen; begin += split) {
          float top = -1e30f, sum = 0;
          std::vector<float> part(out.size(), 0.0f), scores;
          for (int t = begin; t < std::min(seen, begin + split); ++t) {
            const auto tile = args.kv.tile(args.layer, s->slot, 0, t / 16);
            float score = 0;
            for (int d = 0; d < n; ++d)
              score = std::fma(args.q.row(r)[d] * args.scale, tile.keys[d * 16 + t % 16], score);
            scores.push_back(score);
            top = std::max(top, score);
          }
          for (int t = begin; t < std::min(seen, begin + split); ++t) {
            const auto tile = args.kv.tile(args.layer, s->slot, 0, t / 16);
            const float weight = std::exp(scores[static_cast<std::size_t>(t - begin)] - top);
            sum += weight;
            for (int d = 0; d < n; ++d)
              part[static_cast<std::size_t>(d)] =
                  std::fma(weight, tile.values[t % 16 * ((n + 15) / 16 * 16) + d], part[static_cast<std::size_t>(d)]);
          }
          const float now = std::max(largest, top), a = std::exp(largest - now), b = std::exp(top - now);
          total = std::fma(total, a, sum * b);
          for (std::size_t d = 0; d < out.size(); ++d) out[d] = std::fma(out[d], a, part[d] * b);
          largest = now;
        }
        for (int d = 0; d < n; ++d) args.out.row(r)[d] = out[static_cast<std::size_t>(d)] / total;
      }
    }
  };
}

}  // namespace

// The inverse test.
BOOST_AUTO_TEST_CASE(splits_that_follow_the_batch_are_caught) {
  const AttentionProblem<float> p(1, 70, 1, 1, 16);
  const auto invariant = [&](auto&& op) {
    const Matrix truth = alone(p, op);
    return first_difference(at_once(p, op).view(), truth.view()) == -1 &&
           first_difference(in_chunks(p, 20, 1, op).view(), truth.view()) == -1;
  };
  BOOST_TEST(invariant(variant([](const SequenceRows&) { return 16; })));
  BOOST_TEST(!invariant(variant([](const SequenceRows& s) { return s.rows < 8 ? 16 : 32; })));
  BOOST_TEST(!invariant(variant([](const SequenceRows& s) { return s.start == 0 ? 64 : 16; })));
  BOOST_TEST(!invariant(
      variant([](const SequenceRows& s) { return (s.start + s.rows + 1) / 2; })));  // flash decoding's usual way
  Cpu device({.threads = 1});
  BOOST_TEST(invariant(op_on<FlashAttention>(device)));
  BOOST_TEST(invariant(op_on<DirectAttention>(device)));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(zero_rows_write_nothing, Case, Cases) {
  using Policy = typename Case::Policy;
  using E = typename Case::E;
  const AttentionProblem<E> p(1, 16, 1, 1, 16);
  const auto kv = p.cache();
  Matrix out = p.output();
  Batch empty;
  Cpu device({.threads = 2});
  attention(device, Policy{}, p.args(empty, p.q, kv, out));
  append(empty, 0, 0, 0);
  attention(device, Policy{}, p.args(empty, p.q, kv, out));
  BOOST_TEST(out.row(0)[0] == kGap);
}

BOOST_AUTO_TEST_SUITE_END()
