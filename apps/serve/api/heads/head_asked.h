// Parses the bodies of the routes for embeddings, classes and ranks into requests for the engine.
#pragma once
#include <string_view>

#include "serve/api/exchange.h"
#include "serve/model.h"

namespace serve {

// One function for each route. The result has the requests for the engine and the writer of the answer. Throws ApiError
// or tenon::Error if the request is refused, with the kind no_head if the model lacks what the route needs.
Asked embeddings_asked(Model& model, std::string_view body);
Asked embed_asked(Model& model, std::string_view body);
Asked ollama_embed_asked(Model& model, std::string_view body);
Asked ollama_embeddings_asked(Model& model, std::string_view body);
Asked classify_asked(Model& model, std::string_view body);
// dialect: of the errors that end the answer.
Asked rerank_asked(Model& model, std::string_view body, Dialect dialect);
Asked score_asked(Model& model, std::string_view body, Dialect dialect);

}  // namespace serve
