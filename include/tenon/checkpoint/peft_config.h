// adapter_config.json of a LoRA adapter, as PEFT 0.21 means it: which linears it updates, with what rank and scale.
#pragma once
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/core/error.h"
#include "tenon/core/fields.h"
#include "tenon/core/file.h"
#include "tenon/core/json.h"

namespace tenon {

inline constexpr const char* kPeftConfigName = "adapter_config.json";

struct PeftConfig {
  template <class Value>
  using Pattern = std::vector<std::pair<std::string, Value>>;  // in the file's order: the first that matches counts

  int r = 0;
  double alpha = 0;
  bool rslora = false;        // the scale is alpha / sqrt(r) in place of alpha / r
  Pattern<int> rank_pattern;  // of single modules, in place of r
  Pattern<double> alpha_pattern;
  bool all_linear = false;  // in place of target_modules
  std::vector<std::string> target_modules;
  std::vector<std::string> exclude_modules;
  std::vector<int> layers_to_transform;     // empty: all
  std::vector<std::string> layers_pattern;  // what stands before the layer's index; empty: anything
  bool tied_to_embedding = false;           // ensure_weight_tying: a head's factors are those of the embedding
  std::vector<std::string> inert;           // fields that are set and change no output
};

namespace detail {

// Features that are off where the field is absent, null, false or `empty`. Some are on with {}: PEFT fills in defaults.
struct PeftFeature {
  const char *field, *empty, *what;
};
inline constexpr PeftFeature kPeftFeatures[] = {
    {"use_dora", "", "DoRA rescales the updated weights by a learned magnitude"},
    {"use_qalora", "", "QA-LoRA pools the inputs of lora_A"},
    {"use_bdlora", "", "factors of blocks on the diagonal"},
    {"lora_bias", "", "biases of lora_B"},
    {"modules_to_save", "[]", "modules that were trained whole, beside the adapter"},
    {"trainable_token_indices", "", "trained rows of the embedding"},
    {"target_parameters", "[]", "updates of parameters that belong to no linear"},
    {"layer_replication", "[]", "a model of replicated layers"},
    {"alora_invocation_tokens", "[]", "activated LoRA begins only at its invocation tokens"},
    {"arrow_config", "", "routing between adapters"},
    {"kasa_config", "", "KaSA changes the base weights"},
    {"monteclora_config", "", "factors drawn at random"},
    {"velora_config", "", "VeLoRA adds tensors of its own"},
    {"loftq_config", "{}", "LoftQ changes the base weights"},
    {"megatron_config", "{}", "Megatron's parallel linears"},
};

// Read by parse_peft_config and used.
inline constexpr const char* kPeftUsed[] = {"peft_type",
                                            "r",
                                            "lora_alpha",
                                            "use_rslora",
                                            "rank_pattern",
                                            "alpha_pattern",
                                            "target_modules",
                                            "exclude_modules",
                                            "layers_to_transform",
                                            "layers_pattern",
                                            "bias"};

// They say where the adapter comes from and how it was trained. fan_in_fan_out says how the base stores its weight; A
// and B are stored alike either way. The configs of EVA, CorDA and LoRA-GA are those of init_lora_weights.
inline constexpr const char* kPeftInert[] = {
    "task_type",         "auto_mapping",   "base_model_name_or_path", "revision",
    "peft_version",      "lora_dropout",   "inference_mode",          "init_lora_weights",
    "eva_config",        "corda_config",   "megatron_core",           "fan_in_fan_out",
    "qalora_group_size", "lora_ga_config", "runtime_config",          "ensure_weight_tying"};

[[noreturn]] inline void refuse_peft(const std::string& field, std::string_view what,
                                     Error::Kind kind = Error::Kind::unsupported) {
  throw Error(kind, std::string(kPeftConfigName) + ": " + printable(field), what);
}

// Null, false or []: what a field says that is not in use. {} may be the config of a method, all of it at its defaults.
inline bool says_nothing(const Json& value) {
  return value.is_null() || value == Json(false) || (value.is_array() && value.empty());
}

// Fields of other methods, and fields that nobody knows. Returns the names of those that are set without effect.
inline std::vector<std::string> refuse_peft_features(const Fields& fields) {
  const auto in = [](const auto& names, const std::string& name) {
    return std::find(std::begin(names), std::end(names), name) != std::end(names);
  };
  std::vector<std::string> inert;
  for (const auto& [name, value] : fields.json().items()) {
    const auto* feature = std::find_if(std::begin(kPeftFeatures), std::end(kPeftFeatures),
                                       [&name = name](const PeftFeature& each) { return name == each.field; });
    if (feature != std::end(kPeftFeatures)) {
      if (!value.is_null() && value != Json(false) && value.dump() != feature->empty)
        refuse_peft(name, "is set, which is not supported: " + std::string(feature->what));
    } else if (in(kPeftInert, name)) {
      if (!value.is_null()) inert.push_back(name);
    } else if (!in(kPeftUsed, name)) {
      if (!says_nothing(value))
        refuse_peft(name, "is no field of LoRA in PEFT 0.21, is " + Fields::describe(value) +
                              " and may change the outputs; only null, false and [] can be passed over");
      inert.push_back(name);
    }
  }
  return inert;
}

// PEFT draws initial values when it loads an adapter, too, and some kinds take them out of the base weights.
inline void refuse_peft_init(const Fields& fields) {
  const std::string key = "init_lora_weights";
  if (!fields.has(key) || fields.value(key).is_boolean()) return;
  const std::string kind = fields.string(key);
  for (const char* initial_only : {"gaussian", "orthogonal", "eva", "mica"})
    if (kind == initial_only) return;
  refuse_peft(key, "\"" + printable(kind, 60) +
                       "\" is not supported: PiSSA, OLoRA, CorDA, LoftQ and LoRA-GA change the base weights. Save the "
                       "adapter with path_initial_model_for_weight_conversion, which turns it into plain LoRA");
}

inline int peft_rank(const Fields& fields, const std::string& key) {
  const Json& value = fields.value(key);
  constexpr int max = std::numeric_limits<int>::max();
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() < 1 || value.get<std::uint64_t>() > max)
    fields.refuse(key, "the rank must be an integer of at least 1, is " + Fields::describe(value));
  return value.get<int>();
}

inline double peft_alpha(const Fields& fields, const std::string& key) {
  constexpr double max = std::numeric_limits<double>::max();
  return fields.number(key, -max, max);
}

// Letters, digits, _ and -, with dots between names: what means the same as a name and as a regular expression.
inline bool is_peft_literal(std::string_view text) {
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

// {module: value}; `names` has the keys in the file's order.
template <class Value>
PeftConfig::Pattern<Value> peft_pattern(const Fields& fields, const OrderedJson& ordered, const std::string& key,
                                        Value (*read)(const Fields&, const std::string&)) {
  PeftConfig::Pattern<Value> pattern;
  if (!fields.has(key)) return pattern;
  const Fields values = fields.object(key);
  for (const auto& [name, ignored] : ordered.at(key).items()) {
    if (!is_peft_literal(name))
      refuse_peft(key + "." + name,
                  "a regular expression is not supported as a key: name the module by letters, digits, _, - and dots "
                  "between names");
    pattern.emplace_back(name, read(values, name));
  }
  return pattern;
}

inline void read_peft_targets(const Fields& fields, PeftConfig& config) {
  const Json& value = fields.value("target_modules");
  if (!value.is_string()) {
    if (!value.is_array())
      fields.refuse("target_modules", "must be a list or \"all-linear\", is " + Fields::describe(value));
    config.target_modules = fields.strings("target_modules");
    if (config.target_modules.empty()) fields.refuse("target_modules", "must name a module, is an empty list");
    return;
  }
  std::string text = value.get<std::string>();
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  if (text != "all-linear")
    refuse_peft("target_modules", "the regular expression \"" + printable(value.get<std::string>(), 60) +
                                      "\" is not supported; a list of names and \"all-linear\" are");
  config.all_linear = true;
  for (const char* key : {"layers_to_transform", "layers_pattern"})
    if (fields.has(key)) fields.refuse(key, "needs target_modules to be a list, which is a string");
}

inline void read_peft_layers(const Fields& fields, PeftConfig& config) {
  const auto list = [&](const std::string& key, bool one_string) {
    if (!fields.has(key)) return std::vector<std::string>{};
    const Json& value = fields.value(key);
    if (!value.is_string()) return fields.strings(key);
    const std::string text = value.get<std::string>();
    if (!one_string && !text.empty())
      refuse_peft(key, "the regular expression \"" + printable(text, 60) + "\" is not supported; a list of names is");
    return text.empty() ? std::vector<std::string>{} : std::vector{text};
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
  config.exclude_modules = list("exclude_modules", /*one_string=*/false);
  config.layers_pattern = list("layers_pattern", /*one_string=*/true);
  if (!config.layers_pattern.empty() && !fields.has(key))
    fields.refuse("layers_pattern", "needs layers_to_transform, which is not set");
  for (const std::string& each : config.layers_pattern)
    if (!is_peft_literal(each))
      refuse_peft("layers_pattern", "the regular expression \"" + printable(each, 60) +
                                        "\" is not supported: name what holds the layers, such as \"h\"");
}

}  // namespace detail

// Reads and checks the text of an adapter_config.json. Errors: invalid_file, or unsupported where a field asks for what
// would change the outputs and is not done.
inline PeftConfig parse_peft_config(std::string_view text) {
  const JsonLimits limits{.depth = 16, .values = 100'000};
  const Json json = parse_json(text, kPeftConfigName, limits);
  const Fields fields(json, kPeftConfigName);
  fields.choice("peft_type", {"LORA"});
  PeftConfig config;
  config.inert = detail::refuse_peft_features(fields);
  detail::refuse_peft_init(fields);
  fields.choice("task_type", {"CAUSAL_LM"}, "CAUSAL_LM");
  fields.choice("bias", {"none"}, "none");

  config.r = detail::peft_rank(fields, "r");
  config.alpha = detail::peft_alpha(fields, "lora_alpha");
  config.rslora = fields.boolean("use_rslora", false);
  const auto ordered = parse_json<OrderedJson>(text, kPeftConfigName, limits);
  config.rank_pattern = detail::peft_pattern(fields, ordered, "rank_pattern", detail::peft_rank);
  config.alpha_pattern = detail::peft_pattern(fields, ordered, "alpha_pattern", detail::peft_alpha);
  detail::read_peft_targets(fields, config);
  detail::read_peft_layers(fields, config);
  config.tied_to_embedding = fields.boolean("ensure_weight_tying", false);
  return config;
}

// Reads <folder>/adapter_config.json. Errors: io where it is missing, and those of parse_peft_config.
inline PeftConfig read_peft_config(const std::filesystem::path& folder) {
  constexpr std::uint64_t max_bytes = 4u << 20;  // 1 kB is usual; 100 kB with a rank for each module of a large model
  std::error_code failed;
  if (!std::filesystem::is_directory(folder, failed))
    throw Error(Error::Kind::io, kPeftConfigName,
                "there is no adapter folder \"" + file_name_of(folder) + "\" to read it from");
  return parse_peft_config(read_text_file(folder / kPeftConfigName, max_bytes));
}

}  // namespace tenon
