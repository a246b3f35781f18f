// expect: tenon: Draft<P> got a type that is no draft policy; it must be copyable and default constructible
#include <tenon/tenon.h>
#include <tenon/testing/laws.h>

struct Mine {
#ifdef TENON_MISUSE
  int draft(const tenon::DraftState&, tenon::DraftWriter&) { return 0; }
#else
  void draft(const tenon::DraftState&, tenon::DraftWriter&) {}
#endif
};

tenon::testing::Violations broken() { return tenon::testing::draft_laws(Mine{}); }
