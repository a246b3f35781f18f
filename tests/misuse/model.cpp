// expect: tenon: Engine<Model, ...> needs a model first, such as Gpt2: a type with configure
#include <tenon/tenon.h>

#ifdef TENON_MISUSE
using Engine = tenon::Engine<tenon::Cache<tenon::PagedKV>>;
#else
using Engine = tenon::Engine<tenon::Gpt2, tenon::Cache<tenon::PagedKV>>;
#endif

static_assert(sizeof(Engine) > 0);
