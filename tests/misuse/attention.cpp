// expect: tenon: Attention<P> got a type that is no attention tag; it needs to be an empty struct
#include <tenon/tenon.h>

#ifdef TENON_MISUSE
struct Mine {
  int window;
};
#else
using Mine = tenon::DirectAttention;
#endif

int use(const tenon::ModelFiles& files) { return tenon::Engine<tenon::Gpt2, tenon::Attention<Mine>>(files).pending(); }
