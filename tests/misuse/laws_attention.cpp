// expect: tenon: Attention<P> got a type that is no attention policy; it needs static bool materialises_scores
#include <tenon/tenon.h>
#include <tenon/testing/laws.h>

struct Mine {
  static constexpr bool materialises_scores = false;
#ifdef TENON_MISUSE
  bool mask(float query, float key) const { return query - key < 64; }
#else
  bool mask(int query, int key) const { return query - key < 64; }
#endif
};

tenon::testing::Violations broken() { return tenon::testing::attention_laws(Mine{}); }
