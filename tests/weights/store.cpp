// The store of packed matrices: blocks of rows make the whole, whatever the number of threads, and failures come out.
#define BOOST_TEST_MODULE weights_store
#include "tenon/weights/store.h"

#include <boost/test/unit_test.hpp>
#include <cstring>
#include <vector>

#include "tenon/device/cpu.h"
#include "tenon/weights/float32.h"

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
      const auto view = store.add(device.pool(), shape, [&](int first, int count, float* out) { rows_of(shape.cols, first, count, out); });
      bool same = true;
      for (int r = 0; r < shape.rows; ++r) {
        for (int c = 0; c < shape.cols; ++c) same = same && view.at(r, c) == element(r, c);
      }
      BOOST_TEST(same);
    }
  }
}

BOOST_AUTO_TEST_CASE(what_reading_throws_reaches_the_caller) {
  Cpu device({.threads = 2});
  const std::vector<Shape> shapes = {{4000, 1000}};
  WeightStore<Float32, Cpu> store(device, shapes);
  BOOST_CHECK_THROW(store.add(device.pool(), shapes[0],
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
  store.add(device.pool(), shapes[0], read);
  BOOST_CHECK_THROW(store.add(device.pool(), shapes[0], read), Error);
}
