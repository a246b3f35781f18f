#include "serve/api/requested_adapters.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "serve/api/api_error.h"
#include "serve/fetch/adapter_reference.h"
#include "serve/text.h"
#include "tenon/adapter/options.h"

namespace serve {
namespace {

using tenon::AdapterUse;
using tenon::Json;
using Uses = std::vector<AdapterUse>;

constexpr auto kWeight = [](double x) { return x >= -1000 && x <= 1000; };  // sums of factors stay finite

// The meaning of names in one request: its source of adapters, and the server's names.
struct Naming {
  const RequestContext& context;
  std::string source;  // "", "local", "hub" or "s3"

  // The server's name for what the client calls `name` in the field `param`.
  std::string of(const std::string& name, const std::string& param) const {
    check_adapter_name(name, param, source);
    return context.adapter_from ? context.adapter_from(name, source) : name;
  }
};

[[noreturn]] void refuse_source(const std::string& message) {
  throw ApiError(ApiError::Kind::invalid, message, "adapter_source");
}

// The source that the objects of a request name. Empty: none.
std::string source_in(std::initializer_list<const RequestFields*> objects, const RequestContext& context) {
  std::string source;
  for (const RequestFields* const f : objects) {
    const auto named = f->string("adapter_source");
    if (!named || named->empty()) continue;
    if (*named != "local" && *named != "hub" && *named != "s3")
      refuse_source("`adapter_source=" + shown(*named) + "` is not supported, only local, hub and s3");
    if (*named == "s3" && !context.fetches)
      refuse_source("`adapter_source=s3` is not supported by this server: it fetches no adapters (--adapter-fetch)");
    if (!source.empty() && source != *named) refuse_source("`adapter_source` is given twice, with different values");
    source = *named;
  }
  return source;
}

void add_use(Uses& uses, const std::string& name, float weight, const std::string& field, const Naming& naming) {
  if (!names_base(name, naming.context)) uses.push_back({naming.of(name, field), weight});
}

// Called before any name is looked up, so that a long list costs no look-ups.
void check_count(const RequestFields& f, const char* field, std::size_t count) {
  if (count > tenon::kMostAdapters)
    f.refuse(field, "must hold at most " + std::to_string(tenon::kMostAdapters) + " adapters");
}

Uses by_name(const RequestFields& f, const std::string& field, const Naming& naming) {
  Uses uses;
  if (const auto name = f.string(field)) add_use(uses, *name, 1, f.name_of(field), naming);
  return uses;
}

// The list of mistral.rs: the sum of all adapters that it names.
Uses by_list(const RequestFields& f, const Naming& naming) {
  Uses uses;
  const Json* const value = f.find("adapters");
  if (value && value->is_string()) return by_name(f, "adapters", naming);
  if (value && value->is_array()) check_count(f, "adapters", value->size());
  for (const std::string& name : f.strings("adapters")) add_use(uses, name, 1, "adapters", naming);
  return uses;
}

// An element of llama.cpp's list.
AdapterUse scaled(const RequestFields& f, const std::string& path, const Naming& naming) {
  const Json* const id = f.find("id");
  auto name = f.string("path");
  if (!id && !name) f.refuse("id", "is missing");
  if (id && !id->is_number_integer() && !id->is_string())
    f.refuse_type("id", "an id of GET /lora-adapters, or a name", *id);
  if (id) {
    const auto of_id = id->is_string() ? std::optional(id->get<std::string>())
                       : naming.context.adapter_of_id
                           ? naming.context.adapter_of_id(
                                 f.check_integer("id", *id, 0, kMaxInt, "must be an id that GET /lora-adapters lists"))
                           : std::nullopt;
    if (!of_id)
      f.refuse("id", "must be an id that GET /lora-adapters lists, or an adapter's name; is " + shown(id->dump()));
    if (name && *name != *of_id) f.refuse("path", "names another adapter than `id`");
    name = of_id;
  }
  const Json* const scale = f.find("scale");
  if (!scale) f.refuse("scale", "is missing");
  return {naming.of(*name, path), f.check_number("scale", *scale, kWeight, "must be a number from -1000 to 1000")};
}

Uses by_scales(const RequestFields& f, const Naming& naming, UnknownFields& unknown) {
  Uses uses;
  const Json* const list = f.list("lora");
  if (!list) return uses;
  check_count(f, "lora", list->size());
  for (std::size_t i = 0; i < list->size(); ++i) {
    const std::string path = "lora[" + std::to_string(i) + "]";
    AdapterUse use = scaled(RequestFields((*list)[i], kScaledAdapter, unknown, path), path, naming);
    if (use.weight != 0) uses.push_back(std::move(use));
  }
  return uses;
}

// The object of vLLM. Its path must be the name, because a request must not choose which files are read.
Uses by_request(const RequestFields& f, const Naming& naming, UnknownFields& unknown) {
  const Json* const value = f.find("lora_request");
  if (!value || value->is_string()) return by_name(f, "lora_request", naming);
  const RequestFields request = *f.object("lora_request", kAdapterRequest, unknown);
  const auto name = request.string("lora_name");
  auto path = request.string("lora_path");
  if (!path) path = request.string("path");
  if (!name && !path) request.refuse("lora_name", "is missing");
  if (name && path && *name != *path) {
    request.refuse("lora_path", "must be the name, as `lora_name`; POST /v1/load_lora_adapter gives a folder a name");
  }
  Uses uses;
  add_use(uses, name ? *name : *path, 1, "lora_request", naming);
  return uses;
}

// Takes the strategy `linear` alone, a weighted sum. The engine cannot drop or elect values, as other strategies do.
Uses merged(const RequestFields& fields, const Naming& naming, UnknownFields& unknown) {
  const RequestFields f = *fields.object("merged_adapters", kMerged, unknown);
  const std::string strategy = f.string("merge_strategy").value_or("linear");
  if (strategy != "linear") {
    throw ApiError(ApiError::Kind::invalid,
                   "`merged_adapters` with `merge_strategy=" + shown(strategy) + "` is not supported, only linear",
                   "merged_adapters");
  }
  const std::vector<std::string> ids = f.strings("ids");
  if (ids.empty()) f.refuse("ids", "must name at least one adapter");
  check_count(f, "ids", ids.size());
  const Json* const weights = f.list("weights");
  if (!weights || weights->size() != ids.size()) f.refuse("weights", "must hold one weight for each of `ids`");
  Uses uses;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    std::string name = naming.of(ids[i], "merged_adapters.ids");
    uses.push_back(
        {std::move(name), f.check_number("weights", (*weights)[i], kWeight, "must hold numbers from -1000 to 1000")});
  }
  return uses;
}

// Adds what `field` names to what was found in other fields. Refused if both name adapters, and not the same.
void take(NamedAdapters& found, Uses uses, const RequestFields& f, const std::string& field) {
  if (uses.empty()) return;
  const std::string name = f.name_of(field);
  if (found.uses.empty()) {
    found = {std::move(uses), name};
  } else if (found.uses != uses && name == found.field) {  // once at the top, once in `parameters`
    const std::string inner = "parameters." + name;
    throw ApiError(ApiError::Kind::invalid,
                   "`" + inner + "` names another adapter than `" + name + "`; keep one of them", inner);
  } else if (found.uses != uses) {
    f.refuse(field, "names another adapter than `" + found.field + "`; keep one of them");
  }
}

}  // namespace

bool names_base(const std::string& name, const RequestContext& context) {
  if (name.empty() || name == "__base_model__") return true;
  if (std::find(context.base_names.begin(), context.base_names.end(), name) != context.base_names.end()) return true;
  return (name == "tgi" || name == "dummy") && !(context.is_adapter && context.is_adapter(name));
}

void check_adapter_name(const std::string& name, const std::string& param, std::string_view source) {
  const auto reference = adapter_reference(source == "s3" && !name.starts_with("s3:") ? "s3:" + name : name);
  if (reference && (source.empty() || !reference->remote() || reference->source == source)) return;
  throw ApiError(ApiError::Kind::bad_adapter_name,
                 "`" + param +
                     "` must be the name of a model or adapter: NAME or OWNER/NAME, of letters, digits, '.', '_' and " +
                     "'-'; `@` and a revision may follow. Given: `" + shown(name) + "`",
                 param);
}

NamedAdapters named_adapters(std::initializer_list<const RequestFields*> objects, const RequestContext& context,
                             UnknownFields& unknown) {
  NamedAdapters found;
  const Naming naming{context, source_in(objects, context)};
  bool merges = false;  // an earlier object has merged_adapters
  for (const RequestFields* const f : objects) {
    Uses by_model = by_name(*f, "model", naming), by_id = by_name(*f, "adapter_id", naming);
    take(found, std::move(by_model), *f, "model");
    take(found, std::move(by_id), *f, "adapter_id");
    take(found, by_list(*f, naming), *f, "adapters");
    take(found, by_scales(*f, naming, unknown), *f, "lora");
    take(found, by_request(*f, naming, unknown), *f, "lora_request");
    if (!f->has("merged_adapters")) continue;
    Uses uses = merged(*f, naming, unknown);
    if (!found.uses.empty() && !merges) {  // LoRAX's text, which calls merged_adapters `adapters`
      throw ApiError(ApiError::Kind::invalid, "at most one of `adapter_id` or `adapters` may be provided", found.field);
    }
    take(found, std::move(uses), *f, "merged_adapters");
    merges = true;
  }
  return found;
}

}  // namespace serve
