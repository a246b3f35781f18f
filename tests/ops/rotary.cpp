// Rotary positions: a row's angles depend on its position and frequencies alone, its rotation on its angles alone.
#include <boost/test/unit_test.hpp>

#include <cmath>

#include "helpers.h"
#include "tenon/ops/cpu/rotary.h"
#include "tenon/ops/reference.h"

BOOST_AUTO_TEST_SUITE(ops_rotary)

using namespace tenon;
using namespace tenon::test;

namespace {

// Tails of every kind in half a head.
constexpr int kHeadDims[] = {2, 4, 16, 20, 32, 62, 64, 80, 128, 256};

// Positions of three texts, with distant ones.
struct Positions {
  std::vector<int> all;
  Positions() {
    for (int r = 0; r < kMostRows; ++r) all.push_back(r < 60 ? r : r < 100 ? 4000 + r : (1 << 22) - 150 + r);
  }
  BatchView rows(int first, int count) const { return {.positions = all.data() + first, .rows = count}; }
};

// 10000^(-2 i / head_dim), of each row's own if there are several.
Matrix frequencies(int head_dim, int rows = 1) {
  Matrix f(rows, head_dim / 2, head_dim / 2 + (rows > 1 ? 3 : 0));
  for (int r = 0; r < rows; ++r) {
    for (int i = 0; i < head_dim / 2; ++i) f.row(r)[i] = static_cast<float>(std::pow(10000.0 + r, -2.0 * i / head_dim));
  }
  return f;
}

Matrix angles_of(Cpu& device, const BatchView& rows, const Matrix& frequencies) {
  Matrix angles(rows.rows, 2 * frequencies.cols, 2 * frequencies.cols + 3);
  rotary_angles(device, {.batch = rows,
                         .frequencies = frequencies.row(0),
                         .frequency_stride = frequencies.rows > 1 ? frequencies.stride : 0,
                         .angles = angles.view()});
  if (!gaps_untouched(angles)) throw std::runtime_error("rotary_angles wrote between rows");
  return angles;
}

struct Turn {
  int heads, kv_heads, head_dim;
  Matrix q, k;
  Turn(int query_heads, int key_heads, int dim)
      : heads(query_heads),
        kv_heads(key_heads),
        head_dim(dim),
        q(random_matrix(kMostRows, query_heads * dim, 1, query_heads * dim + 3)),
        k(random_matrix(kMostRows, key_heads * dim, 2, key_heads * dim + 5)) {}
  RotateArgs args(const Matrix& angles, int first, int rows) const {
    return {.angles = angles.view(first, rows),
            .q = q.view(first, rows),
            .k = k.view(first, rows),
            .heads = heads,
            .kv_heads = kv_heads,
            .head_dim = head_dim};
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(angles_are_the_same_in_any_batch_on_any_threads_and_instructions) {
  const Positions positions;
  Cpu plain({.threads = 1, .isa = Isa::portable});
  for (const int head_dim : kHeadDims) {
    const Matrix f = frequencies(head_dim), truth = angles_of(plain, positions.rows(0, kMostRows), f);
    for_each_cpu(
        [&](Cpu& device) {
          for (const int rows : kRows) {
            const int first = rows * 7 % (kMostRows - rows + 1);
            BOOST_TEST(first_difference(angles_of(device, positions.rows(first, rows), f).view(),
                                        truth.view(first, rows)) == -1,
                       name_of(device) << ", head_dim " << head_dim);
          }
        },
        head_dim == 64 ? 4 : 1);
  }
}

BOOST_AUTO_TEST_CASE(rows_may_have_frequencies_of_their_own) {
  const Positions positions;
  const Matrix each = frequencies(20, kMostRows);
  for_each_cpu(
      [&](Cpu& device) {
        const Matrix together = angles_of(device, positions.rows(0, kMostRows), each);
        for (int r = 0; r < kMostRows; ++r) {
          Matrix own(1, 10, 10);
          std::memcpy(own.row(0), each.row(r), 10 * sizeof(float));
          BOOST_TEST(first_difference(angles_of(device, positions.rows(r, 1), own).view(), together.view(r, 1)) == -1);
        }
      },
      2);
}

// The nearest floats to cosine and sine of position * frequency in float32, by libm's double. One in 2^26 may be the
// second nearest (sincos.cpp); none of these is.
BOOST_AUTO_TEST_CASE(angles_agree_with_the_reference) {
  const Positions positions;
  for (const int head_dim : kHeadDims) {
    const Matrix f = frequencies(head_dim);
    Matrix expected(kMostRows, head_dim, head_dim);
    reference::rotary_angles({.batch = positions.rows(0, kMostRows),
                              .frequencies = f.row(0),
                              .frequency_stride = 0,
                              .angles = expected.view()});
    for_each_cpu(
        [&](Cpu& device) {
          BOOST_TEST(first_difference(angles_of(device, positions.rows(0, kMostRows), f).view(), expected.view()) ==
                     -1);
        },
        1);
  }
}

// The inverse test: an angle that is not rounded to float32 differs from some position on.
BOOST_AUTO_TEST_CASE(angles_are_rounded_to_float32) {
  const Positions positions;
  const Matrix f = frequencies(64);
  Cpu device({.threads = 1});
  const Matrix angles = angles_of(device, positions.rows(0, kMostRows), f);
  int different = 0;
  for (int r = 0; r < kMostRows; ++r) {
    for (int i = 0; i < 32; ++i)
      different +=
          angles.row(r)[i] !=
          static_cast<float>(std::cos(static_cast<double>(positions.all[static_cast<std::size_t>(r)]) * f.row(0)[i]));
  }
  BOOST_TEST(different > 100);
}

BOOST_AUTO_TEST_CASE(rows_are_turned_the_same_in_any_batch_on_any_threads_and_instructions) {
  const Positions positions;
  Cpu plain({.threads = 1, .isa = Isa::portable});
  for (const int head_dim : kHeadDims) {
    const Matrix angles = angles_of(plain, positions.rows(0, kMostRows), frequencies(head_dim));
    const Turn start(3, 1, head_dim);
    Turn truth = start;
    for (int r = 0; r < kMostRows; ++r) rotate(plain, truth.args(angles, r, 1));
    BOOST_TEST(!same_bits(truth.q, start.q));
    for_each_cpu(
        [&](Cpu& device) {
          for (const int rows : kRows) {
            const int first = rows * 7 % (kMostRows - rows + 1);
            Turn turn = start;
            rotate(device, turn.args(angles, first, rows));
            for (auto [now, then, before] : {std::tuple{&turn.q, &truth.q, &start.q}, {&turn.k, &truth.k, &start.k}}) {
              BOOST_TEST(first_difference(now->view(first, rows), then->view(first, rows)) == -1,
                         name_of(device) << ", head_dim " << head_dim);
              BOOST_TEST(first_difference(now->view(0, first), before->view(0, first)) == -1);
              BOOST_TEST(gaps_untouched(*now));
            }
          }
        },
        head_dim == 64 ? 4 : 1);
  }
}

// Heads are alike: each is rotated as it would be alone.
BOOST_AUTO_TEST_CASE(every_head_is_turned_alike) {
  const Positions positions;
  for_each_cpu(
      [&](Cpu& device) {
        const Matrix angles = angles_of(device, positions.rows(0, kMostRows), frequencies(20));
        Turn turn(4, 2, 20);
        for (int r = 0; r < kMostRows; ++r) {
          for (int h = 1; h < 4; ++h) std::memcpy(turn.q.row(r) + h * 20, turn.q.row(r), 20 * sizeof(float));
          for (int h = 0; h < 2; ++h) std::memcpy(turn.k.row(r) + h * 20, turn.q.row(r), 20 * sizeof(float));
        }
        rotate(device, turn.args(angles, 0, kMostRows));
        for (int r = 0; r < kMostRows; ++r) {
          for (int h = 1; h < 4; ++h) BOOST_TEST(same_bits(turn.q.row(r) + h * 20, turn.q.row(r), 20));
          for (int h = 0; h < 2; ++h) BOOST_TEST(same_bits(turn.k.row(r) + h * 20, turn.q.row(r), 20));
        }
      },
      1);
}

BOOST_AUTO_TEST_CASE(position_zero_turns_nothing) {
  const std::vector<int> zero = {0};
  for_each_cpu(
      [&](Cpu& device) {
        const Matrix angles = angles_of(device, {.positions = zero.data(), .rows = 1}, frequencies(20));
        const Turn start(2, 1, 20);
        Turn turn = start;
        rotate(device, turn.args(angles, 0, 1));
        BOOST_TEST(same_bits(turn.q, start.q));
        BOOST_TEST(same_bits(turn.k, start.k));
      },
      1);
}

// Tolerance: two roundings and the reference's own, each half an ulp of a number that is at most sqrt(2) here.
BOOST_AUTO_TEST_CASE(turns_agree_with_the_reference) {
  const Positions positions;
  for (const int head_dim : kHeadDims) {
    for_each_cpu(
        [&](Cpu& device) {
          const Matrix angles = angles_of(device, positions.rows(0, kMostRows), frequencies(head_dim));
          const Turn start(3, 1, head_dim);
          Turn turn = start, expected = start;
          rotate(device, turn.args(angles, 0, kMostRows));
          reference::rotate(expected.args(angles, 0, kMostRows));
          double largest = 0, other = 0;
          for (int r = 0; r < kMostRows; ++r) {
            for (int c = 0; c < turn.q.cols; ++c) {
              const double difference = std::fabs(double{turn.q.row(r)[c]} - expected.q.row(r)[c]);
              if (!(difference <= largest)) largest = difference;
            }
            // The inverse test: pairs of neighbours, as in GPT-J, are other pairs.
            const float* x = start.q.row(r);  // [head_dim]
            const double cosine = angles.row(r)[0], sine = angles.row(r)[head_dim / 2];
            other = std::max(other, std::fabs(x[0] * cosine - x[1] * sine - expected.q.row(r)[0]));
          }
          BOOST_TEST(largest < 0x1.8p-23);
          if (head_dim > 2) BOOST_TEST(other > 0x1.8p-23);
        },
        1);
  }
}

BOOST_AUTO_TEST_CASE(a_neighbour_of_nan_changes_nothing) {
  const Positions positions;
  for_each_cpu(
      [&](Cpu& device) {
        const Matrix angles = angles_of(device, positions.rows(0, kMostRows), frequencies(20));
        Turn truth(2, 1, 20), hostile(2, 1, 20);
        for (int r = 1; r < kMostRows; r += 2) hostile.q.row(r)[r % 20] = std::numeric_limits<float>::quiet_NaN();
        rotate(device, truth.args(angles, 0, kMostRows));
        rotate(device, hostile.args(angles, 0, kMostRows));
        for (int r = 0; r < kMostRows; r += 2) BOOST_TEST(same_bits(hostile.q.row(r), truth.q.row(r), 40));
        BOOST_TEST(same_bits(hostile.k, truth.k));
        BOOST_TEST(std::isnan(hostile.q.row(1)[1]));
        BOOST_TEST(std::isnan(hostile.q.row(1)[11]));
        BOOST_TEST(same_bits(hostile.q.row(1) + 20, truth.q.row(1) + 20, 20));
      },
      2);
}

BOOST_AUTO_TEST_CASE(zero_rows_write_nothing) {
  const Positions positions;
  Cpu device({.threads = 2});
  const Matrix f = frequencies(20);
  Matrix angles(1, 20, 20);
  rotary_angles(
      device,
      {.batch = positions.rows(0, 0), .frequencies = f.row(0), .frequency_stride = 0, .angles = angles.view(0, 0)});
  BOOST_TEST(angles.row(0)[0] == kGap);
  const Turn start(2, 1, 20);
  Turn turn = start;
  rotate(device, turn.args(angles, 0, 0));
  BOOST_TEST(same_bits(turn.q, start.q));
}

BOOST_AUTO_TEST_SUITE_END()
