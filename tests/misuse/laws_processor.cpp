// expect: tenon: processor_laws got a type that is no logits processor; it needs void operator\(\)
#include <tenon/tenon.h>
#include <tenon/testing/laws.h>

struct Mine {
#ifdef TENON_MISUSE  // not const
  void operator()(std::span<float>, std::span<const tenon::TokenId>, std::span<const tenon::TokenId>) {}
#else
  void operator()(std::span<float>, std::span<const tenon::TokenId>, std::span<const tenon::TokenId>) const {}
#endif
};

tenon::testing::Violations broken() { return tenon::testing::processor_laws(Mine{}); }
