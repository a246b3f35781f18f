// The store of packed matrices: blocks of rows give the whole for every number of threads, and errors reach the caller.
#include "tenon/weights/store.h"

#include <boost/test/unit_test.hpp>
#include <cstring>
#include <vector>

#include "../io/scratch.h"
#include "tenon/device/cpu.h"
#include "tenon/weights/float32.h"
#include "tenon/weights/group_int8.h"
#include "tenon/weights/int4.h"
#include "tenon/weights/int8.h"
#include "tenon/weights/normal_float4.h"

BOOST_AUTO_TEST_SUITE(weights_store)

using namespace tenon;

namespace {

float element(int row, int col) { return static_cast<float>(row * 1000 + col); }

void rows_of(int cols, int first, int count, float* out) {
  for (int r = 0; r < count; ++r) {
    for (int c = 0; c < cols; ++c) out[r * cols + c] = element(first + r, c);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(blocks_make_the_whole_for_any_number_of_threads) {
  for (const int threads : {1, 2, 3, 16}) {
    Cpu device({.threads = threads});
    const std::vector<Shape> shapes = {{37, 5}, {1, 1}, {2000, 1500}, {16, 16}};
    WeightStore<Float32, Cpu> store(device, shapes);
    for (const Shape shape : shapes) {
      const auto view =
          store.add(device, shape, [&](int first, int count, float* out) { rows_of(shape.cols, first, count, out); });
      bool same = true;
      for (int r = 0; r < shape.rows; ++r) {
        for (int c = 0; c < shape.cols; ++c) same = same && view.at(r, c) == element(r, c);
      }
      BOOST_TEST(same);
    }
  }
}

BOOST_AUTO_TEST_CASE(errors_of_reading_reach_the_caller) {
  Cpu device({.threads = 2});
  const std::vector<Shape> shapes = {{4000, 1000}};
  WeightStore<Float32, Cpu> store(device, shapes);
  BOOST_CHECK_THROW(store.add(device, shapes[0],
                              [](int first, int, float*) {
                                if (first > 0) throw Error(Error::Kind::io, "model.safetensors", "short");
                              }),
                    Error);
}

BOOST_AUTO_TEST_CASE(more_than_was_announced_is_refused) {
  Cpu device({.threads = 1});
  const std::vector<Shape> shapes = {{16, 4}};
  WeightStore<Float32, Cpu> store(device, shapes);
  const auto read = [](int first, int count, float* out) { rows_of(4, first, count, out); };
  store.add(device, shapes[0], read);
  BOOST_CHECK_THROW(store.add(device, shapes[0], read), Error);
}

// A format with one scale for the whole matrix reads every block twice, first for the range.
BOOST_AUTO_TEST_CASE(the_range_is_that_of_the_whole_matrix) {
  using P = ZeroPointInt8Of<PerTensor>;
  const std::vector<Shape> shapes = {{3000, 1001}};
  const auto read = [](int first, int count, float* out) {  // its minimum and maximum are in the first and last row
    for (int i = 0; i < count * 1001; ++i) out[i] = static_cast<float>((first + i / 1001 - 1000) * 1001 + i % 1001);
  };
  std::vector<float> values(3000 * 1001);
  read(0, 3000, values.data());
  ValueRange range;
  range.add(values);
  std::vector<std::byte> expected(P::bytes(shapes[0]), std::byte{0});
  P::encode(shapes[0], 0, values, expected, range);
  for (const int threads : {1, 3}) {
    Cpu device({.threads = threads});
    WeightStore<P, Cpu> store(device, shapes);
    store.add(device, shapes[0], read);
    BOOST_TEST(store.bytes() == expected.size());
    BOOST_TEST(std::memcmp(store.contents().data(), expected.data(), expected.size()) == 0);
  }
}

// Codes in the form of files give the same bytes as encoding the floats.
template <class P>
void codes_give_the_bytes_of_floats(Shape shape) {
  Cpu device({.threads = 2});
  const std::vector<Shape> shapes = {shape};
  WeightStore<P, Cpu> from_floats(device, shapes), from_codes(device, shapes);
  const auto read = [&](int first, int count, float* out) { rows_of(shape.cols, first, count, out); };
  ValueRange range;
  if (P::Code::per_tensor) range = range_of(device.pool(), shape, read);
  from_floats.add(device, shape, read);
  from_codes.add_codes(device, shape, [&](int first, int count, CodeBlock& block) {
    std::vector<float> rows(static_cast<std::size_t>(count) * static_cast<std::size_t>(shape.cols));
    read(first, count, rows.data());
    P::Code::encode(shape.cols, rows, range, block);
  });
  BOOST_TEST((std::memcmp(from_floats.contents().data(), from_codes.contents().data(), from_floats.bytes()) == 0));
}
BOOST_AUTO_TEST_CASE(codes_are_packed_as_floats_are) {
  codes_give_the_bytes_of_floats<ZeroPointInt8>({37, 30'000});  // several blocks
  codes_give_the_bytes_of_floats<ZeroPointInt8Of<PerTensor>>({37, 30'000});
  codes_give_the_bytes_of_floats<GroupInt4>({37, 3001});
  codes_give_the_bytes_of_floats<GroupInt8>({37, 3001});
  codes_give_the_bytes_of_floats<NormalFloat4>({37, 3001});
}

BOOST_AUTO_TEST_CASE(errors_of_a_format_name_the_matrix) {
  Cpu device({.threads = 2});
  const std::vector<Shape> shapes = {{16, 4}};
  WeightStore<GroupInt4, Cpu> store(device, shapes);
  const std::string said = tenon::test::refusal([&] {
    store.add(
        device, shapes[0], [](int, int count, float* out) { std::fill_n(out, count * 4, 1e30f); },
        "model.safetensors: h.0.attn");
  });
  BOOST_TEST(said.rfind("model.safetensors: h.0.attn: holds a value", 0) == 0u, said);
}

BOOST_AUTO_TEST_SUITE_END()
