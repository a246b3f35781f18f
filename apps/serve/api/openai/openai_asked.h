// From a body of OpenAI's routes to what the engine is asked, and who writes the answer.
#pragma once
#include <string_view>

#include "serve/api/exchange.h"
#include "serve/api/resume/answer_identity.h"
#include "serve/model.h"

namespace serve {

// ApiError or tenon::Error where the request is refused.
Asked completion_asked(Model& model, std::string_view body, const AnswerIdentity& identity);
Asked chat_asked(Model& model, std::string_view body, const AnswerIdentity& identity);
Asked responses_asked(Model& model, std::string_view body, const AnswerIdentity& identity);
Asked messages_asked(Model& model, std::string_view body, const AnswerIdentity& identity);         // Anthropic's
Asked ollama_chat_asked(Model& model, std::string_view body, const AnswerIdentity& identity);      // Ollama's
Asked ollama_generate_asked(Model& model, std::string_view body, const AnswerIdentity& identity);  // Ollama's

}  // namespace serve
