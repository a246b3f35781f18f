#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "server/handle.h"
#include "server/page.h"
#include "server/routes.h"
#include "server/text.h"

namespace serve {
namespace {

// A page that can load, send and run nothing but what came with it and from here.
constexpr const char* kPolicy =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

void show_page(httplib::Response& response) {
  response.set_header("Content-Security-Policy", kPolicy);
  response.set_header("X-Content-Type-Options", "nosniff");
  response.set_header("Referrer-Policy", "no-referrer");
  response.set_header("Cache-Control", "no-cache");
  response.set_content(kPage, "text/html; charset=utf-8");
}

// The step that somebody has seen last.
std::uint64_t seen(const httplib::Request& request) {
  const std::string text = request.get_param_value("since");
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw ApiError(ApiError::Kind::invalid, "since must be the number of a step, 0 or more", "since");
  }
  return number;
}

tenon::OrderedJson json_of(const StepHistory::Step& step) {
  tenon::OrderedJson rows = tenon::OrderedJson::array();
  for (const StepHistory::Row& row : step.rows) rows.push_back({row.place, row.adapter + 1, row.tokens, row.prompt_tokens});
  return {{"step", step.number}, {"at_ms", rounded(step.at_ms)}, {"ms", rounded(step.ms)}, {"rows", std::move(rows)}};
}

void show_steps(Model& model, const httplib::Request& request, httplib::Response& response) {
  const std::vector<StepHistory::Step> steps = model.steps().behind(seen(request));
  const tenon::ServiceStats stats = model.service().stats();
  const Load load = load_of(stats, model.adapter_stats());
  tenon::OrderedJson json = {{"boot", model.boot()},
                             {"last", model.steps().last()},
                             {"places", model.settings().model.batch},
                             {"running", load.running},
                             {"waiting", load.waiting},
                             {"cache_used", load.cache_used},
                             {"tokens", stats.engine.tokens},
                             {"now_ms", rounded(model.steps().now_ms())}};
  int most = -1;
  for (const auto& step : steps)
    for (const auto& row : step.rows) most = std::max(most, row.adapter);
  json["adapters"] = {""};
  for (int adapter = 0; adapter <= most; ++adapter) json["adapters"].push_back(model.adapter_name(adapter));
  json["steps"] = tenon::OrderedJson::array();
  for (const auto& step : steps) json["steps"].push_back(json_of(step));
  answer_json(response, json);
}

}  // namespace

void add_page_routes(HttpServer& http, Serving& serving) {
  http.route("GET", "/ui", [](const httplib::Request&, httplib::Response& response) { show_page(response); });
  add_plain(http, serving, "GET", "/ui/steps", [&](const httplib::Request& request, httplib::Response& response) {
    show_steps(serving.model(), request, response);
  });
}

}  // namespace serve
