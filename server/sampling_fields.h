// What the requests of both OpenAI routes share.
#pragma once
#include <string_view>

#include "server/body.h"
#include "server/openai_request.h"
#include "server/request_fields.h"

namespace serve {

// Fills all of `out` but max_tokens.
void read_sampling_request(const Body& body, const RequestFields& fields, const Limits& limits,
                           std::string_view base_model, SamplingRequest& out);
// Once max_tokens is known.
void check_min_tokens(const RequestFields& fields, const SamplingRequest& request);

}  // namespace serve
