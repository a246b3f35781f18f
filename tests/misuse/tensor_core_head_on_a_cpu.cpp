// expect: tenon: this Device lacks an op for this Weights, Head, Cache and Attention
#include <tenon/tenon.h>

#ifdef TENON_MISUSE
using Mine = tenon::BFloat16Mma;
#else
using Mine = tenon::BFloat16Dot;
#endif

static_assert(sizeof(tenon::Engine<tenon::Gpt2, tenon::Head<Mine>>) > 0);
