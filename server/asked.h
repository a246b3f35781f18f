// From a body to what the engine is asked and who writes the answer: one function for each route that generates.
#pragma once
#include <string>
#include <string_view>

#include "server/exchange.h"
#include "server/lorax_request.h"
#include "server/model.h"

namespace serve {

// ApiError or tenon::Error where the request is refused. `id` and `created` are told to the client.
Asked lorax_asked(Model& model, std::string_view body, Streaming streaming, bool as_list);
Asked completion_asked(Model& model, std::string_view body, const std::string& id);
Asked chat_asked(Model& model, std::string_view body, const std::string& id);

}  // namespace serve
