// expect: tenon: Head<P> got a type that is no weight format
#include <tenon/tenon.h>

#ifdef TENON_MISUSE
struct Mine {};
#else
using Mine = tenon::Float32;
#endif

int use(const tenon::ModelFiles& files) { return tenon::Engine<tenon::Gpt2, tenon::Head<Mine>>(files).pending(); }
