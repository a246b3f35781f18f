// Reads a body of the routes for embeddings, classes and ranks: what the engine is asked, and who writes the answer.
#pragma once
#include <string_view>

#include "serve/api/exchange.h"
#include "serve/model.h"

namespace serve {

// ApiError or tenon::Error where the request is refused; no_head where the model lacks what the route needs.
Asked embeddings_asked(Model& model, std::string_view body);
Asked embed_asked(Model& model, std::string_view body);
Asked classify_asked(Model& model, std::string_view body);
// dialect: of the errors that end the answer.
Asked rerank_asked(Model& model, std::string_view body, Dialect dialect);
Asked score_asked(Model& model, std::string_view body, Dialect dialect);

}  // namespace serve
