// tenon/eigen.h: maps and views name the same memory, both ways, and no element is copied.
#define BOOST_TEST_MODULE core_eigen
#include "tenon/eigen.h"

#include <boost/test/unit_test.hpp>
#include <numeric>
#include <type_traits>
#include <vector>

#include "../ops/low_rank_problem.h"

BOOST_AUTO_TEST_SUITE(core_eigen)

using namespace tenon;
using namespace tenon::test;
using namespace tenon::test::low_rank_problem;

namespace {
Error::Kind refusal(auto&& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.kind();
  }
  return Error::Kind::internal;
}
}  // namespace

static_assert(std::is_same_v<decltype(as_eigen(MatrixView<const float>{}))::PlainObject, EigenMatrix<float>>);
static_assert(std::is_same_v<decltype(as_eigen(MatrixView<float>{}).data()), float*>);
static_assert(std::is_same_v<decltype(as_eigen(MatrixView<const float>{}).data()), const float*>);
static_assert(std::is_same_v<EigenScalar<const float16>, Eigen::half>);
static_assert(std::is_same_v<decltype(as_view(std::declval<EigenMatrix<float>&>())), MatrixView<float>>);
static_assert(std::is_same_v<decltype(as_view(std::declval<const EigenMatrix<float>&>())), MatrixView<const float>>);
// A view of a temporary matrix would outlive its elements.
template <class M>
concept ViewsTemporary = requires(M m) {
  as_view(std::move(m));
};
static_assert(!ViewsTemporary<EigenMatrix<float>>);

BOOST_AUTO_TEST_CASE(a_map_of_a_view_is_the_views_memory) {
  const Matrix m = random_matrix(7, 5, 1, 9);  // [7, 5] of stride 9
  auto map = as_eigen(m.view());
  BOOST_TEST(map.data() == m.row(0));
  BOOST_TEST(map.rows() == 7);
  BOOST_TEST(map.cols() == 5);
  for (int r = 0; r < 7; ++r) {
    for (int c = 0; c < 5; ++c) BOOST_TEST(&map(r, c) == m.row(r) + c);
  }
  map.row(3).setConstant(0.5f);
  map.col(4) *= 2.0f;
  BOOST_TEST(m.row(3)[0] == 0.5f);
  BOOST_TEST(m.row(3)[4] == 1.0f);
  BOOST_TEST(gaps_untouched(m));
}

BOOST_AUTO_TEST_CASE(rows_of_a_view_and_rows_alone) {
  const Matrix m = random_matrix(7, 5, 2, 6);
  BOOST_TEST(as_eigen(m.view(2, 3)).data() == m.row(2));
  BOOST_TEST(as_eigen(m.view(2, 3)).rows() == 3);
  std::vector<float> logits(100);
  std::iota(logits.begin(), logits.end(), 0.0f);
  as_eigen(std::span(logits)).array() -= 1.0f;
  BOOST_TEST(logits[99] == 98.0f);
  const std::span<const float> read = logits;
  BOOST_TEST(as_eigen(read).data() == logits.data());
  BOOST_TEST(as_eigen(read).sum() == 4850.0f);
}

BOOST_AUTO_TEST_CASE(nothing_has_a_map_of_nothing) {
  BOOST_TEST(as_eigen(MatrixView<const float>{}).size() == 0);
  BOOST_TEST(as_eigen(std::span<float>{}).size() == 0);
  const EigenMatrix<float> none(0, 5);
  BOOST_TEST(as_view(none).rows == 0);
}

BOOST_AUTO_TEST_CASE(a_view_of_a_matrix_a_map_or_a_block_is_its_memory) {
  EigenMatrix<float> m = EigenMatrix<float>::Random(6, 8);
  const MatrixView<float> view = as_view(m);
  BOOST_TEST(view.data == m.data());
  BOOST_TEST(view.rows == 6);
  BOOST_TEST(view.cols == 8);
  BOOST_TEST(view.stride == 8);
  view.row(5)[7] = 3.0f;
  BOOST_TEST(m(5, 7) == 3.0f);

  auto block = m.block(2, 3, 3, 4);
  const MatrixView<float> of_block = as_view(block);
  BOOST_TEST(of_block.stride == 8);
  for (int r = 0; r < 3; ++r) {
    for (int c = 0; c < 4; ++c) BOOST_TEST(of_block.row(r) + c == &m(2 + r, 3 + c));
  }
  Eigen::RowVectorXf row = Eigen::RowVectorXf::Random(9);
  BOOST_TEST(as_view(row).rows == 1);
  BOOST_TEST(as_view(row).cols == 9);

  const Matrix ours = random_matrix(4, 5, 3, 7);
  auto map = as_eigen(ours.view());
  const MatrixView<float> back = as_view(map);
  BOOST_TEST(back.data == ours.row(0));
  BOOST_TEST(back.rows == 4);
  BOOST_TEST(back.cols == 5);
  BOOST_TEST(back.stride == 7);
}

BOOST_AUTO_TEST_CASE(sixteen_bit_elements_keep_their_values) {
  std::vector<float16> halves;
  std::vector<bfloat16> uppers;
  for (const float x : {0.0f, -0.0f, 1.0f, 65504.0f, 0x1p-24f, -3.140625f}) {
    halves.emplace_back(x);
    uppers.emplace_back(x);
  }
  const auto half = as_eigen(std::span<const float16>(halves));
  const auto upper = as_eigen(std::span<const bfloat16>(uppers));
  for (std::size_t i = 0; i < halves.size(); ++i) {
    const auto at = static_cast<Eigen::Index>(i);
    BOOST_TEST(static_cast<float>(half(at)) == static_cast<float>(halves[i]));
    BOOST_TEST(static_cast<float>(upper(at)) == static_cast<float>(uppers[i]));
  }
}

template <class T>
bool maps_are_the_factors(FactorType type, int inputs, int outputs, int rank) {
  const TestAdapter adapter(inputs, std::vector{random_update(inputs, 3, outputs, rank, 4, type)}, type);
  const TestAdapter::Plain& plain = adapter.plain[0];
  const LowRank& update = adapter.updates[0];
  const auto a = as_eigen_a<T>(update, inputs);
  if (a.data() != static_cast<const void*>(update.a) || a.rows() != rank || a.cols() != inputs) return false;
  for (int i = 0; i < rank; ++i) {
    for (int k = 0; k < inputs; ++k)
      if (static_cast<float>(a(i, k)) != plain.a[size(i * inputs + k)]) return false;
  }
  int seen = 0;
  for (int block = 0; block * kFactorBlock < outputs; ++block) {
    const auto b = as_eigen_b<T>(update, block);  // [rank, width]
    for (int o = 0; o < b.cols(); ++o, ++seen) {
      for (int i = 0; i < rank; ++i)
        if (static_cast<float>(b(i, o)) != plain.b[size((block * kFactorBlock + o) * rank + i)]) return false;
    }
  }
  return seen == outputs;
}

BOOST_AUTO_TEST_CASE(factors_of_every_type_and_width) {
  for (const int outputs : {1, 63, 64, 65, 131, 200}) {
    for (const int rank : {1, 7, 16}) {
      BOOST_TEST(maps_are_the_factors<float>(FactorType::float32, 17, outputs, rank), outputs << " of rank " << rank);
      BOOST_TEST(maps_are_the_factors<float16>(FactorType::float16, 17, outputs, rank), outputs << " of rank " << rank);
      BOOST_TEST(maps_are_the_factors<bfloat16>(FactorType::bfloat16, 17, outputs, rank),
                 outputs << " of rank " << rank);
    }
  }
}

BOOST_AUTO_TEST_CASE(another_type_and_a_block_that_is_not_there_are_refused) {
  const TestAdapter adapter(8, std::vector{random_update(8, 0, 65, 2, 4)});
  const LowRank& update = adapter.updates[0];
  constexpr auto refused = Error::Kind::invalid_request;
  BOOST_TEST((refusal([&] { as_eigen_a<float16>(update, 8); }) == refused));
  BOOST_TEST((refusal([&] { as_eigen_b<bfloat16>(update, 0); }) == refused));
  BOOST_TEST((refusal([&] { as_eigen_b<float>(update, -1); }) == refused));
  BOOST_TEST((refusal([&] { as_eigen_b<float>(update, 2); }) == refused));
  BOOST_TEST(as_eigen_b<float>(update, 1).cols() == 1);
}

BOOST_AUTO_TEST_CASE(a_span_is_all_elements_row_after_row) {
  EigenMatrix<float> m(2, 3);
  m << 1, 2, 3, 4, 5, 6;
  const std::span<float> all = span_of(m);
  BOOST_TEST(all.data() == m.data());
  BOOST_TEST((std::vector<float>(all.begin(), all.end()) == std::vector<float>{1, 2, 3, 4, 5, 6}));
  const auto& fixed = m;
  BOOST_TEST(span_of(fixed).size() == 6U);
}

BOOST_AUTO_TEST_SUITE_END()
