// Elements of keys and values that obey the laws, and for each law one that breaks it.
#include "tenon/testing/element_laws.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <stdexcept>
#include <thread>

#include "../core/own_elements.h"
#include "obeys.h"

BOOST_AUTO_TEST_SUITE(testing_element_laws)

using namespace tenon;
using test::breaks;
using test::obeys;
using testing::element_laws;

namespace {

struct Counts : own::Whole {  // rows: every second one is scaled
  static inline int rows = 0;
  static float row_scale(const float*, int) { return ++rows % 2 == 0 ? 2.0f : 1.0f; }
  static Counts encode(float x) { return {{std::nearbyint(x * 64) / 64}}; }
};
struct Dithers : own::Whole {  // by what was rounded before
  static inline float error = 0;
  static Dithers encode(float x) {
    const float rounded = std::nearbyint((x + error) * 1024) / 1024;
    error = std::isfinite(x) ? x + error - rounded : 0;
    return {{rounded}};
  }
};
struct OneThread : own::Whole {
  static inline std::thread::id own = {};
  static OneThread encode(float x) { return {{std::this_thread::get_id() == own ? x : x * 1.125f}}; }
};
struct Reciprocal {  // 0 is read as infinity
  float inverse;
  static Reciprocal encode(float x) { return {1 / x}; }
  float decode() const { return 1 / inverse; }
};
struct Signs : own::Whole {  // of a row
  static float row_scale(const float* row, int n) {
    float most = 0;
    for (int i = 0; i < n; ++i) most = std::isfinite(row[i]) ? std::max(most, std::fabs(row[i])) : NAN;
    return most;
  }
  static Signs encode(float x) { return {{x < 0 ? -1.0f : x > 0 ? 1.0f : 0.0f}}; }
};
struct HidesNan : own::Whole {
  static HidesNan encode(float x) { return {{std::isnan(x) ? 0.0f : x}}; }
};
struct HidesInfinity : own::Whole {
  static HidesInfinity encode(float x) { return {{std::isinf(x) ? std::copysign(1e30f, x) : x}}; }
};
struct Throws : own::Whole {
  static Throws encode(float) { throw std::runtime_error("no"); }
};

}  // namespace

BOOST_AUTO_TEST_CASE(ours_obey) {
  obeys(element_laws<float>());
  obeys(element_laws<bfloat16>());
  obeys(element_laws<float16>());
  obeys(element_laws<std::int8_t>());
  obeys(element_laws<own::Whole>());
  obeys(element_laws<own::UpperHalf>());
  obeys(element_laws<own::Nibble>());
}

BOOST_AUTO_TEST_CASE(each_law_can_be_broken) {
  BOOST_TEST(breaks(element_laws<Counts>(), "whatever was stored between"));
  BOOST_TEST(breaks(element_laws<Dithers>(), "whatever was stored between"));
  OneThread::own = std::this_thread::get_id();
  BOOST_TEST(element_laws<OneThread>() == testing::Violations{"element: any thread stores the same, several at once"});
  BOOST_TEST(breaks(element_laws<Reciprocal>(), "zero bytes are read as a finite number"));
  BOOST_TEST(breaks(element_laws<Signs>(), "within a quarter of its largest magnitude"));
  const testing::Violations hides{"element: a row that is not finite is not read back as finite"};
  BOOST_TEST(element_laws<HidesNan>() == hides);
  BOOST_TEST(element_laws<HidesInfinity>() == hides);
  BOOST_TEST(breaks(element_laws<Throws>(), "throws nothing"));
}

BOOST_AUTO_TEST_SUITE_END()
