// Requests of Anthropic's Messages API.
#pragma once
#include <string_view>

#include "serve/api/openai/openai_request.h"

namespace serve {

// The body as one of /v1/chat/completions. Fields that both routes have are the chat's. `writes`: whether the body must
// have max_tokens. ApiError: malformed, invalid, bad_adapter_name.
ChatRequest parse_messages(std::string_view body, const RequestContext& context, bool writes = true);

}  // namespace serve
