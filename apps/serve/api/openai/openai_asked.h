// From a body of OpenAI's routes to what the engine is asked, and who writes the answer.
#pragma once
#include <string>
#include <string_view>

#include "serve/api/exchange.h"
#include "serve/model.h"

namespace serve {

// ApiError or tenon::Error where the request is refused. `id` is told to the client.
Asked completion_asked(Model& model, std::string_view body, const std::string& id);
Asked chat_asked(Model& model, std::string_view body, const std::string& id);
Asked responses_asked(Model& model, std::string_view body, const std::string& id);
Asked messages_asked(Model& model, std::string_view body, const std::string& id);  // Anthropic's

}  // namespace serve
