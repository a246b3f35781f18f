#include "serve/api/generation_defaults.h"

namespace serve {

void take_generation_defaults(const RequestFields& request, const RequestLimits& limits, tenon::Options& options) {
  const std::optional<tenon::Options>& defaults = limits.generation;
  if (!defaults) return;
  const auto take = [&](const char* name, auto member) {
    if (!request.has(name)) options.*member = (*defaults).*member;
  };
  take("top_k", &tenon::Options::top_k);
  take("top_p", &tenon::Options::top_p);
  take("min_p", &tenon::Options::min_p);
  take("typical_p", &tenon::Options::typical_p);
  take("repetition_penalty", &tenon::Options::repetition_penalty);
  if (!request.has("do_sample")) {
    take("temperature", &tenon::Options::temperature);
  } else if (!request.has("temperature")) {
    options.temperature = request.boolean("do_sample", false) ? limits.drawing_temperature : 0;
  }
}

}  // namespace serve
