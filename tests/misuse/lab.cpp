// expect: tenon: lab::replay got a type that is no scheduler; it needs to be copyable and to have void plan
#include <tenon/lab/replay.h>
#include <tenon/tenon.h>

#ifdef TENON_MISUSE
struct Mine {
  void plan(const tenon::QueueState& state) const { (void)state; }
};
#else
struct Mine {
  void plan(const tenon::QueueState& state, tenon::PlanWriter& out) const {
    for (const auto& c : state.running) out.take(c.seq, c.pending);
  }
};
#endif

std::uint64_t use(const tenon::lab::Trace& trace) { return tenon::lab::replay(Mine{}, trace).steps; }
