// expect: tenon: Engine got two Cache<P>; keep one
#include <tenon/tenon.h>

#ifdef TENON_MISUSE
using Engine = tenon::Engine<tenon::Gpt2, tenon::Cache<tenon::PagedKV>, tenon::Cache<tenon::ContiguousKV>>;
#else
using Engine = tenon::Engine<tenon::Gpt2, tenon::Cache<tenon::ContiguousKV>>;
#endif

int use(const tenon::ModelFiles& files) { return Engine(files).pending(); }
