#include <memory>
#include <utility>

#include "serve/api/exchange.h"
#include "serve/api/handle.h"
#include "serve/api/heads/head_asked.h"
#include "serve/api/ignored_fields.h"
#include "serve/api/lorax/lorax_asked.h"
#include "serve/api/openai/openai_asked.h"
#include "serve/api/route_table.h"
#include "serve/api/routes.h"
#include "serve/text.h"

namespace serve {
namespace {

constexpr const char* kReceiptHeader = "x-tenon-receipt";

// A client of OpenAI's cannot add fields to a body everywhere: a header asks for receipts, too.
void ask_receipts(const HttpRequest& request, std::string_view path, Asked& asked) {
  const std::string_view value = trimmed(request.header(kReceiptHeader));
  if (value.empty() || value == "0" || value == "false") return;
  if (value != "1" && value != "true") {
    throw ApiError(ApiError::Kind::invalid, "`" + std::string(kReceiptHeader) + "` must be 1, true, 0 or false",
                   kReceiptHeader);
  }
  if (path != "/v1/completions" && path != "/v1/chat/completions") {
    throw ApiError(ApiError::Kind::invalid,
                   "`" + std::string(kReceiptHeader) + "` is for /v1/completions and /v1/chat/completions",
                   kReceiptHeader);
  }
  for (tenon::Request& each : asked.requests) each.options.receipt = true;
}

// make(model, body): what is asked, and who writes the answer.
template <class Make>
void add(HttpServer& http, Serving& serving, const char* path, Make make) {
  const unsigned roles = find_route("POST", path).roles;
  http.route("POST", path, [&serving, make, roles, path](const HttpRequest& request, HttpResponse& response) {
    const auto exchange = std::make_shared<Exchange>(serving, request, request_id(request, response));
    const auto error = attempt(request, response, [&] {
      Model& model = exchange->enter(check_key(serving, request, roles));
      Asked asked = make(model, request.body);
      ask_receipts(request, path, asked);
      tell_ignored(response, serving, asked.ignored);
      exchange->serve(std::move(asked), response);
    });
    if (error) exchange->failed(*error);
    exchange->tell_rates(response);
    response.set_header(kLogsItselfHeader, "");
  });
}

}  // namespace

void add_generate_routes(HttpServer& http, Serving& serving) {
  add(http, serving, "/",
      [](Model& model, const std::string& body) { return lorax_asked(model, body, Streaming::as_asked, true); });
  add(http, serving, "/generate",
      [](Model& model, const std::string& body) { return lorax_asked(model, body, Streaming::never, false); });
  add(http, serving, "/generate_stream",
      [](Model& model, const std::string& body) { return lorax_asked(model, body, Streaming::always, false); });
  add(http, serving, "/v1/completions",
      [](Model& model, const std::string& body) { return completion_asked(model, body, "cmpl-" + random_id()); });
  add(http, serving, "/v1/chat/completions",
      [](Model& model, const std::string& body) { return chat_asked(model, body, "chatcmpl-" + random_id()); });
  add(http, serving, "/v1/responses",
      [](Model& model, const std::string& body) { return responses_asked(model, body, "resp_" + random_id()); });
  add(http, serving, "/v1/messages",
      [](Model& model, const std::string& body) { return messages_asked(model, body, "msg_" + random_id()); });
}

void add_head_routes(HttpServer& http, Serving& serving) {
  add(http, serving, "/v1/embeddings",
      [](Model& model, const std::string& body) { return embeddings_asked(model, body); });
  add(http, serving, "/embed", [](Model& model, const std::string& body) { return embed_asked(model, body); });
  for (const char* const path : {"/classify", "/classify_batch"})
    add(http, serving, path, [](Model& model, const std::string& body) { return classify_asked(model, body); });
  for (const char* const path : {"/rerank", "/v1/rerank", "/v2/rerank"}) {
    add(http, serving, path, [dialect = dialect_of(path)](Model& model, const std::string& body) {
      return rerank_asked(model, body, dialect);
    });
  }
  for (const char* const path : {"/score", "/v1/score"}) {
    add(http, serving, path, [dialect = dialect_of(path)](Model& model, const std::string& body) {
      return score_asked(model, body, dialect);
    });
  }
}

}  // namespace serve
