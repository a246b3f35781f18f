// expect: tenon: Engine<Model, ...> got something that is no axis; wrap policies as Scheduler<P>
#include <tenon/tenon.h>

#ifdef TENON_MISUSE
using Engine = tenon::Engine<tenon::Gpt2, tenon::StaticPolicy>;
#else
using Engine = tenon::Engine<tenon::Gpt2, tenon::Scheduler<tenon::StaticPolicy>>;
#endif

int use(const tenon::ModelFiles& files) { return Engine(files).pending(); }
