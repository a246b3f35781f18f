// expect: tenon: this Device lacks an op for this Weights, Head, Cache and Attention
#include <tenon/tenon.h>

#ifdef TENON_MISUSE
struct Mine {
  static constexpr bool materialises_scores = false;
};
#else
using Mine = tenon::FlashAttention;
#endif

static_assert(sizeof(tenon::Engine<tenon::Gpt2, tenon::Attention<Mine>>) > 0);
