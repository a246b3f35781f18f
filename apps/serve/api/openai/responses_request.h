// Requests of OpenAI's Responses API.
#pragma once
#include <string>
#include <string_view>

#include "serve/api/openai/openai_request.h"

namespace serve {

struct ResponsesRequest {
  ChatRequest chat;
  // The answer repeats these as the client wrote them; null where absent.
  tenon::OrderedJson instructions, tools, tool_choice, text, metadata, max_output_tokens, temperature, top_p, reasoning;
};

// The body as one of /v1/chat/completions, and what the answer repeats of it. Fields that both routes have are the
// chat's. ApiError: malformed, invalid, bad_adapter_name.
ResponsesRequest parse_responses(std::string_view body, const RequestContext& context);

}  // namespace serve
