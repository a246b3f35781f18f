// expect: tenon: the scheduler has a victim or served of another type than the queue calls
#include <tenon/tenon.h>

struct Mine {
  void plan(const tenon::QueueState& state, tenon::PlanWriter& out) { next.plan(state, out); }
#ifdef TENON_MISUSE  // would be ignored
  void served(const tenon::Served&) {}
#else
  void served(std::span<const tenon::Served>) {}
#endif
  tenon::ContinuousPolicy next;
};

int use(const tenon::ModelFiles& files) { return tenon::Engine<tenon::Gpt2, tenon::Scheduler<Mine>>(files).pending(); }
