// Routes of Ollama's API that write no text: what is served, as Ollama describes it.
#include <cctype>
#include <string>
#include <utility>

#include "families.h"
#include "serve/api/handle.h"
#include "serve/api/ignored_fields.h"
#include "serve/api/ollama/ollama_request.h"
#include "serve/api/requested_adapters.h"
#include "serve/api/routes.h"
#include "serve/api/writer.h"
#include "serve/text.h"
#include "tenon/version.h"

namespace serve {
namespace {

using tenon::OrderedJson;

// As Ollama writes it: "135M", "1.2B".
std::string rounded_count(std::size_t parameters) {
  const auto of = [&](double unit, const char* name) {
    std::string text = std::to_string(static_cast<double>(parameters) / unit);
    text.resize(text.find('.') + 2);
    if (text.ends_with(".0")) text.resize(text.size() - 2);
    return text + name;
  };
  if (parameters >= 1'000'000'000) return of(1e9, "B");
  return parameters >= 1'000'000 ? of(1e6, "M") : of(1e3, "K");
}

std::size_t parameters_of(const Model& model) {
  const tenon::ModelConfig& config = model.config();
  return program::count_weights(program::family_named(config.model_type).tensors(config), config.tied_head,
                                program::weight_formats().front())
      .parameters;
}

// float32 is F32 in Ollama, and so on. Other formats have the names of --weights in capital letters.
std::string quantization_level(std::string weights) {
  for (const auto& [name, level] : {std::pair{"float32", "F32"}, {"float16", "F16"}, {"bfloat16", "BF16"}})
    if (weights == name) return level;
  for (char& c : weights) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return weights;
}

// `name`: the base model, or an adapter on it.
OrderedJson details_of(const Model& model, const std::string& name) {
  const std::string& family = model.config().model_type;
  const program::ModelOptions& options = model.settings().model;
  const bool is_base = names_base(name, model.context());
  return {{"parent_model", is_base ? "" : model.name()},
          {"format", options.model.ends_with(".gguf") ? "gguf" : "safetensors"},
          {"family", family},
          {"families", OrderedJson::array({family})},
          {"parameter_size", rounded_count(parameters_of(model))},
          {"quantization_level", quantization_level(options.weights)}};
}

OrderedJson described_model(const Model& model, const std::string& name) {
  return {{"name", name},
          {"model", name},
          {"modified_at", iso_time(model.created() * 1000)},
          {"size", model.weight_bytes()},
          {"digest", model.fingerprint()},
          {"details", details_of(model, name)}};
}

void list_tags(Model& model, HttpResponse& response) {
  const std::string body = model.tags().body([&model] {
    OrderedJson all = OrderedJson::array();
    for (const std::string& name : model.names()) all.push_back(described_model(model, name));
    for (const std::string& name : model.adapters().list())
      if (!names_base(name, model.context())) all.push_back(described_model(model, name));
    return one_line({{"models", std::move(all)}});
  });
  response.set_content(body, "application/json");
}

// The base model, and adapters in memory. None of them is unloaded after a time.
void list_running(Model& model, HttpResponse& response) {
  OrderedJson all = OrderedJson::array();
  const auto add = [&](const std::string& name) {
    OrderedJson one = described_model(model, name);
    one.erase("modified_at");
    one["expires_at"] = "9999-12-31T23:59:59Z";
    one["size_vram"] = model.settings().model.device == "cpu" ? 0 : model.weight_bytes();
    one["context_length"] = model.limits().max_total_tokens;
    all.push_back(std::move(one));
  };
  for (const std::string& name : model.names()) add(name);
  for (const auto& [number, name] : model.numbered_adapters()) add(name);
  answer_json(response, {{"models", std::move(all)}});
}

OrderedJson capabilities_of(const Model& model) {
  OrderedJson all = {"completion"};
  if (!model.has_chat_template()) return all;
  all.push_back("tools");
  if (!model.chat_template().style(/*tools=*/false).think.end.empty()) all.push_back("thinking");
  return all;
}

void show_details(Serving& serving, const HttpRequest& request, HttpResponse& response) {
  Model& model = serving.model();
  const std::string name = parse_ollama_show(request.body, model.context());
  if (!names_base(name, model.context()) && !model.adapters().is_known(name)) throw unknown_adapter(name);
  const tenon::ModelConfig& config = model.config();
  const std::string family = config.model_type;
  const OrderedJson info = {{"general.architecture", family},
                            {"general.parameter_count", parameters_of(model)},
                            {family + ".context_length", model.limits().max_total_tokens},
                            {family + ".embedding_length", config.hidden},
                            {family + ".block_count", config.layers},
                            {family + ".attention.head_count", config.heads}};
  answer_json(response, {{"modelfile", ""},
                         {"parameters", ""},
                         {"template", ""},
                         {"details", details_of(model, name)},
                         {"model_info", info},
                         {"capabilities", capabilities_of(model)},
                         {"modified_at", iso_time(model.created() * 1000)}});
}

}  // namespace

void add_ollama_routes(HttpServer& http, Serving& serving) {
  using Request = const HttpRequest&;
  using Response = HttpResponse&;
  using From = const Caller&;
  add_plain(http, serving, "GET", "/api/version", [](Request, Response response, From) {
    answer_json(response, {{"version", tenon::kVersion}});
  });
  add_plain(http, serving, "GET", "/api/tags",
            [&](Request, Response response, From) { list_tags(serving.model(), response); });
  add_plain(http, serving, "GET", "/api/ps",
            [&](Request, Response response, From) { list_running(serving.model(), response); });
  add_plain(http, serving, "POST", "/api/show",
            [&](Request request, Response response, From) { show_details(serving, request, response); });
  for (const auto& [method, path] : {std::pair{"POST", "/api/pull"},
                                     {"POST", "/api/push"},
                                     {"POST", "/api/create"},
                                     {"POST", "/api/copy"},
                                     {"DELETE", "/api/delete"}}) {
    add_plain(http, serving, method, path, [](Request, Response, From) {
      throw ApiError(ApiError::Kind::not_implemented,
                     "this server has one model, which is named when it starts (--model), and adapters below "
                     "--adapter-root");
    });
  }
}

}  // namespace serve
