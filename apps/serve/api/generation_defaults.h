// Defaults of sampling from the model's generation_config.json, in place of an API's own.
#pragma once
#include "serve/api/request_fields.h"
#include "serve/api/request_limits.h"
#include "tenon/core/request.h"

namespace serve {

// Sets the options of sampling that the request leaves out, if the server takes them from generation_config.json. A
// request with `do_sample` decides about greedy answers itself.
void take_generation_defaults(const RequestFields& request, const RequestLimits& limits, tenon::Options& options);

}  // namespace serve
