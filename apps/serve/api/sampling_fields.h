// What the requests of both OpenAI routes share.
#pragma once
#include <utility>
#include <vector>

#include "serve/api/body.h"
#include "serve/api/openai/openai_request.h"
#include "serve/api/request_fields.h"

namespace serve {

// Fills all of `out` but max_tokens.
void read_sampling_request(const Body& body, const RequestFields& fields, const RequestContext& context,
                           UnknownFields& unknown, SamplingRequest& out);
// max_tokens where it is given, and what the client calls it. `none_too`: 0 is allowed. -1 is llama.cpp's word for what
// is left.
void read_max_tokens(const RequestFields& fields, SamplingRequest& out, bool none_too);
// Once max_tokens is known.
void check_min_tokens(const RequestFields& fields, const SamplingRequest& request);

// {"5": -1.5}
std::vector<std::pair<tenon::TokenId, float>> logit_bias_of(const RequestFields& fields);
// Ids of tokens, which are not compared with the vocabulary.
std::vector<tenon::TokenId> stop_token_ids_of(const RequestFields& fields);

}  // namespace serve
