// expect: tenon: Attention<P> got a type that is no attention policy; it needs static bool materialises_scores
#include <tenon/tenon.h>

struct Mine {
  static constexpr bool materialises_scores = false;
  bool mask(int query, int key) const { return query - key < 64; }
#ifdef TENON_MISUSE  // both would be ignored
  float score(int, int, float s) const { return s / 2; }
  float score(int, float s) const { return s / 2; }
#else
  float score(int, int, int, float s) const { return s / 2; }
  float score(int, float s) const { return s / 2; }
#endif
};

int use(const tenon::ModelFiles& files) { return tenon::Engine<tenon::Gpt2, tenon::Attention<Mine>>(files).pending(); }
