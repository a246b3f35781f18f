// expect: tenon: this Device lacks the op low_rank; use Adapter<NoAdapter>
#include <tenon/tenon.h>

// A user's device with every op of a Cpu except the one for adapters.
struct Mine : tenon::Cpu {
  using tenon::Cpu::Cpu;
};
#ifdef TENON_MISUSE
void low_rank(Mine&, const tenon::LowRankArgs&) = delete;
#endif

static_assert(sizeof(tenon::Engine<tenon::Gpt2, tenon::Device<Mine>, tenon::Adapter<tenon::SegmentedLoRA>>) > 0);
