// Our weight formats obey the laws, and each law is broken by one that is made to break it.
#include "tenon/testing/weight_laws.h"

#include <boost/test/unit_test.hpp>

#include "obeys.h"
#include "tenon/weights/bfloat16.h"
#include "tenon/weights/bfloat16_amx.h"
#include "tenon/weights/bfloat16_dot.h"
#include "tenon/weights/fast_math_bfloat16.h"
#include "tenon/weights/float16.h"
#include "tenon/weights/float32.h"
#include "tenon/weights/float8.h"
#include "tenon/weights/group_int8.h"
#include "tenon/weights/int4.h"
#include "tenon/weights/int4_act8.h"
#include "tenon/weights/int8.h"
#include "tenon/weights/int8_act8.h"
#include "tenon/weights/int8_exact.h"
#include "tenon/weights/normal_float4.h"

BOOST_AUTO_TEST_SUITE(testing_weight_laws)

using namespace tenon;
using test::breaks;
using test::obeys;
using testing::weight_laws;

namespace {

// Right, with `at` alone.
struct RowMajor {
  struct View {
    const float* values;  // [rows, cols]
    int cols;
    float at(int row, int col) const { return values[std::ptrdiff_t{row} * cols + col]; }
  };
  static std::size_t bytes(Shape shape) {
    return sizeof(float) * static_cast<std::size_t>(shape.rows) * static_cast<std::size_t>(shape.cols);
  }
  static void encode(Shape shape, int first_row, std::span<const float> rows, std::span<std::byte> packed) {
    std::memcpy(packed.data() + bytes({first_row, shape.cols}), rows.data(), rows.size_bytes());
  }
  static View view(Shape shape, std::span<const std::byte> stored) {
    return {reinterpret_cast<const float*>(stored.data()), shape.cols};
  }
};

struct BlockScale : RowMajor {  // rounds by the largest weight of the block that it is given
  static void encode(Shape shape, int first_row, std::span<const float> rows, std::span<std::byte> packed) {
    float largest = 1e-20f;
    for (const float w : rows) largest = std::max(largest, std::fabs(w));
    std::vector<float> rounded;
    for (const float w : rows) rounded.push_back(std::round(w / largest * 1000) / 1000 * largest);
    RowMajor::encode(shape, first_row, rounded, packed);
  }
};
struct OtherAt : Float32 {  // reads other weights than its panels hold
  struct View : Float32::View {
    float at(int row, int col) const { return Float32::View::at(row, col) * 1.5f; }
  };
  static View view(Shape shape, std::span<const std::byte> stored) { return {Float32::view(shape, stored)}; }
};
struct OtherPanels : Float32 {  // the panels of a matrix that is one column on
  struct View : Float32::View {
    CodePanels<float> panels_of_another;
    const CodePanels<float>& panels() const { return panels_of_another; }
  };
  static std::size_t bytes(Shape shape) { return Float32::bytes(shape) + kPanelRows * sizeof(float); }
  static View view(Shape shape, std::span<const std::byte> stored) {
    View view{Float32::view(shape, stored), {}};
    view.panels_of_another = view.packed;
    view.panels_of_another.codes += kPanelRows;
    return view;
  }
};
struct Transposed : RowMajor {  // as if the matrix were stored [cols, rows]
  struct View {
    const float* values;
    int rows, cols;
    float at(int row, int col) const {
      const int at = col * rows + row;
      return values[at];
    }
  };
  static View view(Shape shape, std::span<const std::byte> stored) {
    return {reinterpret_cast<const float*>(stored.data()), shape.rows, shape.cols};
  }
};
struct TooSmall : RowMajor {  // forgets the last row
  static std::size_t bytes(Shape shape) { return RowMajor::bytes(shape) - sizeof(float); }
};

}  // namespace

BOOST_AUTO_TEST_CASE(our_floats_obey) {
  obeys(weight_laws<Float32>());
  obeys(weight_laws<BFloat16>());
  obeys(weight_laws<BFloat16Dot>());
  obeys(weight_laws<BFloat16Amx>());
  obeys(weight_laws<Float16>());
  obeys(weight_laws<Float8<E4M3>>());
  obeys(weight_laws<Float8<E5M2>>());
  obeys(weight_laws<RowMajor>());
}

BOOST_AUTO_TEST_CASE(our_integers_obey) {
  obeys(weight_laws<ZeroPointInt8>());
  obeys(weight_laws<ZeroPointInt8Of<PerTensor>>());
  obeys(weight_laws<ZeroPointInt8Act8>());
  obeys(weight_laws<GroupInt4>());
  obeys(weight_laws<GroupInt4Of<64>>());
  obeys(weight_laws<GroupInt4Act8>());
  obeys(weight_laws<GroupInt8>());
  obeys(weight_laws<NormalFloat4>());
  obeys(weight_laws<Int8Exact>());
}

BOOST_AUTO_TEST_CASE(wrong_formats_are_caught) {
  BOOST_TEST(breaks(weight_laws<BlockScale>(), "give the bytes of the whole"));
  BOOST_TEST(breaks(weight_laws<OtherAt>(), "linear multiplies with what at reads"));
  BOOST_TEST(breaks(weight_laws<OtherAt>(), "at reads what encode was given"));
  BOOST_TEST(breaks(weight_laws<OtherPanels>(), "linear multiplies with what at reads"));
  BOOST_TEST(!breaks(weight_laws<OtherPanels>(), "at reads what encode was given"));  // as only the product is wrong
  BOOST_TEST(breaks(weight_laws<Transposed>(), "at reads what encode was given"));
  BOOST_TEST(breaks(weight_laws<TooSmall>(), "no more than bytes(shape)"));
}

// A product whose order of sums depends on the number of rows.
namespace {

class Moody : public Cpu {
 public:
  Moody() : Cpu({.threads = 1}) {}
};
template <class W>
void linear(Moody&, const LinearArgs<W>& args) {
  for (int r = 0; r < args.x.rows; ++r) {
    for (int o = 0; o < args.y.cols; ++o) {
      float sum = 0;
      for (int i = 0; i < args.x.cols; ++i) {
        const int k = args.x.rows < 8 ? i : args.x.cols - 1 - i;
        sum = std::fma(args.weight.at(o, k), args.x.row(r)[k], sum);
      }
      args.y.row(r)[o] = sum;
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_wrong_product_is_caught) {
  Moody device;
  BOOST_TEST(breaks(weight_laws<RowMajor>(device), "the same bits in any number of rows"));
}

BOOST_AUTO_TEST_SUITE_END()
