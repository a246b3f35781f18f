// expect: tenon: Cache<P> got a type that is no cache; .*std::int8_t or your own with encode and decode
#include <tenon/tenon.h>

#ifdef TENON_MISUSE
using Element = double;
#else
using Element = tenon::bfloat16;
#endif

static_assert(sizeof(tenon::Engine<tenon::Gpt2, tenon::Cache<tenon::PagedKVOf<16, Element>>>) > 0);
