// From a body of LoRAX's routes to what the engine is asked, and who writes the answer.
#pragma once
#include <string_view>

#include "serve/api/exchange.h"
#include "serve/api/lorax/lorax_request.h"
#include "serve/api/resume/answer_identity.h"
#include "serve/model.h"

namespace serve {

// ApiError or tenon::Error where the request is refused.
Asked lorax_asked(Model& model, std::string_view body, const AnswerIdentity& identity, Streaming streaming,
                  bool as_list);

}  // namespace serve
