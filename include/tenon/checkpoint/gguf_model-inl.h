#pragma once
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "tenon/checkpoint/gguf_experts.h"
#include "tenon/checkpoint/gguf_families.h"
#include "tenon/checkpoint/gguf_model.h"
#include "tenon/checkpoint/gguf_rotary.h"
#include "tenon/core/error.h"
#include "tenon/core/require.h"
#include "tenon/io/fields.h"
#include "tenon/io/json.h"

namespace tenon::detail {

inline constexpr int kMaxGgufWidth = 1 << 20;

class GgufMapper {
 public:
  GgufMapper(const std::string& file, const GgufHeader& header, const GgufVector& read)
      : file_(file), header_(header), read_(read), metadata_(*header.metadata, file), family_(family_of(metadata_)) {
    for (const TensorInfo& tensor : header.tensors) by_name_.emplace(tensor.name, &tensor);
  }

  Json config() {
    Json out = {{"model_type", family_.model_type}, {"tie_word_embeddings", !has_tensor("output.weight")}};
    if (family_.model_type == "ministral3") out["rope_scaling"] = {{"mscale", 1}, {"llama_4_scaling_beta", 0}};
    for (const auto& fields : {family_.fields, family_.more_fields})
      for (const GgufField& each : fields) add_field(each, out);
    if (const Json& layers = metadata_.value(use("block_count")); layers.is_number_unsigned() && layers != 0)
      layers_ = layers.get<std::uint64_t>();
    add_heads(out);
    if (family_.mixture) add_experts(out);
    if (family_.heads.rotary) add_rotary(out);
    add_options(out);
    out["vocab_size"] = vocabulary();
    add_special_tokens(out);
    refuse_unknown_keys();
    return out;
  }

  std::vector<TensorInfo> tensors() const {
    std::vector<TensorInfo> out;
    for (const TensorInfo& tensor : header_.tensors) add_mapped(tensor, out);
    return out;
  }

 private:
  static const GgufFamily& family_of(const Fields& metadata) {
    const std::string name = metadata.string("general.architecture");
    const bool mixture = metadata.integer(name + ".expert_count", 0, kMaxGgufWidth, 0) > 0;
    std::string list;
    const GgufFamily* found = nullptr;
    for (const GgufFamily& each : kGgufFamilies) {
      if (each.architecture == name && (!found || each.mixture == mixture)) found = &each;
      if (list.find(each.architecture) == list.npos)
        list += (list.empty() ? "" : ", ") + std::string(each.architecture);
    }
    if (found && mixture && !found->mixture)
      throw Error(Error::Kind::unsupported, metadata.where(name + ".expert_count"),
                  "is above 0, but experts are not supported in this architecture");
    if (found) return *found;
    throw Error(Error::Kind::unsupported, metadata.where("general.architecture"),
                "\"" + printable(name, 60) + "\" is not supported; supported: " + list);
  }

  [[noreturn]] void unsupported(const std::string& key, const std::string& what) const {
    throw Error(Error::Kind::unsupported, metadata_.where(key), what);
  }

  // The whole key, which is then known.
  std::string use(std::string_view key) {
    std::string whole = std::string(family_.architecture) + "." + std::string(key);
    used_.insert(whole);
    return whole;
  }

  void add_field(const GgufField& each, Json& out) {
    const std::string key = use(each.key);
    if (each.key == "attention.max_alibi_bias" && metadata_.number(key, 0, 1e9) != 8)
      unsupported(key, "other than 8 is not supported");
    if (each.field.empty() || (!each.needed && !metadata_.has(key))) return;
    const Json& value = metadata_.value(key);
    const bool no_window = each.field == "sliding_window" && value == 0;  // the converter's word for none
    const std::size_t dot = each.field.find('.');                         // of a member of an object
    Json& place = dot == each.field.npos
                      ? out[std::string(each.field)]
                      : out[std::string(each.field.substr(0, dot))][std::string(each.field.substr(dot + 1))];
    place = no_window ? Json() : value;
  }

  // Sets heads_ and head_dim_.
  void add_heads(Json& out) {
    const std::string heads = use("attention.head_count"), keys = use("attention.head_count_kv");
    heads_ = metadata_.integer(heads, 1, kMaxGgufWidth);
    const int kv_heads =
        family_.heads.of_layers ? add_convolutions(keys, out) : metadata_.integer(keys, 1, heads_, heads_);
    if (!family_.heads.grouped && kv_heads != heads_) unsupported(keys, "other than head_count is not supported");
    if (family_.heads.one_key && kv_heads != 1) unsupported(keys, "other than 1 is not supported");
    const int width = metadata_.integer(use("embedding_length"), 1, kMaxGgufWidth);
    const std::string key_length = use("attention.key_length"), value_length = use("attention.value_length");
    head_dim_ = metadata_.integer(key_length, 1, kMaxGgufWidth, std::max(1, width / heads_));
    if (metadata_.integer(value_length, 1, kMaxGgufWidth, head_dim_) != head_dim_)
      unsupported(value_length, "other than key_length is not supported");
    const int usual = std::max(1, width / heads_);
    if (family_.heads.rotary) out["head_dim"] = head_dim_;
    if (!family_.heads.rotary && head_dim_ != usual)
      unsupported(key_length, "other than embedding_length / head_count is not supported");
    if (family_.heads.layers_of_27b > 0) {
      const bool largest = metadata_.value(use("block_count")) == family_.heads.layers_of_27b;
      out["query_pre_attn_scalar"] = largest ? usual : head_dim_;
    }
  }

  // Sets layer_types and num_key_value_heads, which it returns. The width of the MLP is as it is.
  int add_convolutions(const std::string& keys, Json& out) const {
    out["block_auto_adjust_ff_dim"] = false;
    Json& types = out["layer_types"] = Json::array();
    int heads = 0;
    for (const int each : metadata_.integers(keys, 0, heads_)) {
      types.push_back(each == 0 ? "conv" : "full_attention");
      if (heads > 0 && each > 0 && each != heads) unsupported(keys, "with several numbers above 0 is not supported");
      heads = std::max(heads, each);
    }
    if (heads == 0) metadata_.refuse(keys, "must be above 0 in a layer");
    out["num_key_value_heads"] = heads;
    return heads;
  }

  // Sets experts_.
  void add_experts(Json& out) {
    constexpr int most = 4096;
    experts_ = metadata_.integer(use("expert_count"), 1, most);
    out["num_local_experts"] = out["num_experts"] = experts_;
    out["num_experts_per_tok"] = metadata_.integer(use("expert_used_count"), 1, experts_);
    const std::string gating = use("expert_gating_func");
    const bool sigmoid = family_.architecture == "lfm2moe";
    const int kind = sigmoid ? 2 : 1;  // llama_expert_gating_func_type
    if (metadata_.integer(gating, 0, most, sigmoid ? 0 : kind) != kind)
      unsupported(gating, "other than " + std::to_string(kind) + " is not supported");
    if (sigmoid) out["use_expert_bias"] = has_tensor("blk." + std::to_string(layers_ - 1) + ".exp_probs_b.bias");
    if (family_.architecture == "qwen2moe" && !out.contains("shared_expert_intermediate_size"))
      out["shared_expert_intermediate_size"] = out["intermediate_size"];  // as in llama.cpp
    if (!family_.architecture.starts_with("qwen")) return;
    out["norm_topk_prob"] = family_.architecture == "qwen3moe";
    if (layers_ > header_.tensors.size()) return;  // refused later
    Json dense = Json::array();
    for (std::uint64_t layer = 0; layer < layers_; ++layer)
      if (!has_tensor("blk." + std::to_string(layer) + ".ffn_gate_inp.weight")) dense.push_back(layer);
    out["mlp_only_layers"] = std::move(dense);
  }

  void add_rotary(Json& out) {
    const std::string dimensions = use("rope.dimension_count");
    const int turned = metadata_.integer(dimensions, 1, head_dim_, head_dim_);
    if (!family_.heads.part.empty()) out[std::string(family_.heads.part)] = part_of_head(head_dim_, turned);
    if (family_.heads.part.empty() && turned != head_dim_)
      unsupported(dimensions, "other than the width of a head, " + std::to_string(head_dim_) + ", is not supported");
    use("rope.scaling.finetuned");  // says how the model was made
    // An absent type is linear (llama-model.cpp); no factor, or 1, is no scaling.
    const bool factors = has_tensor("rope_factors_long.weight");
    const std::string type = use("rope.scaling.type");
    const std::string kind = factors ? metadata_.choice(type, {"none", "linear", "longrope"}, "longrope")
                                     : metadata_.choice(type, {"none", "linear", "yarn"}, "linear");
    const std::string older = use("rope.scale_linear"), newer = use("rope.scaling.factor");
    const double by = metadata_.number(metadata_.has(newer) ? newer : older, 0, 1e6, 1);
    const std::string original = use("rope.scaling.original_context_length");
    use("rope.scaling.attn_factor");  // follows from the lengths
    if (!family_.heads.scaled && (factors || (kind != "none" && by != 0 && by != 1)))
      unsupported(newer, "is not supported in this architecture");
    if (factors) return add_longrope(original, out);
    if (kind != "none" && by != 0 && by != 1) {
      Json scaling = {{"rope_type", kind}, {"factor", by}};
      const auto copy = [&](const std::string& key, const char* field) {
        if (kind == "yarn" && metadata_.has(key)) scaling[field] = metadata_.value(key);
      };
      copy(original, "original_max_position_embeddings");
      for (const char* beta : {"beta_fast", "beta_slow"}) copy(use(std::string("rope.scaling.yarn_") + beta), beta);
      if (kind == "yarn" && !family_.heads.whole_ramp) scaling["truncate"] = false;
      out["rope_scaling"].update(scaling);
    }
    add_frequency_factors(out);
  }

  // Phi-3's factors for short and long texts.
  void add_longrope(const std::string& original, Json& out) const {
    const auto list = [&](const char* name) {
      const std::vector<float> factors = small_tensor(name);
      return Json(std::vector<double>(factors.begin(), factors.end()));
    };
    out["rope_scaling"] = {{"rope_type", "longrope"},
                           {"short_factor", list("rope_factors_short.weight")},
                           {"long_factor", list("rope_factors_long.weight")}};
    out["original_max_position_embeddings"] = metadata_.value(original);
  }

  bool has_tensor(std::string_view name) const { return by_name_.contains(name); }

  const TensorInfo& stored_tensor(const std::string& name) const {
    const auto found = by_name_.find(name);
    if (found == by_name_.end()) refuse_file(file_, "the tensor " + printable(name) + " is missing");
    return *found->second;
  }

  // An F32 tensor with a number for each pair of a head that is turned.
  std::vector<float> small_tensor(const std::string& name) const {
    const TensorInfo& found = stored_tensor(name);
    const std::uint64_t count = found.shape.size() == 1 ? found.shape[0] : 0;
    if (found.dtype != DType::f32 || count == 0 || count > static_cast<std::uint64_t>(head_dim_ / 2))
      refuse_file(file_ + ": " + name, "must be F32 with a number for each pair of a head's " +
                                           std::to_string(head_dim_) + " elements, is " +
                                           std::string(dtype_name(found.dtype)) + " " + shape_text(found.shape));
    return read_(found);
  }

  // rope_freqs divides each frequency. The converter writes it for Llama 3.1's scaling, whose fields it does not write.
  void add_frequency_factors(Json& out) const {
    const std::string name = "rope_freqs.weight";
    if (!has_tensor(name)) return;
    const std::vector<float> factors = small_tensor(name);
    const float largest = *std::max_element(factors.begin(), factors.end());
    const double theta = metadata_.number(std::string(family_.architecture) + ".rope.freq_base", 1, 1e15, 10000);
    bool one = true, llama3 = largest >= 1 && factors.size() == static_cast<std::size_t>(head_dim_ / 2);
    for (std::size_t i = 0; i < factors.size(); ++i) {
      one = one && factors[i] == 1;
      const double power = 2.0 * static_cast<double>(i) / head_dim_;
      llama3 = llama3 && std::abs(factors[i] / llama3_divisor(std::pow(theta, -power), largest) - 1) < 1e-4;
    }
    if (one) return;
    if (!llama3 || out.contains("rope_scaling"))
      throw Error(Error::Kind::unsupported, file_ + ": " + name,
                  "frequency factors other than those of Llama 3.1 (low 1, high 4, trained at 8192) are not supported");
    out["rope_scaling"] = {{"rope_type", "llama3"},
                           {"factor", static_cast<double>(largest)},
                           {"low_freq_factor", kLowFrequency},
                           {"high_freq_factor", kHighFrequency},
                           {"original_max_position_embeddings", kTrainedPositions}};
  }

  // The families' words for biases and norms that some models have. A family ignores those of others.
  void add_options(Json& out) const {
    const bool attention = has_tensor("blk.0.attn_q.bias") || has_tensor("blk.0.attn_qkv.bias");
    for (const char* field : {"attention_bias", "use_bias", "use_qkv_bias", "qkv_bias", "bias"}) out[field] = attention;
    out["mlp_bias"] = has_tensor("blk.0.ffn_up.bias");
    out["use_qk_norm"] = has_tensor("blk.0.attn_q_norm.weight");
  }

  // Rows of the embedding.
  std::uint64_t vocabulary() {
    const TensorInfo& found = stored_tensor("token_embd.weight");
    if (found.shape.size() != 2)
      refuse_file(file_ + ": token_embd.weight", "has shape " + shape_text(found.shape) + ", needs a matrix");
    const std::string key = use("vocab_size");
    if (metadata_.has(key) && metadata_.value(key) != found.shape[0])
      metadata_.refuse(key, "is " + Fields::describe(metadata_.value(key)) + ", but token_embd.weight has " +
                                std::to_string(found.shape[0]) + " rows");
    return found.shape[0];
  }

  // A text ends at each token that llama.cpp takes for an end of generation: of the text, the turn, the message.
  void add_special_tokens(Json& out) const {
    const auto id = [&](const char* key) { return metadata_.has(key) ? metadata_.value(key) : Json(); };
    out["bos_token_id"] = id("tokenizer.ggml.bos_token_id");
    Json ends = Json::array();
    for (const char* key :
         {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"})
      if (const Json each = id(key); !each.is_null() && std::find(ends.begin(), ends.end(), each) == ends.end())
        ends.push_back(each);
    out["eos_token_id"] = ends.empty() ? Json() : std::move(ends);
  }

  // A key of the architecture that is not in the tables may change the output.
  void refuse_unknown_keys() {
    for (const char* key : {"expert_count", "expert_used_count"})
      if (!family_.mixture && metadata_.integer(use(key), 0, kMaxGgufWidth, 0) != 0)
        unsupported(use(key), "is above 0, but the model has no experts");
    // Embeddings are those of the last token, unless the request says otherwise; texts see what is before them.
    const std::string pooling = use("pooling_type"), causal = use("attention.causal");
    constexpr int none = 0, last = 3, most = 4;
    if (const int kind = metadata_.integer(pooling, none, most, none); kind != none && kind != last)
      unsupported(pooling, "other than 0 and 3, the last token, is not supported");
    if (!metadata_.boolean(causal, true)) unsupported(causal, "false is not supported");
    use("tensor_data_layout");  // how the first converters read Meta's files; they wrote the same layout
    const std::string prefix = std::string(family_.architecture) + ".";
    for (const auto& [key, value] : metadata_.json().items())
      if (key.starts_with(prefix) && !used_.contains(key))
        unsupported(key, "is not known here, and may change the output");
  }

  // Adds a tensor under its name in the model. Factors of frequencies are in the config.
  void add_mapped(const TensorInfo& tensor, std::vector<TensorInfo>& list) const {
    for (const char* in_config : {"rope_freqs.weight", "rope_factors_short.weight", "rope_factors_long.weight"})
      if (family_.heads.rotary && tensor.name == in_config) return;
    const std::size_t dot = std::min(tensor.name.rfind('.'), tensor.name.size());
    std::string_view stem = std::string_view(tensor.name).substr(0, dot);
    const std::string_view suffix = std::string_view(tensor.name).substr(dot);
    std::string prefix;
    std::span<const GgufName> names = family_.tensors;
    if (int layer = 0; stem.starts_with("blk.")) {
      stem.remove_prefix(4);
      const auto [end, error] = std::from_chars(stem.data(), stem.data() + stem.size(), layer);
      stem.remove_prefix(static_cast<std::size_t>(end - stem.data()));
      const bool known = error == std::errc() && layer >= 0 && static_cast<std::uint64_t>(layer) < layers_;
      if (!known || !stem.starts_with('.')) refuse_tensor(tensor);
      stem.remove_prefix(1);
      names = family_.of_layer;
      prefix = std::string(family_.layer) + std::to_string(layer) + ".";
    }
    const std::optional<int> expert = family_.mixture ? take_expert(stem, experts_) : std::nullopt;
    const auto found = std::find_if(names.begin(), names.end(), [&](const GgufName& each) {
      return expert ? each.order == GgufOrder::experts && each.stored == std::string(stem) + "_exps"
                    : each.stored == stem;
    });
    if (found == names.end() || (suffix != ".weight" && suffix != ".bias")) refuse_tensor(tensor);
    TensorInfo out = tensor;
    out.stored_name = tensor.name;
    out.name = prefix + std::string(found->name) + std::string(suffix);
    if (expert) {
      out.name.replace(out.name.find('#'), 1, std::to_string(*expert));
      return list.push_back(std::move(out));
    }
    if (found->order >= GgufOrder::bare) return add_of_experts(found->order, std::move(out), list);
    set_order(found->order, out);
    list.push_back(std::move(out));
  }

  // Adds tensors of the orders that only mixtures have. out.name ends in ".weight" or ".bias".
  void add_of_experts(GgufOrder order, TensorInfo out, std::vector<TensorInfo>& list) const {
    const bool bias = out.name.ends_with(".bias");
    if (order != GgufOrder::experts) {  // transformers' names of parameters without a module
      out.name.resize(out.name.rfind('.'));
      out.name += bias ? "_bias" : "";
    }
    if (order == GgufOrder::bare) return list.push_back(std::move(out));
    const auto experts = static_cast<std::uint64_t>(experts_);
    if (experts == 1 && out.shape.size() == (bias ? 1u : 2u)) out.shape.insert(out.shape.begin(), 1);
    if (out.shape.size() != (bias ? 2u : 3u) || out.shape[0] != experts)
      refuse_file(file_ + ": " + printable(out.stored_name), "has shape " + shape_text(out.shape) + ", needs " +
                                                                 (bias ? "2" : "3") +
                                                                 " dimensions, of which the last stored is " +
                                                                 std::to_string(experts) + ", the number of experts");
    if (order == GgufOrder::experts) {
      const std::size_t at = out.name.find('#');
      for (std::uint64_t i = 0; i < experts; ++i) {
        list.push_back(expert_of(out, experts, i));
        list.back().name.replace(at, 1, std::to_string(i));
      }
      return;
    }
    if (order != GgufOrder::stack) return add_alternate(order, std::move(out), list);
    list.push_back(bias ? std::move(out) : turned_stack(std::move(out)));
  }

  // Adds gate and up as one tensor, with the name of gate's.
  void add_alternate(GgufOrder order, TensorInfo out, std::vector<TensorInfo>& list) const {
    const std::string_view gate = "ffn_gate_exps", up = "ffn_up_exps";
    std::string other = out.stored_name;
    const std::string_view mine = order == GgufOrder::gate ? gate : up;
    other.replace(other.find(mine), mine.size(), order == GgufOrder::gate ? up : gate);
    const TensorInfo& partner = stored_tensor(other);
    if (order == GgufOrder::up) return;
    TensorInfo odd = partner;
    if (odd.shape.size() + 1 == out.shape.size()) odd.shape.insert(odd.shape.begin(), 1);
    if (odd.shape != out.shape)
      refuse_file(file_ + ": " + printable(other),
                  "has shape " + shape_text(odd.shape) + ", needs that of ffn_gate_exps, " + shape_text(out.shape));
    list.push_back(alternate_stacks(std::move(out), std::move(odd)));
  }

  [[noreturn]] void refuse_tensor(const TensorInfo& tensor) const {
    throw Error(Error::Kind::unsupported, file_ + ": " + printable(tensor.name),
                "the architecture " + std::string(family_.architecture) + " has no tensor of this name here");
  }

  void set_order(GgufOrder order, TensorInfo& out) const {
    const auto half = static_cast<std::uint64_t>(head_dim_ / 2), width = static_cast<std::uint64_t>(head_dim_);
    switch (order) {
      case GgufOrder::same:
        break;
      case GgufOrder::rotary:
        out.order = {.b = 2, .c = half};
        break;
      case GgufOrder::parts:
        out.order = {.b = static_cast<std::uint64_t>(heads_), .c = 3, .d = width};
        break;
      case GgufOrder::transposed:
        if (out.shape.size() != 2) break;  // a bias
        out.order.transposed = true;
        std::swap(out.shape[0], out.shape[1]);
        break;
      case GgufOrder::plus_one:
        if (!out.name.ends_with(".bias")) out.order.plus = -1;
        break;
      case GgufOrder::taps:
        if (out.shape.size() == 2) out.shape.insert(out.shape.begin() + 1, 1);
        break;
      case GgufOrder::one_row:
        if (out.shape.size() == 1) out.shape.insert(out.shape.begin(), 1);
        break;
      default:  // add_of_experts
        break;
    }
  }

  std::string file_;
  const GgufHeader& header_;
  const GgufVector& read_;
  Fields metadata_;
  const GgufFamily& family_;
  std::map<std::string_view, const TensorInfo*> by_name_;
  std::set<std::string> used_;
  std::uint64_t layers_ =
      std::numeric_limits<std::uint64_t>::max();  // until block_count is read; a wrong one is refused
  int heads_ = 0, head_dim_ = 0, experts_ = 0;
};

TENON_INLINE GgufModel map_gguf(const std::string& file, const GgufHeader& header, const GgufVector& read) {
  GgufMapper mapper(file, header, read);
  auto config = std::make_shared<const Json>(mapper.config());  // first: it checks the sizes that tensors() uses
  return {header.metadata, std::move(config), mapper.tensors()};
}

}  // namespace tenon::detail

namespace tenon {

TENON_INLINE GgufModel read_gguf_model(const GgufFiles& files) {
  return detail::map_gguf(files.files.front().name(), files.header, [&](const TensorInfo& tensor) {
    std::vector<float> values(static_cast<std::size_t>(tensor.end - tensor.begin) / sizeof(float));
    files.files[static_cast<std::size_t>(tensor.shard)].read_at(tensor.begin,
                                                                std::as_writable_bytes(std::span(values)));
    return values;
  });
}

}  // namespace tenon
