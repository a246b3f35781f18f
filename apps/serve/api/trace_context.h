// The client's trace, from its header `traceparent` (W3C Trace Context), which OpenTelemetry sends.
#pragma once
#include <optional>

#include "serve/http/message.h"
#include "serve/ops/request_log.h"

namespace serve {

// None where the header is absent, repeated or malformed.
std::optional<TraceContext> trace_context(const HttpRequest& request);

}  // namespace serve
