#include "serve/api/generation_defaults.h"

namespace serve {

void take_generation_defaults(const RequestFields& request, const std::optional<tenon::Options>& defaults,
                              tenon::Options& options) {
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
    const float warm = defaults->temperature > 0 ? defaults->temperature : 1;
    options.temperature = request.boolean("do_sample", false) ? warm : 0;
  }
}

}  // namespace serve
