// expect: tenon: this Device lacks an op for this Weights, Head, Cache and Attention
#include <tenon/tenon.h>

#ifdef TENON_MISUSE
using Mine = tenon::FlashMma;
#else
using Mine = tenon::FlashAttention;
#endif

static_assert(sizeof(tenon::Engine<tenon::Gpt2, tenon::Attention<Mine>>) > 0);
