#pragma once
#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <map>
#include <memory>
#include <set>
#include <span>

#include "tenon/checkpoint/gguf_experts.h"
#include "tenon/checkpoint/gguf_families.h"
#include "tenon/checkpoint/gguf_parts.h"
#include "tenon/checkpoint/gguf_rotary.h"
#include "tenon/core/require.h"
#include "tenon/io/fields.h"
#include "tenon/io/json.h"
#include "tenon/model/gguf_export.h"
#include "tenon/model/hub.h"
#include "tenon/model/rotary.h"
#include "tenon/tokenizer/gguf_tokenizer_writer.h"

namespace tenon::detail {

TENON_INLINE Shape GgufTensor::matrix() const {
  std::uint64_t rows = 1;
  for (std::size_t i = 0; i + 1 < source.shape.size(); ++i) rows *= source.shape[i];
  return {static_cast<int>(rows), static_cast<int>(cols())};
}

// A type that is written: its names, and its number as LLAMA_FTYPE of llama.h.
struct GgufTarget {
  std::string_view name, other;
  DType type;
  int file_type;
};
inline constexpr GgufTarget kGgufTargets[] = {{"q8_0", "q8_0", DType::q8_0, 7},
                                              {"q4_0", "q4_0", DType::q4_0, 2},
                                              {"f32", "float32", DType::f32, 0},
                                              {"f16", "float16", DType::f16, 1},
                                              {"bf16", "bfloat16", DType::bf16, 32}};

TENON_INLINE DType gguf_type_named(std::string_view name) {
  std::string lower, list;
  for (const char c : name) lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const GgufTarget& each : kGgufTargets) {
    if (lower == each.name || lower == each.other) return each.type;
    list += (list.empty() ? "" : ", ") + std::string(each.name);
  }
  throw Error(Error::Kind::unsupported, "weights",
              "\"" + printable(name, 60) + "\" cannot be written to GGUF; these can: " + list);
}

TENON_INLINE DType gguf_stored_type(const GgufTensor& tensor, DType wanted) {
  const std::string_view name = tensor.name;
  if (tensor.source.shape.size() < 2 || name.ends_with("_norm.weight") || name.find("ffn_gate_inp") != name.npos ||
      name.ends_with("shortconv.conv.weight") || name == "position_embd.weight")
    return DType::f32;
  const auto values = static_cast<std::uint64_t>(block_layout(wanted).values);
  return tensor.cols() % values == 0 ? wanted : DType::f16;
}

inline void add_type(DType type, GgufMetadata& out) {
  for (const GgufTarget& each : kGgufTargets)
    if (each.type == type) out.add("general.file_type", each.file_type);
  if (is_block(type)) out.add("general.quantization_version", 2);  // GGML_QNT_VERSION
}

// Plans a copy of a GGUF model as one file, with all its metadata.
inline GgufPlan plan_gguf_copy(const std::filesystem::path& source, DType type) {
  const GgufFiles opened = open_gguf(source);
  const GgufHeader& header = opened.header;
  GgufPlan plan;
  std::vector<std::byte> bytes;
  for (const GgufEntry& entry : header.entries) {
    const auto is = [&](std::string_view key) { return entry.key == key; };
    if (is("general.file_type") || is("general.quantization_version") || is("general.alignment")) continue;
    if (is("split.no") || is("split.count") || is("split.tensors.count")) continue;
    bytes.resize(static_cast<std::size_t>(entry.end - entry.begin));
    opened.files.front().read_at(entry.begin, bytes);
    plan.metadata.add_bytes(bytes);
  }
  add_type(type, plan.metadata);
  for (const TensorInfo& tensor : header.tensors) plan.tensors.push_back({tensor, tensor.name});
  return plan;
}

// Makes the metadata and the tensors of a model folder.
class GgufPlanner {
 public:
  GgufPlanner(const ModelFiles& files, const ModelConfig& c, std::string_view prefix)
      : files_(files), c_(c), prefix_(prefix), family_(family_of(c.model_type)) {}

  Json metadata() {
    Json out = {{"general.architecture", family_.architecture}};
    for (const auto& fields : {family_.fields, family_.more_fields})
      for (const GgufField& each : fields) set(out, each.key, value_of(each));
    set(out, "vocab_size", unsigned_of(c_.vocab));
    if (family_.heads.one_key) set(out, "attention.head_count_kv", 1u);
    if (family_.heads.of_layers) {
      Json counts = Json::array();
      for (int l = 0; l < c_.layers; ++l) counts.push_back(unsigned_of(c_.is_convolution(l) ? 0 : c_.kv_heads));
      set(out, "attention.head_count_kv", std::move(counts));
    }
    if (family_.mixture) {
      set(out, "expert_count", unsigned_of(c_.experts));
      set(out, "expert_used_count", unsigned_of(c_.experts_chosen));
      if (c_.router_kind >= RouterKind::sigmoid) set(out, "expert_gating_func", 2u);
    }
    if (family_.heads.rotary) add_rotary(out);
    return out;
  }

  std::vector<GgufTensor> tensors(const TensorSource& source, const DecoderSpec& spec) {
    std::vector<GgufTensor> out;
    std::set<std::string> known;
    std::map<std::string, std::vector<TensorInfo>> stacks;  // matrices of the experts, by the name of all
    const auto add = [&](const auto& part_list) {
      for (const TensorPart& part : part_list.parts) {
        if (!known.insert(part.name).second) continue;
        GgufTensor made = tensor(source.find(part.name), part.name);
        const bool one_of_many = made.name.find("_exps.") != made.name.npos;
        if (!one_of_many || stacks[made.name].empty()) out.push_back(made);
        if (one_of_many) stacks[made.name].push_back(std::move(made.source));  // experts come in order
      }
    };
    visit_parts(spec, c_.tied_head, {add, add, add});
    for (GgufTensor& each : out)
      if (const auto found = stacks.find(each.name); found != stacks.end())
        each.source = stacked_experts(std::move(found->second));
    for (auto& [name, values] : factors())
      out.push_back({{.name = name, .shape = {values.size()}}, name, std::move(values)});
    return out;
  }

 private:
  static const GgufFamily& family_of(std::string_view model_type) {
    if (model_type == "mistral") model_type = "llama";  // as in the converter; a window is refused below
    std::string list;
    for (const GgufFamily& each : kGgufFamilies) {
      // gpt-oss: its gates and ups alternate in stacks, and are published in MXFP4, which is not written.
      if (std::any_of(each.of_layer.begin(), each.of_layer.end(), [](auto& t) { return t.order > GgufOrder::experts; }))
        continue;
      if (each.architecture.ends_with("vl")) continue;  // read as Qwen2 and Qwen3
      if (each.model_type == model_type) return each;
      list += (list.empty() ? "" : ", ") + std::string(each.model_type);
    }
    throw Error(Error::Kind::unsupported, "config.json: model_type",
                "\"" + printable(model_type, 60) + "\" cannot be written to GGUF; these can: mistral, " + list);
  }

  static Json unsigned_of(int value) { return static_cast<unsigned>(value); }

  void set(Json& out, std::string_view key, Json value) const {
    if (!value.is_null()) out[std::string(family_.architecture) + "." + std::string(key)] = std::move(value);
  }

  // The value of a key of the tables; null: it is left out.
  Json value_of(const GgufField& field) const {
    const std::string_view key = field.key;
    const std::pair<std::string_view, int> sizes[] = {{"block_count", c_.layers},
                                                      {"embedding_length", c_.hidden},
                                                      {"feed_forward_length", c_.inner},
                                                      {"expert_feed_forward_length", c_.expert_inner},
                                                      {"expert_shared_feed_forward_length", c_.shared_inner},
                                                      {"attention.head_count", c_.heads},
                                                      {"attention.head_count_kv", c_.kv_heads},
                                                      {"attention.sliding_window", window()},
                                                      {"leading_dense_block_count", dense_layers()},
                                                      {"shortconv.l_cache", c_.conv_taps}};
    for (const auto& [name, value] : sizes)
      if (key == name) return unsigned_of(value);
    const std::pair<std::string_view, double> numbers[] = {
        {"rope.freq_base", c_.rotary.theta},
        {"rope.freq_base_swa", c_.local_rotary.theta},
        {"attention.layer_norm_rms_epsilon", c_.norm_epsilon},
        {"attention.layer_norm_epsilon", c_.norm_epsilon},
        {"attention.scale", c_.attention_scale},
        {"embedding_scale", c_.embedding_scale},
        {"residual_scale", c_.residual_scale},
        {"attn_logit_softcapping", c_.attention_soft_cap},
        {"final_logit_softcapping", c_.logit_soft_cap},
        {"attention.clamp_kqv", c_.qkv_bound},
        {"attention.temperature_scale", c_.query_growth},
        // Read as mscale_all_dim, beside an mscale of 1.
        {"rope.scaling.yarn_log_multiplier",
         c_.rotary.scaling == RotaryScaling::yarn && c_.rotary.angle_scale == 1 ? 1.0 : 0.0},
        {"attention.max_alibi_bias", 8.0}};
    for (const auto& [name, value] : numbers)
      if (key == name) return field.needed || value != 0 ? Json(value) : Json();
    if (key == "use_parallel_residual") return c_.parallel_residual;
    // Fields that ModelConfig does not keep as the file has them: its scaling may extend the positions.
    const Fields fields = files_.config->fields();
    const std::string name(field.field);
    if (key == "context_length") return unsigned_of(fields.has(name) ? fields.positive_int(name) : c_.positions);
    if (key == "logit_scale")
      return fields.has(name) ? Json(fields.number(name, -1e9, 1e9)) : Json(double{c_.logit_scale});
    throw Error(Error::Kind::internal, std::string(key), "has no value");
  }

  int dense_layers() const {
    return static_cast<int>(std::count(c_.dense_layers.begin(), c_.dense_layers.end(), true));
  }

  // The window of the layers that have one; 0: none has.
  int window() const {
    return c_.windows.empty() ? c_.window : *std::max_element(c_.windows.begin(), c_.windows.end());
  }

  void add_rotary(Json& out) const {
    const RotaryConfig& r = c_.rotary;
    set(out, "attention.key_length", unsigned_of(c_.head_dim));
    set(out, "attention.value_length", unsigned_of(c_.head_dim));
    set(out, "rope.dimension_count", unsigned_of(r.width > 0 ? r.width : c_.head_dim));
    if (r.scaling == RotaryScaling::linear || r.scaling == RotaryScaling::yarn) {
      set(out, "rope.scaling.type", r.scaling == RotaryScaling::linear ? "linear" : "yarn");
      set(out, "rope.scaling.factor", r.factor);
    }
    if (r.scaling == RotaryScaling::yarn) {
      set(out, "rope.scaling.original_context_length", unsigned_of(r.trained_positions));
      set(out, "rope.scaling.yarn_beta_fast", r.beta_fast);
      set(out, "rope.scaling.yarn_beta_slow", r.beta_slow);
    }
    if (r.scaling == RotaryScaling::longrope) {
      set(out, "rope.scaling.original_context_length", unsigned_of(r.trained_positions));
      set(out, "rope.scaling.attn_factor", double{r.angle_scale});
    }
  }

  // Tensors with factors of frequencies.
  std::vector<std::pair<std::string, std::vector<float>>> factors() const {
    const RotaryConfig& r = c_.rotary;
    if (!family_.heads.rotary) return {};
    if (r.scaling == RotaryScaling::longrope)
      return {{"rope_factors_long.weight", r.long_factors}, {"rope_factors_short.weight", r.short_factors}};
    if (r.scaling != RotaryScaling::llama3) return {};
    RotaryConfig plain = r;
    plain.scaling = RotaryScaling::none;
    std::vector<float> out;
    for (const float frequency : rotary_frequencies(plain, c_.head_dim, 0))
      out.push_back(static_cast<float>(llama3_divisor(double{frequency}, r.factor)));
    return {{"rope_freqs.weight", out}};
  }

  // The tensor of the checkpoint in the order that the converter gives it. `name`: without the family's prefix.
  GgufTensor tensor(const TensorInfo& info, const std::string& name) const {
    for (const std::string& whole : {std::string(prefix_) + name, name}) {
      const std::size_t dot = whole.rfind('.');
      std::string_view stem = std::string_view(whole).substr(0, dot);
      std::string stored;
      std::span<const GgufName> names = family_.tensors;
      if (stem.starts_with(family_.layer)) {
        stem.remove_prefix(family_.layer.size());
        const std::size_t end = stem.find('.');
        stored = "blk." + std::string(stem.substr(0, end)) + ".";
        stem.remove_prefix(std::min(end + 1, stem.size()));
        names = family_.of_layer;
      }
      const std::string of_any = of_any_expert(stem);
      for (const GgufName& each : names) {
        const bool bare = each.order == GgufOrder::bare && whole.ends_with("." + std::string(each.name) + "_bias");
        if (each.name != of_any && !bare) continue;
        stored += std::string(each.stored) + (bare ? ".bias" : whole.substr(dot));
        GgufTensor out{info, std::move(stored)};
        reorder(each.order, out.source);
        return out;
      }
    }
    throw Error(Error::Kind::unsupported, files_.tensors->where(info),
                "GGUF's architecture " + std::string(family_.architecture) + " has no such tensor");
  }

  // "mlp.experts.#.up_proj" of "mlp.experts.3.up_proj"; other names as they are.
  std::string of_any_expert(std::string_view stem) const {
    constexpr std::string_view kExperts = "experts.";
    const auto found = family_.mixture ? stem.find(kExperts) : stem.npos;
    if (found == stem.npos) return std::string(stem);
    const auto number = found + kExperts.size(), end = std::min(stem.find('.', number), stem.size());
    return std::string(stem.substr(0, number)) + "#" + std::string(stem.substr(end));
  }

  // The inverse of GgufMapper::set_order: rows of the new file in terms of the checkpoint's.
  void reorder(GgufOrder order, TensorInfo& info) const {
    const auto heads = static_cast<std::uint64_t>(c_.heads), width = static_cast<std::uint64_t>(c_.head_dim);
    if (order == GgufOrder::rotary) info.order = {.b = width / 2, .c = 2};
    if (order == GgufOrder::parts) info.order = {.b = 3, .c = heads, .d = width};
    if (order == GgufOrder::plus_one && !info.name.ends_with(".bias")) info.order.plus = 1;
    if (order == GgufOrder::taps && info.shape.size() == 3) info.shape.erase(info.shape.begin() + 1);
    if (order == GgufOrder::transposed && info.shape.size() == 2) {
      info.order.transposed = !info.order.transposed;  // a quantised GPT-2 has its outputs first already
      std::swap(info.shape[0], info.shape[1]);
    }
  }

  const ModelFiles& files_;
  const ModelConfig& c_;
  std::string_view prefix_;
  const GgufFamily& family_;
};

// The members that decide the rotation.
inline RotaryConfig rotation_of(const RotaryConfig& c) {
  RotaryConfig out = c;
  if (c.scaling == RotaryScaling::none) {
    out = RotaryConfig{};
    out.theta = c.theta, out.width = c.width, out.neighbours = c.neighbours;
  }
  if (c.scaling == RotaryScaling::linear) out.trained_positions = 0;
  return out;
}

// The members that decide the arithmetic.
inline ModelConfig arithmetic_of(ModelConfig c) {
  const bool rotary = c.position_kind == PositionKind::rotary;
  c.rotary = rotary ? rotation_of(c.rotary) : RotaryConfig{};
  c.local_rotary = rotary ? rotation_of(c.local_rotary) : RotaryConfig{};
  c.model_type.clear();
  c.most_positions = 0;
  c.bos.reset();
  c.eos.clear();
  c.dropped_tokens.clear();
  if (c.labels.empty()) c.pad.reset();  // classification heads alone read it
  return c;
}

// Names the first known difference, for the error.
inline std::string difference(const ModelConfig& a, const ModelConfig& b) {
  const std::pair<const char*, bool> same[] = {
      {"the window", a.window == b.window && a.windows == b.windows},
      {"the activation", a.activation == b.activation},
      {"clip_qkv", a.qkv_bound == b.qkv_bound},
      {"the short convolutions",
       a.conv_layers == b.conv_layers && a.conv_taps == b.conv_taps && a.conv_bias == b.conv_bias},
      {"the growth of queries", a.query_growth == b.query_growth && a.query_period == b.query_period},
      {"the rotary positions", a.rotary == b.rotary && a.local_rotary == b.local_rotary && a.rotations == b.rotations},
      {"the longest text", a.positions == b.positions},
      {"a bias", a.attention_bias == b.attention_bias && a.mlp_bias == b.mlp_bias && a.qkv_bias == b.qkv_bias},
      {"a scale", a.embedding_scale == b.embedding_scale && a.residual_scale == b.residual_scale &&
                      a.logit_scale == b.logit_scale && a.attention_scale == b.attention_scale},
      {"a soft cap", a.logit_soft_cap == b.logit_soft_cap && a.attention_soft_cap == b.attention_soft_cap},
      {"the tied head", a.tied_head == b.tied_head},
      {"the weights of the experts", a.router_kind == b.router_kind && a.router_scale == b.router_scale},
      {"the number of experts", a.experts == b.experts && a.experts_chosen == b.experts_chosen},
      {"the shared expert", a.shared_inner == b.shared_inner},
      {"which layers have experts", a.dense_layers == b.dense_layers}};
  for (const auto& [name, equal] : same)
    if (!equal) return name;
  return "a switch";
}

// Plans the file of a folder whose model has configuration c. `source` has found all tensors of `spec`.
inline GgufPlan plan_gguf_folder(std::span<const Family> families, const std::filesystem::path& folder,
                                 const ModelFiles& files, const ModelConfig& c, const DecoderSpec& spec,
                                 const TensorSource& source, std::string_view prefix, DType type) {
  GgufPlanner planner(files, c, prefix);
  GgufPlan plan;
  Json metadata = planner.metadata();
  plan.tensors = planner.tensors(source, spec);
  plan.left_out = source.unused(spec, c.tied_head);
  // The model that is read from the file must compute as the folder does.
  GgufHeader header;
  header.metadata = std::make_shared<const Json>(metadata);
  for (const GgufTensor& each : plan.tensors) {
    header.tensors.push_back(each.source);
    header.tensors.back().name = each.name;
    header.tensors.back().order = {};
  }
  const GgufModel read = map_gguf("GGUF", header, [&](const TensorInfo& info) {
    return std::find_if(plan.tensors.begin(), plan.tensors.end(), [&](const auto& t) { return t.name == info.name; })
        ->values;
  });
  const ConfigFile written(read.config, "GGUF");
  const ModelConfig found = arithmetic_of(find_family(families, written.model_type()).configure(written));
  if (const ModelConfig wanted = arithmetic_of(c); !(found == wanted))
    throw Error(Error::Kind::unsupported, "config.json",
                difference(found, wanted) + " cannot be written to GGUF's architecture " +
                    metadata["general.architecture"].get<std::string>());
  plan.metadata.add("general.architecture", metadata["general.architecture"]);  // first, by convention
  plan.metadata.add("general.type", "model");
  plan.metadata.add("general.name", model_name_of(folder));
  metadata.erase("general.architecture");
  if (files.tokenizer)
    metadata.update(gguf_tokenizer_metadata(folder, *files.tokenizer, c.vocab, c.bos, c.eos));
  else
    metadata["tokenizer.ggml.model"] = "none";
  for (const auto& [key, value] : metadata.items()) plan.metadata.add(key, value);
  add_type(type, plan.metadata);
  return plan;
}

TENON_INLINE GgufPlan plan_gguf(std::span<const Family> families, const std::filesystem::path& source,
                                const ModelFiles& files, DType type) {
  const Family& family = find_family(families, model_type_of(files));
  const ModelConfig config = configure(files, family);
  check_layer_count(files, config);
  const auto refuse = [&](const char* what) {
    throw Error(Error::Kind::unsupported, files.config->fields().where("architectures"), what);
  };
  if (!config.labels.empty()) refuse("a GGUF file holds no classification head here");
  if (!config.language_head) refuse("a GGUF file cannot say that a model has no language head");
  const DecoderSpec spec = family.tensors(config);
  const TensorSource tensors(files, family.name_prefix);
  tensors.check(spec, config.tied_head);
  if (is_model_file(source)) return plan_gguf_copy(source, type);
  return plan_gguf_folder(families, source, files, config, spec, tensors, family.name_prefix, type);
}

}  // namespace tenon::detail
