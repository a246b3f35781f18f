// expect: tenon: this is no logits processor; it needs void operator\(\)\(std::span<float> logits
#include <tenon/tenon.h>

#include <span>

struct Counts {
  int calls = 0;
#ifdef TENON_MISUSE
  void operator()(std::span<float>, std::span<const tenon::TokenId>, std::span<const tenon::TokenId>) { ++calls; }
#else
  void operator()(std::span<float>, std::span<const tenon::TokenId>, std::span<const tenon::TokenId>) const {}
#endif
};

tenon::Request with_processor() { return {.prompt = "Once", .logits_processor = Counts{}}; }
