// expect: tenon: Attention<P> got a type that is no attention policy; it needs static bool materialises_scores
#include <tenon/tenon.h>

struct Mine {
  static constexpr bool materialises_scores = false;
#ifdef TENON_MISUSE  // the kernels' whole numbers would be converted
  bool mask(float query, float key) const { return query - key < 64; }
#else
  bool mask(int query, int key) const { return query - key < 64; }
#endif
};

int use(const tenon::ModelFiles& files) { return tenon::Engine<tenon::Gpt2, tenon::Attention<Mine>>(files).pending(); }
