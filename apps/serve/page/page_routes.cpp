#include <charconv>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "serve/api/handle.h"
#include "serve/api/routes.h"
#include "serve/page/page.h"
#include "serve/text.h"

namespace serve {
namespace {

// A page that can load, send and run nothing but what came with it and from here.
constexpr const char* kPolicy =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src 'self' "
    "data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

void show_page(HttpResponse& response) {
  response.set_header("Content-Security-Policy", kPolicy);
  response.set_header("X-Content-Type-Options", "nosniff");
  response.set_header("Referrer-Policy", "no-referrer");
  response.set_header("Cache-Control", "no-cache");
  response.set_content(kPage, "text/html; charset=utf-8");
}

// The step that somebody has seen last.
std::uint64_t seen(const HttpRequest& request) {
  const std::string text = request.parameter("since");
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw ApiError(ApiError::Kind::invalid, "since must be the number of a step, 0 or more", "since");
  }
  return number;
}

// The adapters that rows have, numbered as they come; 0 is the model alone.
class AdapterList {
 public:
  explicit AdapterList(Model& model) : model_(model) {}

  int number(int adapter) {
    const auto [found, fresh] = numbers_.try_emplace(adapter, static_cast<int>(names_.size()));
    if (fresh) names_.push_back(model_.adapter_name(adapter));
    return found->second;
  }
  const std::vector<std::string>& names() const { return names_; }

 private:
  Model& model_;
  std::map<int, int> numbers_{{-1, 0}};
  std::vector<std::string> names_{""};
};

tenon::OrderedJson json_of(const StepHistory::Step& step, AdapterList& adapters) {
  tenon::OrderedJson rows = tenon::OrderedJson::array();
  for (const StepHistory::Row& row : step.rows)
    rows.push_back({row.place, adapters.number(row.adapter), row.tokens, row.prompt_tokens});
  return {{"step", step.number}, {"at_ms", rounded(step.at_ms)}, {"ms", rounded(step.ms)}, {"rows", std::move(rows)}};
}

// Whether a conversation can be rendered, so that the page opens as one.
bool can_talk(const Model& model) {
  try {
    const auto messages = tenon::OrderedJson::array({{{"role", "user"}, {"content", "Hello"}}});
    model.chat_prompt({.messages = messages, .add_generation_prompt = true});
    return true;
  } catch (const ApiError&) {
    return false;
  }
}

struct PageOffers {
  bool chat = false;       // conversations
  bool resumable = false;  // streams that can be continued
};

void show_steps(Model& model, const PageOffers& offers, const HttpRequest& request, HttpResponse& response) {
  const std::vector<StepHistory::Step> steps = model.steps().behind(seen(request));
  const tenon::ServiceStats stats = model.service().stats();
  const Load load = load_of(stats, model.adapter_stats());
  tenon::OrderedJson json = {{"boot", model.boot()},
                             {"last", model.steps().last()},
                             {"places", model.settings().model.batch},
                             {"chat", offers.chat},
                             {"resumable", offers.resumable},
                             {"running", load.running},
                             {"waiting", load.waiting},
                             {"cache_used", load.cache_used},
                             {"tokens", stats.engine.tokens},
                             {"now_ms", rounded(model.steps().now_ms())}};
  AdapterList adapters(model);
  tenon::OrderedJson drawn = tenon::OrderedJson::array();
  for (const StepHistory::Step& step : steps) drawn.push_back(json_of(step, adapters));
  json["adapters"] = adapters.names();
  json["steps"] = std::move(drawn);
  answer_json(response, json);
}

}  // namespace

void add_page_routes(HttpServer& http, Serving& serving) {
  add_plain(http, serving, "GET", "/ui",
            [](const HttpRequest&, HttpResponse& response, const Caller&) { show_page(response); });
  struct Talk {
    std::once_flag asked;
    bool can = false;
  };
  const auto talk = std::make_shared<Talk>();
  add_plain(http, serving, "GET", "/ui/steps",
            [&serving, talk](const HttpRequest& request, HttpResponse& response, const Caller&) {
              Model& model = serving.model();
              std::call_once(talk->asked, [&] { talk->can = can_talk(model); });
              show_steps(model, {.chat = talk->can, .resumable = !serving.resume_key.empty()}, request, response);
            });
}

}  // namespace serve
