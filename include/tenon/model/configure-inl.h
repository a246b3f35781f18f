#pragma once
#include <algorithm>
#include <limits>
#include <utility>

#include "tenon/core/require.h"
#include "tenon/io/json.h"
#include "tenon/model/configure.h"

namespace tenon::detail {

inline constexpr std::string_view kClassifierEnd = "ForSequenceClassification";

// Whether `name` is the classifier of the bare model `model`: LlamaForSequenceClassification of LlamaModel.
TENON_INLINE bool is_classifier_of(std::string_view name, std::string_view model) {
  constexpr std::string_view end = "Model";
  if (!model.ends_with(end) || !name.ends_with(kClassifierEnd)) return false;
  return name.substr(0, name.size() - kClassifierEnd.size()) == model.substr(0, model.size() - end.size());
}

// The names of the classes, as PretrainedConfig has them: id2label, else num_labels of them, else two.
TENON_INLINE std::vector<std::string> label_names(const Fields& fields) {
  constexpr int most = 1 << 20;
  std::vector<std::string> names;
  if (!fields.has("id2label")) {
    const int count = fields.integer("num_labels", 1, most, 2);
    for (int i = 0; i < count; ++i) names.push_back("LABEL_" + std::to_string(i));
    return names;
  }
  const Fields labels = fields.object("id2label");
  const std::size_t count = labels.json().size();
  if (count < 1 || count > static_cast<std::size_t>(most)) fields.refuse("id2label", "must name at least one class");
  for (std::size_t i = 0; i < count; ++i) names.push_back(labels.string(std::to_string(i)));
  return names;
}

// The classification head, if config.json names its class.
TENON_INLINE void read_classifier(const Fields& fields, ModelConfig& c) {
  if (!fields.has("architectures")) return;
  const std::vector<std::string> names = fields.strings("architectures");
  const auto classifies = [](const std::string& name) { return name.ends_with(kClassifierEnd); };
  if (std::none_of(names.begin(), names.end(), classifies)) return;
  c.labels = label_names(fields);
  c.independent_labels = fields.string("problem_type", "") == "multi_label_classification";
  c.language_head = false;
  c.tied_head = true;
}

}  // namespace tenon::detail

namespace tenon {

TENON_INLINE std::string one_name(const Fields& fields, std::initializer_list<const char*> names) {
  std::string found;
  for (const char* name : names) {
    if (!fields.has(name)) continue;
    if (!found.empty() && fields.value(found) != fields.value(name)) fields.refuse(name, "differs from " + found);
    if (found.empty()) found = name;
  }
  return found.empty() ? *names.begin() : found;
}

TENON_INLINE int width_field(const Fields& fields, const std::string& name) {
  const int width = fields.positive_int(name);
  if (width > kLargestWidth) fields.refuse(name, "must be at most " + std::to_string(kLargestWidth));
  return width;
}

TENON_INLINE int inner_field(const Fields& fields, const std::string& name, const std::string& hidden, int width) {
  if (fields.has(name)) return width_field(fields, name);
  if (width > kLargestWidth / 4) fields.refuse(hidden, "must be at most " + std::to_string(kLargestWidth / 4));
  return 4 * width;
}

TENON_INLINE void refuse_window(const Fields& fields, ModelConfig& c) {
  const int window = fields.integer("sliding_window", 0, std::numeric_limits<int>::max(), 0);
  if (window == 0) return;
  if (fields.has("layer_types")) {
    const std::vector<std::string> types = fields.strings("layer_types");
    if (std::all_of(types.begin(), types.end(), [](const auto& type) { return type == "full_attention"; })) return;
  }
  if (window >= c.positions) {
    c.most_positions = window;
    return;
  }
  throw Error(Error::Kind::unsupported, fields.where("sliding_window"),
              "is not supported in this family: only null, or a window as long as the longest text");
}

TENON_INLINE void check_architectures(const Fields& fields, std::initializer_list<std::string_view> known) {
  if (!fields.has("architectures")) return;
  std::string list;
  for (const auto& name : known) list += (list.empty() ? "" : ", ") + std::string(name);
  const std::vector<std::string> names = fields.strings("architectures");
  if (names.empty()) return;
  for (const auto& name : names) {
    if (name.ends_with("ForCausalLM") || name.ends_with("LMHeadModel")) return;
    for (const auto& each : known) {
      if (name == each || detail::is_classifier_of(name, each)) return;
    }
  }
  throw Error(Error::Kind::unsupported, fields.where("architectures"), "names none of " + list);
}

TENON_INLINE Activation activation_field(const Fields& fields, const std::string& name, std::string_view fallback) {
  // ACT2FN of transformers computes one formula for gelu and gelu_python, and one for all spellings of gelu_new.
  const std::string word =
      fields.choice(name,
                    {"gelu_new", "gelu_pytorch_tanh", "gelu_python_tanh", "gelu_accurate", "gelu_fast", "gelu",
                     "gelu_python", "quick_gelu", "relu", "relu2", "silu", "swish", "linear"},
                    fallback);
  if (word == "linear") return Activation::none;
  if (word == "quick_gelu") return Activation::quick_gelu;
  if (word == "relu2") return Activation::relu2;
  if (word == "gelu" || word == "gelu_python") return Activation::gelu;
  if (word == "relu") return Activation::relu;
  return word == "silu" || word == "swish" ? Activation::silu : Activation::gelu_new;
}

TENON_INLINE int width_of_heads(const Fields& fields, const std::string& heads, const std::string& hidden,
                                const ModelConfig& c) {
  if (c.hidden % c.heads != 0) {
    fields.refuse(heads, "must divide " + hidden + ": " + std::to_string(c.hidden) + " is no multiple of " +
                             std::to_string(c.heads));
  }
  return c.hidden / c.heads;
}

TENON_INLINE void heads_fields(const Fields& fields, const std::string& heads, const std::string& hidden,
                               ModelConfig& c) {
  c.heads = c.kv_heads = fields.positive_int(heads);
  c.head_dim = width_of_heads(fields, heads, hidden, c);
}

TENON_INLINE void check_switches(const DecoderSpec& spec, const ModelConfig& c) {
  const auto need = [&](bool holds, const char* name, const std::string& family) {
    if (!holds)
      throw Error(Error::Kind::invalid_request, name,
                  "is not that of family " + printable(c.model_type, 60) + ", " + family);
  };
  const auto has_kind = [&](const DecoderSpec::Norm& norm) {
    return norm.gain.none() || norm.bias.none() == (c.norm_kind == NormKind::rms);
  };
  need(has_kind(spec.final_norm), "norm_kind", "whose norms have a bias (layer) or none (rms)");
  need(spec.position_table.none() == (c.position_kind != PositionKind::learned), "position_kind",
       "which has a table of positions or none");
  need(c.conv_layers.empty() || c.conv_layers.size() == spec.layers.size(), "conv_layers", "which names each layer");
  need(c.conv_layers.empty() || (c.conv_taps >= 1 && (c.window == 0 || c.conv_taps <= c.window)), "conv_taps",
       "whose short convolutions read at least one position, and none before the window of the cache");
  need(c.conv_layers.empty() || (2 * c.conv_heads() * c.head_dim == c.hidden && c.query_width() == c.hidden), "heads",
       "whose heads are even beside short convolutions, and together as wide as `hidden`");
  for (std::size_t l = 0; l < spec.layers.size(); ++l) {
    const auto& layer = spec.layers[l];
    need(layer.conv_weight.none() != c.is_convolution(static_cast<int>(l)), "conv_layers",
         "whose layer " + std::to_string(l) + " has a short convolution or attention");
    need(has_kind(layer.attention_norm) && has_kind(layer.mlp_norm), "norm_kind",
         "whose norms have a bias (layer) or none (rms)");
    need(layer.experts.empty() || (!c.parallel_residual && !c.output_norms && layer.after_mlp_norm.gain.none()),
         "experts", "whose mixtures have no parallel residual and no norm of their output");
    need(layer.experts.empty() || layer.up.weight.none() == (c.shared_inner == 0), "shared_inner",
         "whose mixtures have a shared expert or none");
    need(layer.experts.empty() || layer.choice_bias.none() != c.choice_bias, "choice_bias",
         "whose routers have a bias for the choice or none");
    const int inner = layer.experts.empty() ? c.inner : c.shared_inner;
    if (!layer.up.weight.none())
      need(layer.up.weight.shape.rows == (c.mlp_kind == MlpKind::gated ? 2 : 1) * inner, "mlp_kind",
           "whose MLP has a gate or none");
  }
}

TENON_INLINE void special_tokens(const ConfigFile& file, ModelConfig& c, const SpecialTokenDefaults& defaults) {
  SpecialTokens special = file.special_tokens(c.vocab, defaults);
  c.bos = special.bos;
  c.eos = std::move(special.eos);
  c.pad = special.pad;
  c.dropped_tokens = std::move(special.dropped);
  detail::read_classifier(file.fields(), c);
}

TENON_INLINE ModelConfig with_model_type(std::string_view model_type, ModelConfig c) {
  c.model_type = model_type;
  return c;
}

TENON_INLINE void add_classifier(const ModelConfig& c, DecoderSpec& spec) {
  if (!c.labels.empty()) spec.score = table_spec("score.weight", {static_cast<int>(c.labels.size()), c.head_width()});
}

}  // namespace tenon
