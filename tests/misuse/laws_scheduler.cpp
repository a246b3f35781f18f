// expect: tenon: Scheduler<P> got a type that is no scheduler; it needs to be copyable and to have void plan
#include <tenon/tenon.h>
#include <tenon/testing/laws.h>

struct Mine {
#ifdef TENON_MISUSE
  void plan(const tenon::QueueState&) const {}
#else
  void plan(const tenon::QueueState&, tenon::PlanWriter&) const {}
#endif
};

tenon::testing::Violations broken() { return tenon::testing::scheduler_laws(Mine{}); }
