#include <memory>
#include <utility>

#include "serve/api/exchange.h"
#include "serve/api/handle.h"
#include "serve/api/heads/head_asked.h"
#include "serve/api/ignored_fields.h"
#include "serve/api/lorax/lorax_asked.h"
#include "serve/api/openai/openai_asked.h"
#include "serve/api/resume/resume.h"
#include "serve/api/route_table.h"
#include "serve/api/routes.h"
#include "serve/text.h"

namespace serve {
namespace {

constexpr const char* kReceiptHeader = "x-tenon-receipt";

// A client of OpenAI's cannot add fields to a body everywhere: a header asks for receipts, too.
void ask_receipts(const HttpRequest& request, std::string_view path, Asked& asked) {
  const std::string header = request.header(kReceiptHeader);
  const std::string_view value = trimmed(header);
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

// make(model, request, caller): what is asked, with the headers, and who writes the answer.
template <class Make>
void add(HttpServer& http, Serving& serving, const char* path, Make make) {
  const unsigned roles = find_route("POST", path).roles;
  http.route("POST", path, [&serving, make, roles, path](const HttpRequest& request, HttpResponse& response) {
    const auto exchange = std::make_shared<Exchange>(serving, request, request_id(request, response));
    const auto error = attempt(request, response, [&] {
      const Caller caller = check_key(serving, request, roles);
      Model& model = exchange->enter(caller);
      Asked asked = make(model, request, caller);
      tell_ignored(response, serving, asked.ignored);
      exchange->serve(std::move(asked), response);
    });
    if (error) exchange->failed(*error);
    exchange->tell_rates(response);
    response.set_header(kLogsItselfHeader, "");
  });
}

// make(model, body, identity). `prefix`: of the answer's id.
template <class Make>
void add_writing(HttpServer& http, Serving& serving, const char* path, const char* prefix, Make make) {
  const auto read = [&serving, path, make](Model& model, const HttpRequest& request, const AnswerIdentity& identity) {
    Asked asked = make(model, request.body, identity);
    ask_receipts(request, path, asked);
    asked.receipt_key = serving.receipt_signer.key();
    return asked;
  };
  serving.handover.add_route(path, read);
  add(http, serving, path, [&serving, prefix, read](Model& model, const HttpRequest& request, const Caller& caller) {
    const AnswerIdentity identity = identity_of(request, prefix);
    Asked asked = read(model, request, identity);
    make_resumable(asked, identity, request, caller, model, serving);
    return asked;
  });
}

// make(model, body).
template <class Make>
void add_head(HttpServer& http, Serving& serving, const char* path, Make make) {
  add(http, serving, path, [path, make](Model& model, const HttpRequest& request, const Caller&) {
    Asked asked = make(model, request.body);
    ask_receipts(request, path, asked);
    return asked;
  });
}

}  // namespace

void add_generate_routes(HttpServer& http, Serving& serving) {
  const auto lorax = [&](const char* path, Streaming streaming, bool as_list) {
    add_writing(http, serving, path, "",
                [streaming, as_list](Model& model, const std::string& body, const AnswerIdentity& identity) {
                  return lorax_asked(model, body, identity, streaming, as_list);
                });
  };
  lorax("/", Streaming::as_asked, true);
  lorax("/generate", Streaming::never, false);
  lorax("/generate_stream", Streaming::always, false);
  add_writing(http, serving, "/v1/completions", "cmpl-", completion_asked);
  add_writing(http, serving, "/v1/chat/completions", "chatcmpl-", chat_asked);
  add_writing(http, serving, "/v1/responses", "resp_", responses_asked);
  add_writing(http, serving, "/v1/messages", "msg_", messages_asked);
  add_writing(http, serving, "/api/chat", "", ollama_chat_asked);
  add_writing(http, serving, "/api/generate", "", ollama_generate_asked);
}

void add_head_routes(HttpServer& http, Serving& serving) {
  add_head(http, serving, "/v1/embeddings",
           [](Model& model, const std::string& body) { return embeddings_asked(model, body); });
  add_head(http, serving, "/embed", [](Model& model, const std::string& body) { return embed_asked(model, body); });
  add_head(http, serving, "/api/embed",
           [](Model& model, const std::string& body) { return ollama_embed_asked(model, body); });
  add_head(http, serving, "/api/embeddings",
           [](Model& model, const std::string& body) { return ollama_embeddings_asked(model, body); });
  for (const char* const path : {"/classify", "/classify_batch"})
    add_head(http, serving, path, [](Model& model, const std::string& body) { return classify_asked(model, body); });
  for (const char* const path : {"/rerank", "/v1/rerank", "/v2/rerank"}) {
    add_head(http, serving, path, [dialect = dialect_of(path)](Model& model, const std::string& body) {
      return rerank_asked(model, body, dialect);
    });
  }
  for (const char* const path : {"/score", "/v1/score"}) {
    add_head(http, serving, path, [dialect = dialect_of(path)](Model& model, const std::string& body) {
      return score_asked(model, body, dialect);
    });
  }
}

}  // namespace serve
