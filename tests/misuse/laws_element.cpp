// expect: tenon: element_laws got a type that is no element of keys and values; it needs to be trivially copyable
#include <tenon/tenon.h>
#include <tenon/testing/laws.h>

struct Mine {
  float value;
  static Mine encode(float x) { return {x}; }
#ifdef TENON_MISUSE
  double decode() const { return value; }
#else
  float decode() const { return value; }
#endif
};

tenon::testing::Violations broken() { return tenon::testing::element_laws<Mine>(); }
