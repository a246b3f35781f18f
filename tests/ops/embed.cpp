// embed: one addition per element, so that it equals the reference to the bit.
#include <boost/test/unit_test.hpp>

#include <cmath>

#include "helpers.h"
#include "tenon/ops/cpu/embed.h"
#include "tenon/ops/reference.h"

BOOST_AUTO_TEST_SUITE(ops_embed)

using namespace tenon;
using namespace tenon::test;

namespace {

constexpr int kVocabulary = 50, kPositions = 40;

struct Problem {
  int width;
  Matrix table, positions;
  Packed<Float32> panels;
  Packed<ColumnMajor> columns;
  Batch batch;

  explicit Problem(int n)
      : width(n),
        table(random_matrix(kVocabulary, n, 1)),
        positions(random_matrix(kPositions, n, 2)),
        panels(table),
        columns(table) {
    Random random(3);
    for (int r = 0; r < kMostRows; ++r) {
      batch.tokens.push_back(r < 2 ? (r == 0 ? 0 : kVocabulary - 1) : random.below(kVocabulary));
      batch.positions.push_back(r < 2 ? (r == 0 ? kPositions - 1 : 0) : random.below(kPositions));
    }
  }
  BatchView rows(int first, int count) const {
    BatchView view = batch.view();
    view.tokens += first;
    view.positions += first;
    view.rows = count;
    return view;
  }
  template <class W>
  EmbedArgs<W> args(const W& w, bool learned, int first, int count, const Matrix& x) const {
    return {
        .batch = rows(first, count), .table = w, .position_table = learned ? positions.row(0) : nullptr, .x = x.view()};
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(rows_equal_the_reference_in_any_batch_on_any_threads) {
  for (const int width : kWidths) {
    const Problem p(width);
    for (const bool learned : {false, true}) {
      Matrix truth(kMostRows, width, width);
      reference::embed(p.args(p.panels.view(), learned, 0, kMostRows, truth));
      for_each_cpu(
          [&](Cpu& device) {
            for (const int rows : kRows) {
              const int first = rows * 7 % (kMostRows - rows + 1);
              Matrix x(rows, width, width + 3), again = x;
              embed(device, p.args(p.panels.view(), learned, first, rows, x));
              embed(device, p.args(p.columns.view(), learned, first, rows, again));
              const bool same =
                  first_difference(x.view(), truth.view(first, rows)) == -1 && gaps_untouched(x) && same_bits(x, again);
              BOOST_TEST(same, name_of(device) << ": width " << width << ", a batch of " << rows);
            }
          },
          width == 77 ? 4 : 2);
    }
  }
}

BOOST_AUTO_TEST_CASE(without_positions_the_table_is_copied) {
  const Problem p(17);
  Cpu device({.threads = 1});
  Matrix x(2, 17, 17);
  embed(device, p.args(p.panels.view(), false, 0, 2, x));
  BOOST_TEST(same_bits(x.row(0), p.table.row(0), 17));
  BOOST_TEST(same_bits(x.row(1), p.table.row(kVocabulary - 1), 17));
}

BOOST_AUTO_TEST_CASE(a_token_or_position_off_by_one_is_seen) {
  const Problem p(16);
  Cpu device({.threads = 1});
  Matrix truth(1, 16, 16), x(1, 16, 16);
  reference::embed(p.args(p.panels.view(), true, 5, 1, truth));
  Problem other(16);
  other.batch.positions[5] = (other.batch.positions[5] + 1) % kPositions;
  embed(device, other.args(p.panels.view(), true, 5, 1, x));
  BOOST_TEST(!same_bits(x, truth));
}

BOOST_AUTO_TEST_SUITE_END()
