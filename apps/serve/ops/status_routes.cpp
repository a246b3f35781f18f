#include <chrono>
#include <string>

#include "serve/api/handle.h"
#include "serve/api/routes.h"
#include "tenon/version.h"

namespace serve {
namespace {

using namespace std::chrono_literals;

constexpr auto kLongestStep = 30s;  // of an engine that is alive

bool is_alive(Serving& serving) {
  Model* const model = serving.loaded();
  if (!model) return true;  // it is being read
  const tenon::ServiceStats stats = model->service().stats();
  return stats.healthy && !stats.stopped && stats.in_step < kLongestStep;
}

void show_health(Serving& serving, HttpResponse& response) {
  if (is_alive(serving)) return answer_json(response, {{"status", "ok"}});
  answer_json(response, {{"error", "unhealthy"}, {"error_type", "healthcheck"}}, 503);
}

void show_readiness(Serving& serving, HttpResponse& response) {
  switch (serving.phase()) {
    case Phase::ready:
      return answer_json(response, {{"status", "ready"}});
    case Phase::loading:
      return answer_json(response, {{"status", "loading"}}, 503);
    case Phase::draining:
      return answer_json(response, {{"status", "draining"}}, 503);
  }
}

void show_metrics(Serving& serving, HttpResponse& response) {
  Model& model = serving.model();
  Snapshot now{.service = model.service().stats(), .adapters = model.adapter_stats(), .model = model.name()};
  for (const tenon::AdapterInfo& each : model.resident()) {
    now.resident.push_back(each.name);
    if (each.leases > 0) now.running_adapters.push_back(each.name);
  }
  now.log_lines_lost = serving.log.lost();
  now.adapter_slots = model.settings().model.adapter_slots;
  now.vllm = model.settings().metrics_compat == "vllm";
  response.set_content(serving.metrics.text(now), "text/plain; version=0.0.4; charset=utf-8");
}

}  // namespace

void add_status_routes(HttpServer& http, Serving& serving) {
  using Request = const HttpRequest&;
  using Response = HttpResponse&;
  using From = const Caller&;
  for (const char* path : {"/health", "/", "/ping"})
    add_plain(http, serving, "GET", path, [&](Request, Response response, From) { show_health(serving, response); });
  for (const char* path : {"/ready", "/v1/health", "/startup"})
    add_plain(http, serving, "GET", path, [&](Request, Response response, From) { show_readiness(serving, response); });
  add_plain(http, serving, "GET", "/metrics",
            [&](Request, Response response, From) { show_metrics(serving, response); });
  add_plain(http, serving, "GET", "/version", [](Request, Response response, From) {
    answer_json(response, {{"version", tenon::kVersion}});
  });
}

}  // namespace serve
