// expect: tenon: model_laws got a type that is no model family; it needs static configure and tensors
#include <tenon/tenon.h>
#include <tenon/testing/laws.h>

struct Mine : tenon::Gpt2 {
#ifdef TENON_MISUSE
  static int tensors(const tenon::ModelConfig&) { return 0; }
#endif
};

tenon::testing::Violations broken(const tenon::ModelConfig& config) { return tenon::testing::model_laws<Mine>(config); }
