// expect: tenon: Weights<P> got a type that is no weight format; it needs static bytes, encode and view
#include <tenon/tenon.h>
#include <tenon/testing/laws.h>

struct Mine : tenon::Float32 {
#ifdef TENON_MISUSE
  static int bytes(tenon::Shape) { return 0; }
#endif
};

tenon::testing::Violations broken() { return tenon::testing::weight_laws<Mine>(); }
