// expect: tenon: Adapter<P> got a type that is no adapter policy; it must be copyable and default constructible and
#include <tenon/tenon.h>

#ifdef TENON_MISUSE
struct Mine {};
#else
using Mine = tenon::NoAdapter;
#endif

int use(const tenon::ModelFiles& files) { return tenon::Engine<tenon::Gpt2, tenon::Adapter<Mine>>(files).pending(); }
