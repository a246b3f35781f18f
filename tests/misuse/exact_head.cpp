// expect: tenon: Int8ExactOf<P> needs a format with one code per weight, and one scale per row or none
#include <tenon/tenon.h>

#ifdef TENON_MISUSE
using Mine = tenon::Int8ExactOf<tenon::GroupInt4>;
#else
using Mine = tenon::Int8ExactOf<tenon::ZeroPointInt8>;
#endif

int use(const tenon::ModelFiles& files) { return tenon::Engine<tenon::Gpt2, tenon::Head<Mine>>(files).pending(); }
