// change_embeddings and change_logits: rows as ops/args.h defines them, the same beside any others.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

#include "helpers.h"
#include "tenon/ops/cpu/change_tables.h"
#include "tenon/ops/cpu/embed.h"
#include "tenon/weights/float32.h"

BOOST_AUTO_TEST_SUITE(ops_change_tables)

using namespace tenon;
using namespace tenon::test;

namespace {

constexpr int kVocab = 131, kWidth = 37, kRank = 5, kRows = 9;
constexpr std::int32_t kTokens[] = {0, 3, 64, 130};

std::size_t size(int n) { return static_cast<std::size_t>(n); }

// A change of each kind, for a table of either use.
struct Changes {
  Matrix whole = random_matrix(kVocab, kWidth, 1, kWidth), some = random_matrix(4, kWidth, 2, kWidth),
         gains = random_matrix(1, kVocab, 5);
  std::vector<float> by_token, by_column;
  std::vector<TableChange> all;

  explicit Changes(bool head) {
    const Matrix first = random_matrix(kRank, kVocab, 3), second = random_matrix(kRank, kWidth, 4);
    for (int token = 0; token < kVocab; ++token) {
      for (int j = 0; j < kRank; ++j) by_token.push_back(first.row(j)[token]);
    }
    for (int j = 0; j < kRank; ++j) by_column.insert(by_column.end(), second.row(j), second.row(j) + kWidth);
    TableChange update;
    update.a = head ? by_column.data() : by_token.data();
    update.b = head ? by_token.data() : by_column.data();
    update.rank = kRank;
    update.scale = 0.75f;
    TableChange dora = update;
    dora.gain = gains.row(0);
    all = {{.rows = whole.row(0), .count = kVocab}, {.rows = some.row(0), .tokens = kTokens, .count = 4}, update, dora};
  }
  // Rows take none, then each change in turn.
  std::vector<const TableChange*> of_rows() const {
    std::vector<const TableChange*> rows;
    for (int r = 0; r < kRows; ++r) rows.push_back(r % 5 == 0 ? nullptr : &all[size(r % 5 - 1)]);
    return rows;
  }
};

// A product in 16 strips and the tree of sum(), as products_row defines it.
float product(const float* x, const float* y, int n) {
  float strips[16] = {};
  for (int k = 0; k < n; ++k) strips[k % 16] = std::fma(x[k], y[k], strips[k % 16]);
  for (int width = 8; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) strips[i] += strips[i + width];
  }
  return strips[0];
}

}  // namespace

BOOST_AUTO_TEST_CASE(own_rows_are_found_by_token) {
  const Changes changes(false);
  BOOST_TEST(changes.all[0].own_row(130) == 130);
  BOOST_TEST(changes.all[0].own_row(131) == -1);
  BOOST_TEST(
      (changes.all[1].own_row(64) == 2 && changes.all[1].own_row(63) == -1 && changes.all[1].own_row(131) == -1));
  BOOST_TEST(changes.all[2].own_row(0) == -1);
  BOOST_TEST(!TableChange{}.any());
}

BOOST_AUTO_TEST_CASE(embeddings_are_those_of_the_definition) {
  const Changes changes(false);
  const auto of_rows = changes.of_rows();
  const Matrix table = random_matrix(kVocab, kWidth, 7), positions = random_matrix(kRows, kWidth, 8, kWidth);
  const Packed<Float32> packed(table);
  const std::vector<TokenId> tokens = {5, 5, 64, 63, 3, 130, 0, 1, 64};
  const std::vector<int> at = {0, 1, 2, 3, 4, 5, 6, 7, 8};
  BatchView batch{};
  batch.tokens = tokens.data();
  batch.positions = at.data();
  batch.rows = kRows;
  for (const float scale : {1.0f, 3.5f}) {
    for (const float* const table_of_positions :
         {static_cast<const float*>(nullptr), static_cast<const float*>(positions.row(0))}) {
      for_each_cpu([&](Cpu& device) {
        Matrix x(kRows, kWidth, kWidth), plain(kRows, kWidth, kWidth);
        const auto args_of = [&](const Matrix& to) {
          return EmbedArgs<Float32::View>{batch, packed.view(), table_of_positions, to.view(), scale};
        };
        embed(device, args_of(plain));
        embed(device, args_of(x));
        change_embeddings(device, ChangeEmbeddingsArgs<Float32::View>{args_of(x), of_rows.data()});
        int differ = 0;
        for (int r = 0; r < kRows; ++r) {
          for (int c = 0; c < kWidth; ++c) {
            const TokenId token = tokens[size(r)];
            volatile float value = table.row(token)[c];
            const TableChange* const change = of_rows[size(r)];
            if (!change) {
              differ += x.row(r)[c] != plain.row(r)[c];
              continue;
            }
            if (const int own = change->own_row(token); own >= 0) {
              value = change->rows[own * kWidth + c];
            } else if (change->a) {
              float delta = 0;
              for (int j = 0; j < kRank; ++j)
                delta = std::fma(change->scale * change->a[token * kRank + j], change->b[j * kWidth + c], delta);
              value = value + delta;
              if (change->gain) value = value * change->gain[c];
            }
            if (scale != 1) value = value * scale;
            if (table_of_positions) value = value + positions.row(r)[c];
            differ += x.row(r)[c] != value;
          }
        }
        BOOST_TEST(differ == 0, name_of(device));
      });
    }
  }
}

BOOST_AUTO_TEST_CASE(logits_are_those_of_the_definition) {
  const Changes changes(true);
  const auto of_rows = changes.of_rows();
  const Matrix hidden = random_matrix(kRows, kWidth, 9), plain = random_matrix(kRows, kVocab, 10);
  for_each_cpu([&](Cpu& device) {
    Matrix logits = plain;
    change_logits(device, ChangeLogitsArgs{hidden.view(), of_rows.data(), logits.view()});
    int differ = 0;
    for (int r = 0; r < kRows; ++r) {
      const TableChange* const change = of_rows[size(r)];
      for (int t = 0; t < kVocab; ++t) {
        volatile float value = plain.row(r)[t];
        if (change && change->a) {
          float u[kRank];
          for (int j = 0; j < kRank; ++j) u[j] = product(hidden.row(r), change->a + j * kWidth, kWidth) * change->scale;
          value = value + product(u, change->b + t * kRank, kRank);
          if (change->gain) value = value * change->gain[t];
        }
        if (change && change->own_row(t) >= 0)
          value = product(hidden.row(r), change->rows + change->own_row(t) * kWidth, kWidth);
        differ += logits.row(r)[t] != value;
      }
    }
    BOOST_TEST(differ == 0, name_of(device));
    // Each row alone.
    for (int r = 0; r < kRows; ++r) {
      Matrix one(1, kVocab, kVocab);
      std::copy_n(plain.row(r), kVocab, one.row(0));
      change_logits(device, ChangeLogitsArgs{hidden.view(r, 1), &of_rows[size(r)], one.view()});
      BOOST_TEST(same_bits(one.row(0), logits.row(r), kVocab));
    }
  });
}

BOOST_AUTO_TEST_SUITE_END()
