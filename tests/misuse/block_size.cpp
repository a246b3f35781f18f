// expect: tenon: PagedKVOf<BlockTokens>
#include <tenon/tenon.h>

#ifdef TENON_MISUSE
using Cache = tenon::PagedKVOf<24>;
#else
using Cache = tenon::PagedKVOf<32>;
#endif

static_assert(sizeof(Cache) > 0);
