// expect: tenon: Draft<P> got a type that is no draft policy; it must be copyable and default constructible and
#include <tenon/tenon.h>

#ifdef TENON_MISUSE
struct Mine {};
#else
using Mine = tenon::PromptLookup;
#endif

int use(const tenon::ModelFiles& files) { return tenon::Engine<tenon::Gpt2, tenon::Draft<Mine>>(files).pending(); }
