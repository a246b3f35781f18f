// expect: tenon: Device<P> got a type that is no device; .*fill, begin_step, put, fetch, pool and threads
#include <tenon/tenon.h>

#ifdef TENON_MISUSE
struct Mine {};
#else
using Mine = tenon::Cpu;
#endif

int use(const tenon::ModelFiles& files) { return tenon::Engine<tenon::Gpt2, tenon::Device<Mine>>(files).pending(); }
