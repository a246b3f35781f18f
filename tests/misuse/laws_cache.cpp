// expect: tenon: Cache<P> got a type that is no cache; it needs P::Ledger
#include <tenon/tenon.h>
#include <tenon/testing/laws.h>

struct Mine : tenon::PagedKV {
#ifdef TENON_MISUSE
  static int bytes(const tenon::KvShape&, int) { return 0; }
#endif
};

tenon::testing::Violations broken() { return tenon::testing::cache_laws<Mine>(); }
