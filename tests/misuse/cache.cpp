// expect: tenon: Cache<P> got a type that is no cache; it needs P::Ledger
#include <tenon/tenon.h>

#ifdef TENON_MISUSE
struct Mine {
  struct Ledger {
    int free_tokens() const { return 0; }
  };
};
#else
using Mine = tenon::ContiguousKV;
#endif

int use(const tenon::ModelFiles& files) { return tenon::Engine<tenon::Gpt2, tenon::Cache<Mine>>(files).pending(); }
