// Defaults of sampling from the model's generation_config.json, in place of an API's own.
#pragma once
#include <optional>

#include "serve/api/request_fields.h"
#include "tenon/core/request.h"

namespace serve {

// Sets the options of sampling that the request leaves out; `defaults` absent: none. A request with `do_sample` decides
// about greedy answers itself.
void take_generation_defaults(const RequestFields& request, const std::optional<tenon::Options>& defaults,
                              tenon::Options& options);

}  // namespace serve
