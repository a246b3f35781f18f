// expect: tenon: Weights<P> got a type that is no weight format; it needs static bytes, encode and view
#include <tenon/tenon.h>

#ifdef TENON_MISUSE
struct Mine {
  static std::size_t bytes(tenon::Shape shape) { return static_cast<std::size_t>(shape.rows); }
};
#else
using Mine = tenon::Float32;
#endif

int use(const tenon::ModelFiles& files) { return tenon::Engine<tenon::Gpt2, tenon::Weights<Mine>>(files).pending(); }
