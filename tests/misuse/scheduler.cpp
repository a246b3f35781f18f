// expect: tenon: Scheduler<P> got a type that is no scheduler; it needs to be copyable and to have void plan
#include <tenon/tenon.h>

#ifdef TENON_MISUSE
struct Mine {
  int plan(int rows) { return rows; }
};
#else
struct Mine {
  void plan(const tenon::QueueState& state, tenon::PlanWriter& out) const {
    for (const auto& c : state.running) out.take(c.seq, c.pending);
  }
};
#endif

int use(const tenon::ModelFiles& files) { return tenon::Engine<tenon::Gpt2, tenon::Scheduler<Mine>>(files).pending(); }
