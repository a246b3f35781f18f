// expect: tenon: this version adds no adapters while it runs; use Adapter<NoAdapter>
#include <tenon/tenon.h>

struct Mine {
#ifdef TENON_MISUSE
  static constexpr bool adds_at_runtime = true;
#else
  static constexpr bool adds_at_runtime = false;
#endif
  struct View {
    tenon::LowRank factors(int, int, tenon::Site) const { return {}; }
  };
};

static_assert(sizeof(tenon::Engine<tenon::Gpt2, tenon::Adapter<Mine>>) > 0);
