#include <memory>
#include <utility>

#include "server/asked.h"
#include "server/exchange.h"
#include "server/handle.h"
#include "server/routes.h"

namespace serve {
namespace {

// make(model, body): what is asked, and who writes the answer.
template <class Make>
void add(HttpServer& http, Serving& serving, const char* path, Make make) {
  http.route("POST", path, [&serving, path, make](const httplib::Request& request, httplib::Response& response) {
    std::shared_ptr<Exchange> exchange;
    const auto error = attempt(request, response, [&] {
      const std::string id = request_id(request, response);
      check_key(serving, request);
      serving.taking_model();
      auto ticket = serving.gate.enter();
      if (!ticket) throw ApiError(ApiError::Kind::overloaded, "the server is serving as many requests as it takes");
      exchange = std::make_shared<Exchange>(serving, std::move(*ticket), path, id);
      exchange->serve(make(serving.model(), request.body), response);
    });
    if (error && exchange) exchange->failed(*error);
    else if (error) serving.metrics.request_failed(FailureKind::overloaded);
  });
}

}  // namespace

void add_generate_routes(HttpServer& http, Serving& serving) {
  add(http, serving, "/", [](Model& model, const std::string& body) { return lorax_asked(model, body, Streaming::as_asked, true); });
  add(http, serving, "/generate", [](Model& model, const std::string& body) { return lorax_asked(model, body, Streaming::never, false); });
  add(http, serving, "/generate_stream", [](Model& model, const std::string& body) { return lorax_asked(model, body, Streaming::always, false); });
  add(http, serving, "/v1/completions", [](Model& model, const std::string& body) { return completion_asked(model, body, "cmpl-" + random_id()); });
  add(http, serving, "/v1/chat/completions", [](Model& model, const std::string& body) { return chat_asked(model, body, "chatcmpl-" + random_id()); });
}

}  // namespace serve
