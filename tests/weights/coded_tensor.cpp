// CodedTensor reads any rows of a matrix into any rows of a block, and returns the codes that the encoder made.
#include "tenon/weights/coded_tensor.h"

#include <boost/test/unit_test.hpp>

#include "../checkpoint/tensor_file.h"
#include "../io/scratch.h"

BOOST_AUTO_TEST_SUITE(weights_coded_tensor)

using namespace tenon;
using tenon::test::mentions;
using tenon::test::refusal;
using tenon::test::Scratch;
using tenon::test::TensorFile;

namespace {

// Writes the codes of a matrix to a file, and compares what CodedTensor reads with them.
template <class C>
void check(int rows, int cols) {
  std::vector<float> values(static_cast<std::size_t>(rows * cols));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>((i * 37 + 11) % 61) - 30.0f;
  ValueRange range;
  range.add(values);
  CodeBlock all;
  C::encode(cols, values, range, all);

  using Layout = CodedLayout<C>;
  const Shape shape{rows, cols};
  TensorFile file;
  file.add("w", C::dtype, Layout::codes(shape), all.codes);
  if constexpr (C::scale_dtype == DType::f16) {
    std::vector<float16> halves;
    for (const float scale : all.scales) halves.push_back(float16(scale));
    file.add("w.scale", DType::f16, Layout::scales(shape), halves);
  } else {
    file.add("w.scale", DType::f32, Layout::scales(shape), all.scales);
  }
  if (C::has_zero_points) file.add("w.zero_point", DType::f32, Layout::scales(shape), all.zero_points);
  const Scratch scratch;
  file.write(scratch / "model.safetensors");
  const Checkpoint checkpoint = Checkpoint::open(scratch.folder());
  const CodedTensor<C> tensor(checkpoint, *checkpoint.find("w"), shape);

  // Splits the matrix into runs of 1, 2, 3, ... rows and reads them into the block in reverse order.
  CodeBlock block{rows, cols, std::vector<std::byte>(all.codes.size()), std::vector<float>(all.scales.size()),
                  std::vector<float>(all.zero_points.size())};
  std::vector<std::pair<int, int>> runs;  // first row, rows
  for (int first = 0, length = 1; first < rows; first += length++)
    runs.emplace_back(first, std::min(length, rows - first));
  int at = 0;
  std::vector<int> order;  // row of the matrix in each row of the block
  for (auto run = runs.rbegin(); run != runs.rend(); ++run) {
    tensor.read(run->first, run->second, at, block);
    at += run->second;
    for (int r = 0; r < run->second; ++r) order.push_back(run->first + r);
  }
  bool same = true;
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < cols; ++c)
      same = same && C::value(block, r, c) == C::value(all, order[static_cast<std::size_t>(r)], c);
  }
  BOOST_TEST(same, std::string(C::name) + " " + std::to_string(rows) + " x " + std::to_string(cols));
}

}  // namespace

BOOST_AUTO_TEST_CASE(any_run_of_rows_is_read_into_any_rows) {
  for (const int rows : {1, 2, 16, 23}) {
    for (const int cols : {1, 2, 31, 32, 33, 130}) {
      check<Float8Code<E4M3>>(rows, cols);
      check<Float8Code<E5M2>>(rows, cols);
      check<Int8Code<PerRow>>(rows, cols);
      check<Int8Code<PerTensor>>(rows, cols);
      check<Int4Code<32>>(rows, cols);
      check<Int4Code<64>>(rows, cols);
      check<Int4Code<128>>(rows, cols);
    }
  }
}

BOOST_AUTO_TEST_CASE(every_code_is_found_by_its_name) {
  for (const char* name : {"bfloat16", "float16", "float8_e4m3", "float8_e5m2", "int8", "int8_tensor", "int4",
                           "int4_group64", "int4_group128", "int8_group32", "nf4"}) {
    BOOST_TEST(with_code(name, "here", [](auto code) { return std::string(code.name); }) == name);
  }
  BOOST_TEST(
      mentions(refusal([] { with_code("nf3", "here", [](auto) {}); }), {"here: \"nf3\"", "known: bfloat16, float16"}));
}

BOOST_AUTO_TEST_CASE(rules_accept_what_encoders_produce) {
  for (const std::vector<float>& row : {std::vector<float>{-3.0f, -1.0f},
                                        {1e-38f, 0.0f},
                                        {3e38f, 1.0f},
                                        {-3e38f, 2e37f},
                                        {0.0f, 0.0f},
                                        {1.7f, 255.3f}}) {
    ValueRange range;
    range.add(row);
    const auto passes = [&](auto code) {
      using C = decltype(code);
      CodeBlock block;
      C::encode(2, row, range, block);
      for (const float scale : block.scales)
        BOOST_TEST(CodeRules<C>::sound_scale(scale), C::name << " scale " << scale << " of " << row[0]);
      for (const float zero : block.zero_points)
        BOOST_TEST(CodeRules<C>::sound_zero_point(zero), C::name << " zero point " << zero << " of " << row[0]);
      BOOST_TEST(CodeRules<C>::sound_codes(block.codes));
    };
    passes(Float8Code<E4M3>{});
    passes(Float8Code<E5M2>{});
    passes(Int8Code<PerRow>{});
    passes(Int8Code<PerTensor>{});
    if (std::fabs(row[0]) < 1e5f) passes(Int4Code<32>{});
  }
}

BOOST_AUTO_TEST_SUITE_END()
