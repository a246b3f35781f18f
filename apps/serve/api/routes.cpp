#include "serve/api/routes.h"

#include <algorithm>
#include <cctype>
#include <string>

#include "serve/api/handle.h"
#include "serve/api/openapi.h"

namespace serve {
namespace {

// Routes that pages of other origins may use, where the operator allows any.
constexpr const char* kFromPages[] = {"/",
                                      "/generate",
                                      "/generate_stream",
                                      "/tokenize",
                                      "/detokenize",
                                      "/apply-template",
                                      "/info",
                                      "/metrics",
                                      "/v1/completions",
                                      "/v1/chat/completions",
                                      "/v1/responses",
                                      "/v1/messages",
                                      "/v1/messages/count_tokens",
                                      "/v1/models",
                                      "/v1/models/*",
                                      "/api/chat",
                                      "/api/generate",
                                      "/api/embed",
                                      "/api/embeddings",
                                      "/api/tags",
                                      "/api/ps",
                                      "/api/show",
                                      "/api/version",
                                      "/v1/embeddings",
                                      "/embed",
                                      "/classify",
                                      "/classify_batch",
                                      "/rerank",
                                      "/v1/rerank",
                                      "/v2/rerank",
                                      "/score",
                                      "/v1/score"};

constexpr const char* kShownHeaders =
    "x-request-id, x-ignored-fields, x-tenon-warnings, Retry-After, x-ratelimit-limit-requests, "
    "x-ratelimit-remaining-requests, x-ratelimit-reset-requests, x-ratelimit-limit-tokens, "
    "x-ratelimit-remaining-tokens, x-ratelimit-reset-tokens";

// Exact origins alone, and never with credentials.
void allow_origin(const HttpRequest& request, HttpResponse& response, const std::vector<std::string>& origins) {
  const std::string origin = request.header("Origin");
  if (origins.empty()) return;
  response.set_header("Vary", "Origin");
  if (std::find(origins.begin(), origins.end(), origin) == origins.end()) return;
  response.set_header("Access-Control-Allow-Origin", origin);
  response.set_header("Access-Control-Expose-Headers", kShownHeaders);
}

// SDKs send headers of their own, which a page may only where it is told so.
void answer_preflight(const HttpRequest& request, HttpResponse& response) {
  response.status = 204;
  response.set_header("Access-Control-Allow-Methods", "GET, POST");
  response.set_header("Access-Control-Max-Age", "600");
  const std::string asked = request.header("Access-Control-Request-Headers");
  const auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == ',' || c == ' ';
  };
  if (asked.size() <= 1024 && std::all_of(asked.begin(), asked.end(), plain))
    response.set_header("Access-Control-Allow-Headers", asked);
}

}  // namespace

void add_routes(HttpServer& http, Serving& serving, const Settings& settings) {
  add_generate_routes(http, serving);
  add_head_routes(http, serving);
  add_model_routes(http, serving);
  add_ollama_routes(http, serving);
  if (settings.enable_adapter_admin) add_admin_routes(http, serving);
  add_status_routes(http, serving);
  if (settings.ui) add_page_routes(http, serving);
  if (!settings.receipt_key_file.empty()) {
    add_plain(http, serving, "GET", "/v1/receipt-key",
              [&serving](const HttpRequest&, HttpResponse& response, const Caller&) {
                response.set_content(serving.receipt_signer.key()->pem(), "text/plain; charset=utf-8");
              });
  }
  add_plain(http, serving, "GET", "/openapi.json",
            [&serving, settings](const HttpRequest&, HttpResponse& response, const Caller&) {
              answer_json(response, openapi(settings, serving.keys.required()));
            });
  if (!settings.cors_origins.empty()) {
    for (const char* path : kFromPages) http.route("OPTIONS", path, answer_preflight, HttpServer::Access::open);
  }
  http.set_error_body([](const HttpRefusal& refusal, const std::string& path) {
    return body(transport_error(refusal), dialect_of(path));
  });
  // Without it, clients that may not ask could fill the room for all bodies with theirs.
  http.set_head_check([&serving](const HttpRequest& head) {
    return refusal_of(
        serving, {head.header("Authorization"), head.header("X-Api-Key"), head.header("Origin"), head.header("Host")});
  });
  http.set_answer_hook([&serving, origins = settings.cors_origins](const HttpRequest& request, HttpResponse& response) {
    request_id(request, response);
    allow_origin(request, response, origins);
    log_answer(serving, request, response);
  });
}

}  // namespace serve
