// expect: tenon: Attention<P> got a type that is no attention policy; it needs static bool materialises_scores
#include <tenon/tenon.h>

#include <array>

struct Mine {
  static constexpr bool materialises_scores = false;
  int window = 64;
  bool mask(int query, int key) const { return query - key < window; }
#ifndef TENON_MISUSE  // the fingerprint would not have it
  std::array<int, 1> values() const { return {window}; }
#endif
};

int use(const tenon::ModelFiles& files) { return tenon::Engine<tenon::Gpt2, tenon::Attention<Mine>>(files).pending(); }
