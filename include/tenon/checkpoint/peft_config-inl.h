#pragma once
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>

#include "tenon/checkpoint/peft_config.h"
#include "tenon/checkpoint/peft_fields.h"
#include "tenon/checkpoint/python_regex.h"
#include "tenon/core/error.h"
#include "tenon/core/require.h"
#include "tenon/io/fields.h"
#include "tenon/io/file.h"
#include "tenon/io/json.h"

namespace tenon::detail {

TENON_INLINE std::string peft_where(const std::string& field) {
  return std::string(kPeftConfigName) + ": " + printable(field);
}

TENON_INLINE void refuse_peft(const std::string& field, std::string_view what, Error::Kind kind) {
  throw Error(kind, peft_where(field), what);
}

// Refuses unsupported features that are set. Fields that PEFT 0.21 does not know are ignored, as in PEFT. They are
// fields of trainers (ms-swift, Unsloth) or of later versions, whose defaults do not change the other fields' meaning.
TENON_INLINE void read_peft_features(const Fields& fields, PeftConfig& config) {
  const auto in = [](const auto& names, const std::string& name) {
    return std::find(std::begin(names), std::end(names), name) != std::end(names);
  };
  const bool loftq = fields.has("init_lora_weights") && fields.value("init_lora_weights") == Json("loftq");
  for (const auto& [name, value] : fields.json().items()) {
    const auto* feature = std::find_if(std::begin(kPeftFeatures), std::end(kPeftFeatures),
                                       [&name = name](const PeftFeature& each) { return name == each.field; });
    if (feature != std::end(kPeftFeatures)) {
      const bool off = value.is_null() || value == Json(false) || value.dump() == feature->empty;
      if (!off && name == "loftq_config" && value.is_object() && !loftq)
        config.inert.push_back(name);  // belongs to an initialisation that is not used
      else if (!off)
        refuse_peft(name, "is set, which is not supported: " + std::string(feature->what));
    } else if (in(kPeftInert, name)) {
      if (!value.is_null()) config.inert.push_back(name);
    } else if (!in(kPeftUsed, name)) {
      config.unknown.push_back(name);
    }
  }
}

// PEFT also draws initial values when it loads an adapter. Some kinds of initialisation subtract them from the base
// weights.
TENON_INLINE void refuse_peft_init(const Fields& fields) {
  const std::string key = "init_lora_weights";
  if (!fields.has(key) || fields.value(key).is_boolean()) return;
  const std::string kind = fields.string(key);
  for (const char* initial_only : {"gaussian", "orthogonal", "eva", "mica"})
    if (kind == initial_only) return;
  refuse_peft(key, "\"" + printable(kind, 60) +
                       "\" is not supported: PiSSA, OLoRA, CorDA, LoftQ and LoRA-GA change the base weights. Save the "
                       "adapter with path_initial_model_for_weight_conversion, which turns it into plain LoRA");
}

TENON_INLINE int peft_rank(const Fields& fields, const std::string& key) {
  const Json& value = fields.value(key);
  constexpr int max = std::numeric_limits<int>::max();
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() < 1 || value.get<std::uint64_t>() > max)
    fields.refuse(key, "the rank must be an integer of at least 1, is " + Fields::describe(value));
  return value.get<int>();
}

TENON_INLINE double peft_alpha(const Fields& fields, const std::string& key) {
  constexpr double max = std::numeric_limits<double>::max();
  return fields.number(key, -max, max);
}

TENON_INLINE bool is_peft_literal(std::string_view text) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  };
  bool after_name = false;
  for (const char c : text) {
    if (!plain(c) && !(c == '.' && after_name)) return false;
    after_name = c != '.';
  }
  return after_name;
}

TENON_INLINE void require_regex(const std::string& pattern, const std::string& field) {
  [[maybe_unused]] const PythonRegex sound(pattern, peft_where(field));
}

TENON_INLINE void read_peft_targets(const Fields& fields, PeftConfig& config) {
  const Json& value = fields.value("target_modules");
  if (!value.is_string()) {
    if (!value.is_array())
      fields.refuse("target_modules",
                    "must be a list, a regular expression or \"all-linear\", is " + Fields::describe(value));
    config.target_modules = fields.strings("target_modules");
    if (config.target_modules.empty()) fields.refuse("target_modules", "must name a module, is an empty list");
    return;
  }
  std::string text = value.get<std::string>();
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  config.all_linear = text == "all-linear";
  if (!config.all_linear) {
    config.target_regex = value.get<std::string>();
    if (config.target_regex.empty()) fields.refuse("target_modules", "must name a module, is empty");
    require_regex(config.target_regex, "target_modules");
  }
  for (const char* key : {"layers_to_transform", "layers_pattern"})
    if (fields.has(key)) fields.refuse(key, "needs target_modules to be a list, which is a string");
}

TENON_INLINE void read_peft_layers(const Fields& fields, PeftConfig& config) {
  const auto list = [&](const std::string& key) {
    const bool text = fields.has(key) && fields.value(key).is_string();
    return !fields.has(key) || text ? std::vector<std::string>{} : fields.strings(key);
  };
  const auto text = [&](const std::string& key) {
    return fields.has(key) && fields.value(key).is_string() ? fields.string(key) : std::string();
  };
  constexpr int max = std::numeric_limits<int>::max();
  const std::string key = "layers_to_transform";
  if (fields.has(key)) {
    const Json& value = fields.value(key);
    if (!value.is_array())
      config.layers_to_transform = {fields.check_integer(key, value, 0, max)};
    else
      for (const Json& each : value) config.layers_to_transform.push_back(fields.check_integer(key, each, 0, max));
  }
  config.exclude_modules = list("exclude_modules");
  config.exclude_regex = text("exclude_modules");
  if (!config.exclude_regex.empty()) require_regex(config.exclude_regex, "exclude_modules");
  config.layers_pattern = list("layers_pattern");
  if (const std::string one = text("layers_pattern"); !one.empty()) config.layers_pattern = {one};
  if (!config.layers_pattern.empty() && !fields.has(key))
    fields.refuse("layers_pattern", "needs layers_to_transform, which is not set");
  for (const std::string& each : config.layers_pattern) {
    if (PythonRegex(each, peft_where("layers_pattern")).is_open_choice())
      refuse_peft("layers_pattern",
                  "\"" + printable(each, 60) + "\": a choice without parentheses is not supported; use a list");
    require_regex("(?:^|.*?\\.)" + each + "\\.(\\d+)\\.", "layers_pattern");  // the expression that PEFT builds
  }
}

// {module: value} in the file's order, which only `ordered` keeps.
template <class Value>
PeftConfig::Pattern<Value> peft_pattern(const Fields& fields, const OrderedJson& ordered, const std::string& key,
                                        Value (*read)(const Fields&, const std::string&)) {
  PeftConfig::Pattern<Value> pattern;
  if (!fields.has(key)) return pattern;
  const Fields values = fields.object(key);
  for (const auto& [name, ignored] : ordered.at(key).items()) {
    if (!is_peft_literal(name)) require_regex(peft_key_regex(name), key + "." + name);
    pattern.emplace_back(name, read(values, name));
  }
  return pattern;
}

TENON_INLINE void read_peft_tokens(const Fields& fields, PeftConfig& config) {
  const std::string key = "trainable_token_indices";
  constexpr int max = std::numeric_limits<int>::max();
  if (!fields.has(key) || fields.value(key) == Json(false)) return;
  if (!fields.value(key).is_object()) {
    config.token_indices.emplace_back("", fields.integers(key, 0, max));
    return;
  }
  const Fields modules = fields.object(key);
  for (const auto& [name, ignored] : fields.value(key).items())
    config.token_indices.emplace_back(name, modules.integers(name, 0, max));
}

TENON_INLINE AdapterTask peft_task(const Fields& fields) {
  const std::string task = fields.choice("task_type", {"CAUSAL_LM", "SEQ_CLS", "FEATURE_EXTRACTION"}, "CAUSAL_LM");
  if (task == "SEQ_CLS") return AdapterTask::classify;
  return task == "FEATURE_EXTRACTION" ? AdapterTask::embed : AdapterTask::text;
}

TENON_INLINE void read_lora(const Fields& fields, const OrderedJson& ordered, PeftConfig& config) {
  config.r = peft_rank(fields, "r");
  config.alpha = peft_alpha(fields, "lora_alpha");
  config.rslora = fields.boolean("use_rslora", false);
  config.dora = fields.boolean("use_dora", false);
  config.lora_bias = fields.boolean("lora_bias", false);
  if (config.lora_bias && config.dora) fields.refuse("lora_bias", "cannot be set with use_dora");
  if (config.lora_bias && fields.has("init_lora_weights") && !fields.value("init_lora_weights").is_boolean())
    fields.refuse("lora_bias", "needs init_lora_weights to be true or false");
  config.rank_pattern = peft_pattern(fields, ordered, "rank_pattern", peft_rank);
  config.alpha_pattern = peft_pattern(fields, ordered, "alpha_pattern", peft_alpha);
  read_peft_tokens(fields, config);
  if (fields.has("alora_invocation_tokens"))
    config.invocation_tokens = fields.integers("alora_invocation_tokens", 0, std::numeric_limits<int>::max());
}

// rank_pattern: {path.lora_E: [whether each of init_r ranks was kept]}. PEFT reads no other field of LoRA's.
TENON_INLINE void read_adalora(const Fields& fields, const OrderedJson& ordered, PeftConfig& config) {
  config.kind = PeftKind::adalora;
  for (const char* key : {"use_dora", "lora_bias"})
    if (fields.boolean(key, false)) refuse_peft(key, "is set, which AdaLoRA does not have");
  if (fields.has("alora_invocation_tokens") && !(fields.value("alora_invocation_tokens") == Json::array()))
    refuse_peft("alora_invocation_tokens", "is set, which is not supported for AdaLoRA");
  read_peft_tokens(fields, config);
  config.r = peft_rank(fields, "init_r");
  config.alpha = peft_alpha(fields, "lora_alpha");
  const std::string key = "rank_pattern", end = ".lora_E";
  if (!fields.has(key)) return;
  const Fields patterns = fields.object(key);
  for (const auto& [name, kept] : ordered.at(key).items()) {
    if (!name.ends_with(end)) patterns.refuse(name, "must be the name of a tensor lora_E");
    if (!kept.is_array())
      patterns.refuse(name, "must be a list of true and false, is " + Fields::describe(patterns.value(name)));
    int rank = 0;
    for (const auto& each : kept) {
      if (!each.is_boolean()) patterns.refuse(name, "must be a list of true and false");
      rank += each.template get<bool>() ? 1 : 0;
    }
    config.rank_pattern.emplace_back(name.substr(0, name.size() - end.size()), rank);
  }
}

TENON_INLINE void read_vera(const Fields& fields, PeftConfig& config) {
  config.kind = PeftKind::vera;
  config.r = peft_rank(fields, "r");
  if (!fields.boolean("save_projection", true))
    refuse_peft("save_projection",
                "is false: vera_A and vera_B are random numbers of torch, which the adapter's folder "
                "lacks. Save it again with save_projection=True");
}

TENON_INLINE void read_ia3(const Fields& fields, PeftConfig& config) {
  config.kind = PeftKind::ia3;
  const std::string key = "feedforward_modules";
  if (!fields.has(key))
    fields.refuse(key, "must be a list or a regular expression: without it PEFT guesses by the model's type");
  if (!fields.value(key).is_string()) {
    config.feedforward_modules = fields.strings(key);
    return;
  }
  config.feedforward_regex = fields.string(key);
  require_regex(config.feedforward_regex, key);
}

}  // namespace tenon::detail

namespace tenon {

TENON_INLINE PeftConfig parse_peft_config(std::string_view text) {
  const JsonLimits limits{.depth = 16, .values = 100'000};
  const Json json = parse_json(text, kPeftConfigName, limits);
  const Fields fields(json, kPeftConfigName);
  const std::string type = fields.choice("peft_type", {"LORA", "ADALORA", "VERA", "IA3"});
  PeftConfig config;
  detail::read_peft_features(fields, config);
  detail::refuse_peft_init(fields);
  config.task = detail::peft_task(fields);
  fields.choice("bias", {"none", "all", "lora_only", "vera_only"}, "none");  // the tensors of the file decide
  const auto ordered = parse_json<OrderedJson>(text, kPeftConfigName, limits);
  if (type == "ADALORA")
    detail::read_adalora(fields, ordered, config);
  else if (type == "VERA")
    detail::read_vera(fields, config);
  else if (type == "IA3")
    detail::read_ia3(fields, config);
  else
    detail::read_lora(fields, ordered, config);
  if (config.task != AdapterTask::text && !config.invocation_tokens.empty())
    detail::refuse_peft("alora_invocation_tokens", "is set, which PEFT follows with task_type CAUSAL_LM alone");
  detail::read_peft_targets(fields, config);
  detail::read_peft_layers(fields, config);
  if (fields.has("modules_to_save")) config.modules_to_save = fields.strings("modules_to_save");
  config.tied_to_embedding = fields.boolean("ensure_weight_tying", false);
  return config;
}

TENON_INLINE bool PeftConfig::is_saved(std::string_view path) const {
  return std::any_of(modules_to_save.begin(), modules_to_save.end(),
                     [&](const std::string& each) { return path.ends_with(each); });
}

TENON_INLINE bool PeftConfig::saves_within(std::string_view path) const {
  const std::string parts = "." + std::string(path) + ".";
  return std::any_of(modules_to_save.begin(), modules_to_save.end(),
                     [&](const std::string& each) { return parts.find("." + each + ".") != parts.npos; });
}

TENON_INLINE bool PeftConfig::names(std::string_view module) const {
  const auto is_named = [&](const std::string& each) { return std::string_view(each).ends_with(module); };
  return target_regex.find(module) != target_regex.npos ||
         std::any_of(target_modules.begin(), target_modules.end(), is_named) ||
         std::any_of(modules_to_save.begin(), modules_to_save.end(), is_named) ||
         std::any_of(token_indices.begin(), token_indices.end(),
                     [&](const auto& each) { return is_named(each.first); });
}

TENON_INLINE bool PeftConfig::has_same_tokens(std::string_view path, std::string_view other) const {
  const auto of = [&](std::string_view module) {
    return std::find_if(token_indices.begin(), token_indices.end(),
                        [&](const auto& each) { return !each.first.empty() && module.ends_with(each.first); });
  };
  const auto first = of(path), second = of(other);
  return first != token_indices.end() && second != token_indices.end() && first->second == second->second;
}

namespace detail {

// The subfolders that hold an adapter, as PEFT saves a model of several: "first, second"; empty: none.
inline std::string adapters_within(const std::filesystem::path& folder) {
  constexpr std::size_t kMost = 8;
  std::vector<std::string> names;
  std::error_code failed;
  for (auto each = std::filesystem::directory_iterator(folder, failed);
       !failed && each != std::filesystem::directory_iterator(); each.increment(failed)) {
    std::error_code ignored;
    if (std::filesystem::exists(each->path() / kPeftConfigName, ignored)) names.push_back(file_name_of(each->path()));
  }
  std::sort(names.begin(), names.end());
  std::string text;
  for (std::size_t i = 0; i < std::min(kMost, names.size()); ++i) text += (i == 0 ? "" : ", ") + names[i];
  return text + (names.size() > kMost ? ", ..." : "");
}

}  // namespace detail

TENON_INLINE PeftConfig read_peft_config(const std::filesystem::path& folder) {
  constexpr std::uint64_t max_bytes = 4u << 20;  // usually 1 kB; 100 kB with a rank for each module of a large model
  std::error_code failed;
  if (!std::filesystem::is_directory(folder, failed))
    throw Error(Error::Kind::io, kPeftConfigName,
                "there is no adapter folder \"" + file_name_of(folder) + "\" to read it from");
  if (!std::filesystem::exists(folder / kPeftConfigName, failed)) {
    if (const std::string within = detail::adapters_within(folder); !within.empty())
      throw Error(
          Error::Kind::io, kPeftConfigName,
          "\"" + file_name_of(folder) + "\" has none, but these subfolders have one: " + within + "; name one of them");
  }
  return parse_peft_config(read_text_file(folder / kPeftConfigName, max_bytes));
}

}  // namespace tenon
