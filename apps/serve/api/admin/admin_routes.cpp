// Routes that load, name and unload adapters, as in vLLM.
#include <algorithm>
#include <string>

#include "serve/api/body.h"
#include "serve/api/handle.h"
#include "serve/api/ignored_fields.h"
#include "serve/api/requested_adapters.h"
#include "serve/api/routes.h"
#include "serve/fetch/adapter_reference.h"
#include "serve/text.h"
#include "tenon/adapter/root.h"

namespace serve {
namespace {

void say(HttpResponse& response, const std::string& text) { response.set_content(text, "text/plain"); }

void refuse_admin(HttpResponse& response, int status, const char* type, const std::string& message) {
  answer_json(response, {{"error", {{"message", message}, {"type", type}, {"param", nullptr}, {"code", status}}}},
              status);
}

std::string text_field(const RequestFields& fields, const char* name) {
  const tenon::Json* const found = fields.find(name);
  return found && found->is_string() ? found->get<std::string>() : std::string();
}

// Returns false if the name is loaded already or cannot be added. A folder of the root already has its name.
bool add_name(Model& model, const std::string& name, const std::string& path) {
  const auto resident = model.resident();
  const bool loaded =
      std::any_of(resident.begin(), resident.end(), [&](const tenon::AdapterInfo& each) { return each.name == name; });
  return !loaded && (name == path || model.adapters().add(name, path));
}

void load_adapter(Serving& serving, const std::string& text, HttpResponse& response) {
  Model& model = serving.taking_model();
  const Body body = parse_body(text);
  UnknownFields unknown{.lenient = model.context().lenient};
  const RequestFields fields(body.json, kLoad, unknown);
  tell_ignored(response, serving, unknown.ignored);
  const std::string name = text_field(fields, "lora_name"), asked = text_field(fields, "lora_path");
  const std::string path = model.adapters().name_of_path(asked);
  if (name.empty() || path.empty())
    return refuse_admin(response, 400, "InvalidUserInput", "Both 'lora_name' and 'lora_path' must be provided.");
  const auto& names = model.names();
  if (!tenon::is_adapter_id(name) || std::find(names.begin(), names.end(), name) != names.end()) {
    return refuse_admin(response, 400, "InvalidUserInput", "'lora_name' is not a valid adapter name");
  }
  if (const auto base = fields.string("base_model_name"); base && !names_base(*base, model.context())) {
    fields.refuse("base_model_name", "must be the model that is served: " + model.name());
  }
  const auto not_found = [&] {
    const char* const hint = adapter_reference(asked) ? "." : ": `lora_path` is a name or a path below --adapter-root.";
    refuse_admin(response, 404, "NotFoundError", "No adapter found for '" + shown(asked) + "'" + hint);
  };
  try {
    if (!model.adapters().may_be_named(path)) return not_found();
    if (!add_name(model, name, path))
      return refuse_admin(response, 400, "InvalidUserInput",
                          "The lora adapter '" + name + "' has already been loaded.");
  } catch (const FetchError&) {
    throw;
  } catch (const tenon::Error&) {
    return not_found();
  }
  try {
    model.load_adapter(name);
  } catch (...) {
    // Also forgets the failure, so that the name can be loaded again from another path.
    if (model.adapters().leads_to(name, path)) model.unload_adapter(name);
    throw;
  }
  model.forget_lists();
  say(response, "Success: LoRA adapter '" + name + "' added successfully.");
}

void unload_adapter(Serving& serving, const std::string& text, HttpResponse& response) {
  Model& model = serving.taking_model();
  const Body body = parse_body(text);
  UnknownFields unknown{.lenient = model.context().lenient};
  const RequestFields fields(body.json, kUnload, unknown);
  tell_ignored(response, serving, unknown.ignored);
  const std::string name = text_field(fields, "lora_name");
  if (name.empty())
    return refuse_admin(response, 400, "InvalidUserInput",
                        "'lora_name' needs to be provided to unload a LoRA adapter.");
  if (!adapter_reference(name) || !model.unload_adapter(name))
    return refuse_admin(response, 404, "NotFoundError", "The lora adapter '" + shown(name) + "' cannot be found.");
  say(response, "Success: LoRA adapter '" + name + "' removed successfully.");
}

}  // namespace

void add_admin_routes(HttpServer& http, Serving& serving) {
  using Request = const HttpRequest&;
  using Response = HttpResponse&;
  add_plain(http, serving, "POST", "/v1/load_lora_adapter",
            [&](Request request, Response response, const Caller&) { load_adapter(serving, request.body, response); });
  add_plain(http, serving, "POST", "/v1/unload_lora_adapter", [&](Request request, Response response, const Caller&) {
    unload_adapter(serving, request.body, response);
  });
}

}  // namespace serve
