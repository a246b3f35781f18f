// expect: tenon: the scheduler has a victim or served of another type than the queue calls
#include <tenon/tenon.h>

struct Mine {
  void plan(const tenon::QueueState&, tenon::PlanWriter&) {}
#ifdef TENON_MISUSE  // would be ignored
  void victim(const tenon::QueueState&) {}
#else
  tenon::SeqId victim(const tenon::QueueState& state) { return state.running.back().seq; }
#endif
};

tenon::AnyScheduler use() { return tenon::AnyScheduler(Mine{}); }
