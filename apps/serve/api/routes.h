// Every route of the server.
#pragma once
#include "serve/http/server.h"
#include "serve/serving.h"

namespace serve {

void add_generate_routes(HttpServer& http, Serving& serving);  // LoRAX's and OpenAI's, which write text
void add_head_routes(HttpServer& http, Serving& serving);      // embeddings, classes, ranks
void add_ollama_routes(HttpServer& http, Serving& serving);    // Ollama's, but for those that write text and embeddings
void add_model_routes(HttpServer& http,
                      Serving& serving);  // what there is: models, adapters, tokens, and their operation
void add_admin_routes(HttpServer& http,
                      Serving& serving);  // adapters given a name, or unloaded, by whoever has the key
void add_status_routes(HttpServer& http, Serving& serving);  // health, readiness, metrics
void add_page_routes(HttpServer& http, Serving& serving);    // the page in the browser, and what it draws
void add_routes(HttpServer& http, Serving& serving, const Settings& settings);

}  // namespace serve
