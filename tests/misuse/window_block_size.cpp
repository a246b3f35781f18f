// expect: tenon: WindowKVOf<BlockTokens>
#include <tenon/tenon.h>

#ifdef TENON_MISUSE
using Cache = tenon::WindowKVOf<24>;
#else
using Cache = tenon::WindowKVOf<32>;
#endif

static_assert(sizeof(Cache) > 0);
