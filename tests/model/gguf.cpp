// Models in GGUF files. The test converts a model folder as convert_hf_to_gguf.py of llama.cpp does, by its formulas;
// what is read from the file must have the bits of the folder.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <set>

#include "../checkpoint/gguf_file.h"
#include "../io/scratch.h"
#include "made_model.h"
#include "tenon/device/thread_pool.h"
#include "tenon/io/json.h"
#include "tenon/model/bloom.h"
#include "tenon/model/files.h"
#include "tenon/model/gpt2.h"
#include "tenon/model/gpt_bigcode.h"
#include "tenon/model/llama.h"
#include "tenon/model/quantize.h"
#include "tenon/model/tensor_source.h"
#include "tenon/model/with_model.h"

BOOST_AUTO_TEST_SUITE(model_gguf)

using namespace tenon;
using tenon::test::GgufFile;
using tenon::test::mentions;
using tenon::test::refusal;
using tenon::test::Scratch;
using tenon::test::TensorFile;

namespace {

using Tensor = GgufFile::Tensor;

std::uint64_t cols_of(const Tensor& t) { return t.shape.size() == 2 ? t.shape[1] : 1; }

// LlamaModel.permute: reshape(heads, 2, rows / heads / 2, cols).swapaxes(1, 2)
void permute(Tensor& t, std::uint64_t heads) {
  const std::vector<float> old = t.values;
  const std::uint64_t half = t.shape[0] / heads / 2, cols = cols_of(t);
  std::size_t out = 0;
  for (std::uint64_t h = 0; h < heads; ++h)
    for (std::uint64_t i = 0; i < half; ++i)
      for (std::uint64_t j = 0; j < 2; ++j)
        for (std::uint64_t c = 0; c < cols; ++c) t.values[out++] = old[((h * 2 + j) * half + i) * cols + c];
}

// GPT2Model: data_torch.transpose(1, 0)
void transpose(Tensor& t) {
  const std::vector<float> old = t.values;
  const std::uint64_t rows = t.shape[0], cols = t.shape[1];
  for (std::uint64_t r = 0; r < rows; ++r)
    for (std::uint64_t c = 0; c < cols; ++c) t.values[c * rows + r] = old[r * cols + c];
  std::swap(t.shape[0], t.shape[1]);
}

// BloomModel: qkv.reshape(heads, 3, width / heads, cols), then all [:, 0], all [:, 1] and all [:, 2]
void part(Tensor& t, std::uint64_t heads) {
  const std::vector<float> old = t.values;
  const std::uint64_t run = t.shape[0] / heads / 3 * cols_of(t);
  std::size_t out = 0;
  for (std::uint64_t which = 0; which < 3; ++which)
    for (std::uint64_t h = 0; h < heads; ++h)
      for (std::uint64_t i = 0; i < run; ++i) t.values[out++] = old[(h * 3 + which) * run + i];
}

struct Converted {
  std::string name;  // in the folder, without prefix
  std::function<void(Tensor&)> change = [](Tensor&) {};
};
using Names = std::map<std::string, Converted>;  // by the stem in the file; # is the layer

// The folder's tensors under the names of GGUF.
GgufFile converted(const std::filesystem::path& folder, const Names& names, const nlohmann::json& metadata) {
  const Checkpoint source = Checkpoint::open(folder);
  GgufFile out;
  out.metadata = metadata;
  for (const TensorInfo& info : source.tensors()) {
    if (info.name == "of.no.use") continue;
    for (const auto& [stored, from] : names) {
      for (const std::string layer : {"0", "1"}) {
        const auto numbered = [&](std::string text) {
          if (const auto at = text.find('#'); at != text.npos) text.replace(at, 1, layer);
          return text;
        };
        const std::string suffix = info.name.substr(info.name.rfind('.'));
        if (info.name != numbered(from.name) + suffix) continue;
        std::uint64_t count = 1;
        for (const auto dim : info.shape) count *= dim;
        Tensor tensor{numbered(stored) + suffix, info.shape, std::vector<float>(count)};
        source.read_all(info, tensor.values.data());
        from.change(tensor);
        out.tensors.push_back(std::move(tensor));
        break;
      }
    }
  }
  return out;
}

// The sizes with which a step computes.
void same_arithmetic(const ModelConfig& a, const ModelConfig& b) {
  BOOST_TEST((a.norm_kind == b.norm_kind && a.position_kind == b.position_kind && a.mlp_kind == b.mlp_kind));
  BOOST_TEST((a.parallel_residual == b.parallel_residual && a.output_norms == b.output_norms));
  BOOST_TEST((a.norms_all_heads == b.norms_all_heads && a.head_norms == b.head_norms && a.qkv_bias == b.qkv_bias));
  BOOST_TEST((a.embedding_scale == b.embedding_scale && a.residual_scale == b.residual_scale));
  BOOST_TEST((a.logit_scale == b.logit_scale && a.attention_scale == b.attention_scale));
  BOOST_TEST((a.logit_soft_cap == b.logit_soft_cap && a.attention_soft_cap == b.attention_soft_cap));
  BOOST_TEST((a.window == b.window && a.windows == b.windows && a.rotations == b.rotations));
  for (const auto& [x, y] : {std::pair(a.rotary, b.rotary), std::pair(a.local_rotary, b.local_rotary)}) {
    BOOST_TEST((x.scaling == y.scaling && x.theta == y.theta && x.factor == y.factor && x.width == y.width));
    BOOST_TEST((x.neighbours == y.neighbours && x.angle_scale == y.angle_scale));
    BOOST_TEST((x.short_factors == y.short_factors && x.long_factors == y.long_factors));
  }
}

template <class Family>
void same_config(const ModelFiles& wanted, const ModelFiles& found) {
  const ModelConfig a = Family::configure(*wanted.config), b = Family::configure(*found.config);
  BOOST_TEST_REQUIRE((a.layers == b.layers && a.hidden == b.hidden && a.heads == b.heads && a.kv_heads == b.kv_heads));
  BOOST_TEST_REQUIRE((a.head_dim == b.head_dim && a.inner == b.inner && a.vocab == b.vocab));
  BOOST_TEST((a.positions == b.positions && a.norm_epsilon == b.norm_epsilon && a.tied_head == b.tied_head));
  BOOST_TEST((a.activation == b.activation && a.interleaved_qkv == b.interleaved_qkv));
  BOOST_TEST((a.attention_bias == b.attention_bias && a.mlp_bias == b.mlp_bias));
  same_arithmetic(a, b);
}

// Compares the model of the file with that of the folder, tensor by tensor.
template <class Family>
void same_model(const std::filesystem::path& folder, const std::filesystem::path& file) {
  const ModelFiles wanted = load_checkpoint(folder), found = load_checkpoint(file);
  same_config<Family>(wanted, found);
  const ModelConfig a = Family::configure(*wanted.config);
  const DecoderSpec spec = Family::tensors(a);
  const TensorSource one(wanted, Family::name_prefix), other(found, Family::name_prefix);
  other.check(spec, a.tied_head);
  BOOST_TEST(other.unused(spec, a.tied_head).empty());
  const auto same = [](const auto& part, const std::vector<float>& x, const std::vector<float>& y) {
    const std::string name = part.parts.empty() ? "" : part.parts.front().name;
    BOOST_TEST(std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0, name);
    return 0;
  };
  const auto size = [](Shape shape) {
    return static_cast<std::size_t>(shape.rows) * static_cast<std::size_t>(shape.cols);
  };
  const auto matrix = [&](const MatrixSpec& m) {
    std::vector<float> x(size(m.shape)), y(x.size());
    one.read(m, 0, m.shape.rows, x.data());
    for (int row = 0; row < m.shape.rows; row += 5)  // blocks of rows, as they are loaded
      other.read(m, row, std::min(5, m.shape.rows - row), y.data() + static_cast<std::ptrdiff_t>(row) * m.shape.cols);
    return same(m, x, y);
  };
  const auto vector = [&](const VectorSpec& v) {
    std::vector<float> x(size(v.shape)), y(x.size());
    one.read(v, x.data());
    other.read(v, y.data());
    return same(v, x, y);
  };
  map_parts<int, int, int>(spec, a.tied_head, matrix, matrix, vector);
}

Names llama_names(std::uint64_t heads, std::uint64_t kv_heads) {
  const std::string layer = "model.layers.#.";
  return {{"token_embd", {"model.embed_tokens"}},
          {"output_norm", {"model.norm"}},
          {"output", {"model.lm_head"}},
          {"blk.#.attn_norm", {layer + "input_layernorm"}},
          {"blk.#.attn_q", {layer + "self_attn.q_proj", [=](Tensor& t) { permute(t, heads); }}},
          {"blk.#.attn_k", {layer + "self_attn.k_proj", [=](Tensor& t) { permute(t, kv_heads); }}},
          {"blk.#.attn_v", {layer + "self_attn.v_proj"}},
          {"blk.#.attn_output", {layer + "self_attn.o_proj"}},
          {"blk.#.ffn_norm", {layer + "post_attention_layernorm"}},
          {"blk.#.ffn_gate", {layer + "mlp.gate_proj"}},
          {"blk.#.ffn_up", {layer + "mlp.up_proj"}},
          {"blk.#.ffn_down", {layer + "mlp.down_proj"}}};
}

Names gpt_names(bool transposed) {
  const auto change = [=](Tensor& t) {
    if (transposed && t.shape.size() == 2) transpose(t);
  };
  const std::string layer = "transformer.h.#.";
  return {{"token_embd", {"transformer.wte"}},
          {"position_embd", {"transformer.wpe"}},
          {"output_norm", {"transformer.ln_f"}},
          {"output", {"transformer.lm_head"}},
          {"blk.#.attn_norm", {layer + "ln_1"}},
          {"blk.#.attn_qkv", {layer + "attn.c_attn", change}},
          {"blk.#.attn_output", {layer + "attn.c_proj", change}},
          {"blk.#.ffn_norm", {layer + "ln_2"}},
          {"blk.#.ffn_up", {layer + "mlp.c_fc", change}},
          {"blk.#.ffn_down", {layer + "mlp.c_proj", change}}};
}

Names bloom_names(std::uint64_t heads) {
  const std::string layer = "transformer.h.#.";
  return {{"token_embd", {"transformer.word_embeddings"}},
          {"token_embd_norm", {"transformer.word_embeddings_layernorm"}},
          {"output_norm", {"transformer.ln_f"}},
          {"blk.#.attn_norm", {layer + "input_layernorm"}},
          {"blk.#.attn_qkv", {layer + "self_attention.query_key_value", [=](Tensor& t) { part(t, heads); }}},
          {"blk.#.attn_output", {layer + "self_attention.dense"}},
          {"blk.#.ffn_norm", {layer + "post_attention_layernorm"}},
          {"blk.#.ffn_up", {layer + "mlp.dense_h_to_4h"}},
          {"blk.#.ffn_down", {layer + "mlp.dense_4h_to_h"}}};
}

// The metadata of kSmallLlama.
const nlohmann::json kLlama = {{"general.architecture", "llama"},
                               {"llama.block_count", 2},
                               {"llama.context_length", 24},
                               {"llama.embedding_length", 45},
                               {"llama.feed_forward_length", 133},
                               {"llama.attention.head_count", 3},
                               {"llama.attention.head_count_kv", 1},
                               {"llama.attention.key_length", 6},
                               {"llama.attention.value_length", 6},
                               {"llama.rope.dimension_count", 6},
                               {"llama.attention.layer_norm_rms_epsilon", 1e-6f}};

// Metadata as the converter writes it for a config.json of transformers.
nlohmann::json metadata_of(const std::string& architecture, const nlohmann::json& config) {
  nlohmann::json out = {{"general.architecture", architecture}};
  const auto rope = config.value("rope_parameters", nlohmann::json::object());
  const auto global = rope.value("full_attention", rope);
  const std::uint64_t heads = config["num_attention_heads"], width = config["hidden_size"];
  const std::uint64_t head_dim = config.value("head_dim", width / heads);
  const auto set = [&](const char* key, const nlohmann::json& value) { out[architecture + "." + key] = value; };
  const auto copy = [&](const char* key, const char* field) {
    if (config.contains(field) && !config[field].is_null()) set(key, config[field]);
  };
  constexpr std::pair<const char*, const char*> copied[] = {
      {"block_count", "num_hidden_layers"},
      {"context_length", "max_position_embeddings"},
      {"embedding_length", "hidden_size"},
      {"feed_forward_length", "intermediate_size"},
      {"attention.head_count", "num_attention_heads"},
      {"attention.head_count_kv", "num_key_value_heads"},
      {"attention.layer_norm_rms_epsilon", "rms_norm_eps"},
      {"attention.layer_norm_epsilon", "layer_norm_eps"},
      {"attention.layer_norm_epsilon", "norm_epsilon"},
      {"rope.scaling.original_context_length", "original_max_position_embeddings"},
      {"attn_logit_softcapping", "attn_logit_softcapping"},
      {"final_logit_softcapping", "final_logit_softcapping"},
      {"use_parallel_residual", "use_parallel_residual"},
      {"logit_scale", "logit_scale"},
      {"logit_scale", "logits_scaling"},
      {"attention.scale", "attention_multiplier"},
      {"embedding_scale", "embedding_multiplier"},
      {"residual_scale", "residual_multiplier"}};
  for (const auto& [key, field] : copied) copy(key, field);
  if (architecture == "olmo") set("attention.layer_norm_epsilon", 1e-5);
  if (architecture.starts_with("gemma")) copy("attention.sliding_window", "sliding_window");
  set("rope.freq_base", global.value("rope_theta", config.value("rope_theta", 10000.0)));
  const double turned = static_cast<double>(head_dim) * global.value("partial_rotary_factor", 1.0);
  set("rope.dimension_count", static_cast<std::uint64_t>(turned));
  if (head_dim != width / heads) set("attention.key_length", head_dim), set("attention.value_length", head_dim);
  const auto scaling = config.value("rope_scaling", global);
  if (scaling.is_object() && scaling.contains("factor"))
    set("rope.scaling.type", "linear"), set("rope.scaling.factor", scaling["factor"]);
  return out;
}

// Norms of Gemma: multiples of 2^-10, so that the sum with 1 is exact. The folder gets them, too.
void add_one(Tensor& tensor, TensorFile::Tensor& from) {
  for (std::size_t i = 0; i < tensor.values.size(); ++i) {
    const float exact = std::round(tensor.values[i] * 1024) / 1024;
    from.put(i, exact);
    tensor.values[i] = exact + 1;
  }
}

// The folder's tensors under gguf-py's names, changed as the converter changes those of the architecture.
GgufFile renamed(const std::filesystem::path& folder, const std::string& prefix, const nlohmann::json& names,
                 const std::string& architecture, const nlohmann::json& config) {
  const std::uint64_t heads = config["num_attention_heads"];
  const std::uint64_t kv_heads = config.value("num_key_value_heads", heads);
  const std::set<std::string> permuted = {"llama", "smollm3", "granite", "olmo"};
  TensorFile source;
  source.read(folder / "model.safetensors");
  GgufFile out;
  out.metadata = metadata_of(architecture, config);
  for (auto& [name, from] : source.tensors) {
    if (name == "of.no.use") continue;
    const std::string without = name.substr(name.starts_with(prefix) ? prefix.size() : 0);
    const std::string key = names.contains(name) ? name : without;
    BOOST_TEST_REQUIRE(names.contains(key), name);
    Tensor tensor{names[key].get<std::string>(), from.shape, std::vector<float>(from.bytes.size() / sizeof(float))};
    std::memcpy(tensor.values.data(), from.bytes.data(), from.bytes.size());
    const auto is = [&](const char* part_of_name) { return tensor.name.find(part_of_name) != std::string::npos; };
    if (permuted.contains(architecture) && is("attn_q.")) permute(tensor, heads);
    if (permuted.contains(architecture) && is("attn_k.")) permute(tensor, kv_heads);
    if (architecture == "gptneox" && is("attn_qkv.")) part(tensor, heads);
    if (architecture.starts_with("gemma") && is("norm.weight")) add_one(tensor, from);
    out.tensors.push_back(std::move(tensor));
  }
  source.write(folder / "model.safetensors");
  if (architecture != "phi3") return out;
  const auto factors = [&](const char* name) { return config["rope_parameters"][name].get<std::vector<float>>(); };
  out.tensors.push_back({"rope_factors_short.weight", {8}, factors("short_factor")});
  out.tensors.push_back({"rope_factors_long.weight", {8}, factors("long_factor")});
  return out;
}

GgufFile small_llama(const Scratch& scratch, const nlohmann::json& more = nlohmann::json::object()) {
  nlohmann::json config = test::kSmallLlama;
  config.update(more);
  test::make_model<Llama>(scratch / "folder", config);
  return converted(scratch / "folder", llama_names(3, 1), kLlama);
}

}  // namespace

BOOST_AUTO_TEST_CASE(llama) {
  for (const nlohmann::json& more : {nlohmann::json::object(), nlohmann::json{{"tie_word_embeddings", true}},
                                     nlohmann::json{{"attention_bias", true}, {"mlp_bias", true}}}) {
    const Scratch scratch;
    scratch.write("model.gguf", small_llama(scratch, more).bytes());
    same_model<Llama>(scratch / "folder", scratch / "model.gguf");
  }
}

BOOST_AUTO_TEST_CASE(gpt2) {
  const Scratch scratch;
  test::make_model<Gpt2>(scratch / "folder", test::kSmallGpt2);
  const nlohmann::json metadata = {{"general.architecture", "gpt2"},
                                   {"gpt2.block_count", 2},
                                   {"gpt2.context_length", 24},
                                   {"gpt2.embedding_length", 15},
                                   {"gpt2.feed_forward_length", 21},
                                   {"gpt2.attention.head_count", 3},
                                   {"gpt2.attention.layer_norm_epsilon", 1e-5f}};
  scratch.write("model.gguf", converted(scratch / "folder", gpt_names(true), metadata).bytes());
  same_model<Gpt2>(scratch / "folder", scratch / "model.gguf");
}

BOOST_AUTO_TEST_CASE(starcoder) {
  const Scratch scratch;
  nlohmann::json config = test::kSmallGptBigCode;
  config["multi_query"] = true;
  test::make_model<GptBigCode>(scratch / "folder", config);
  const nlohmann::json metadata = {
      {"general.architecture", "starcoder"},    {"starcoder.block_count", 2},
      {"starcoder.context_length", 24},         {"starcoder.embedding_length", 15},
      {"starcoder.feed_forward_length", 21},    {"starcoder.attention.head_count", 3},
      {"starcoder.attention.head_count_kv", 1}, {"starcoder.attention.layer_norm_epsilon", 1e-5f}};
  scratch.write("model.gguf", converted(scratch / "folder", gpt_names(false), metadata).bytes());
  same_model<GptBigCode>(scratch / "folder", scratch / "model.gguf");
}

BOOST_AUTO_TEST_CASE(bloom) {
  const Scratch scratch;
  test::make_model<Bloom>(scratch / "folder", test::kSmallBloom);
  const nlohmann::json metadata = {{"general.architecture", "bloom"},    {"bloom.block_count", 2},
                                   {"bloom.context_length", 2048},       {"bloom.embedding_length", 15},
                                   {"bloom.feed_forward_length", 60},    {"bloom.attention.head_count", 3},
                                   {"bloom.attention.head_count_kv", 3}, {"bloom.attention.layer_norm_epsilon", 1e-5f}};
  scratch.write("model.gguf", converted(scratch / "folder", bloom_names(3), metadata).bytes());
  same_model<Bloom>(scratch / "folder", scratch / "model.gguf");
}

// gguf_names.json has a config and gguf-py's names for each architecture (make_gguf_names.py).
BOOST_AUTO_TEST_CASE(further_architectures) {
  const Json all = Json::parse(read_text_file(TENON_SOURCE_DIR "/tests/model/gguf_names.json", 1 << 20));
  for (const auto& [architecture, each] : all.items()) {
    BOOST_TEST_CONTEXT(architecture) {
      const std::string name = architecture;
      nlohmann::json config = each["config"];
      config["query_pre_attn_scalar"] = 16;                          // the width of a head; no key has another
      if (name == "gemma3") config.erase("layer_types");             // every sixth layer has no window
      if (name == "starcoder2") config["sliding_window"] = nullptr;  // nor has one the window of StarCoder2
      with_model(BuiltInModels{}, config["model_type"].get<std::string>(), [&](auto family) {
        using Family = decltype(family);
        const Scratch scratch;
        test::make_model<Family>(scratch / "folder", config);
        const GgufFile file =
            renamed(scratch / "folder", std::string(Family::name_prefix), all[name]["names"], name, config);
        scratch.write("model.gguf", file.bytes());
        same_model<Family>(scratch / "folder", scratch / "model.gguf");
        return 0;
      });
    }
  }
}

// The folder that `tenon quantize` writes does not depend on which of the two the model came from.
BOOST_AUTO_TEST_CASE(quantized_folders_are_the_same) {
  const Scratch scratch;
  const GgufFile file = small_llama(scratch, {{"attention_bias", true}, {"tie_word_embeddings", true}});
  scratch.write("model.gguf", file.bytes());
  ThreadPool pool(1);
  for (const std::string format : {"int8", "int4", "bfloat16"}) {
    quantize_checkpoint(scratch / "folder", scratch / ("a" + format), format, pool);
    quantize_checkpoint(scratch / "model.gguf", scratch / ("b" + format), format, pool);
    const auto weights = [&](const std::string& folder) {
      return read_text_file(scratch / (folder + format) / "model.safetensors", 1 << 20);
    };
    BOOST_TEST((weights("a") == weights("b")), format);
    same_config<Llama>(load_checkpoint(scratch / "folder"), load_checkpoint(scratch / ("b" + format)));
  }
}

BOOST_AUTO_TEST_CASE(ends_of_texts_are_those_of_the_metadata) {
  const Scratch scratch;
  GgufFile file = small_llama(scratch);
  const auto config = [&] {
    scratch.write("model.gguf", file.bytes());
    return Llama::configure(*load_checkpoint(scratch / "model.gguf").config);
  };
  BOOST_TEST(config().eos.empty());  // not the default of the class: the converter writes the ids
  BOOST_TEST(!config().bos);
  file.metadata.update({{"tokenizer.ggml.bos_token_id", 1},
                        {"tokenizer.ggml.eos_token_id", 2},
                        {"tokenizer.ggml.eot_token_id", 5},
                        {"tokenizer.ggml.eom_token_id", 2}});
  BOOST_TEST((config().bos == 1));
  BOOST_TEST(config().eos == (std::vector<TokenId>{2, 5}));
}

BOOST_AUTO_TEST_CASE(rotary_scaling) {
  const Scratch scratch;
  GgufFile file = small_llama(scratch);
  const auto rotary = [&] {
    scratch.write("model.gguf", file.bytes());
    return Llama::configure(*load_checkpoint(scratch / "model.gguf").config).rotary;
  };
  const auto message = [&] { return refusal(rotary); };
  BOOST_TEST((rotary().scaling == RotaryScaling::none));
  file.metadata["llama.rope.freq_base"] = 500000.0f;
  BOOST_TEST(rotary().theta == 500000.0);
  // The factors that the converter writes for Llama 3.1; a head of 6 has frequencies 1, 1 / 79.4, 1 / 6300.
  file.tensors.push_back({"rope_freqs.weight", {3}, {1, 1, 8}});
  BOOST_TEST((rotary().scaling == RotaryScaling::llama3));
  BOOST_TEST(rotary().factor == 8.0);
  BOOST_TEST(rotary().trained_positions == 8192);
  file.at("rope_freqs.weight").values = {1, 1, 1};
  BOOST_TEST((rotary().scaling == RotaryScaling::none));
  file.at("rope_freqs.weight").values = {1, 2, 8};
  BOOST_TEST(mentions(message(), {"model.gguf: rope_freqs.weight", "Llama 3.1"}));
  file.at("rope_freqs.weight").shape = {1, 3};
  BOOST_TEST(mentions(message(), {"model.gguf: rope_freqs.weight", "[1, 3]"}));
  file.tensors.pop_back();
  file.metadata.update({{"llama.rope.scaling.type", "linear"}, {"llama.rope.scaling.factor", 4.0f}});
  BOOST_TEST((rotary().scaling == RotaryScaling::linear));
  BOOST_TEST(rotary().factor == 4.0);
  file.metadata["llama.rope.scaling.type"] = "none";
  BOOST_TEST((rotary().scaling == RotaryScaling::none));
  file.metadata["llama.rope.scaling.type"] = "longrope";
  BOOST_TEST(mentions(message(), {"model.gguf: llama.rope.scaling.type", "longrope"}));
}

BOOST_AUTO_TEST_CASE(wrong_models_are_refused) {
  const Scratch scratch;
  const GgufFile sound = small_llama(scratch);
  const auto refuses = [&](const std::function<void(GgufFile&)>& change, const std::vector<std::string>& words) {
    GgufFile file = sound;
    change(file);
    scratch.write("model.gguf", file.bytes());
    const std::string message = refusal([&] {
      const ModelFiles files = load_checkpoint(scratch / "model.gguf");
      const ModelConfig config = Llama::configure(*files.config);
      TensorSource(files, Llama::name_prefix).check(Llama::tensors(config), config.tied_head);
    });
    BOOST_TEST(mentions(message, words), message);
    BOOST_TEST(mentions(message, {"model.gguf"}), message);
  };
  const auto key = [](const char* name, const nlohmann::json& value) {
    return [=](GgufFile& file) { file.metadata[name] = value; };
  };
  const auto without = [](const char* name) { return [=](GgufFile& file) { file.metadata.erase(name); }; };
  refuses(key("general.architecture", "rwkv7"), {"general.architecture", "rwkv7", "llama"});
  refuses(without("general.architecture"), {"general.architecture"});
  refuses(without("llama.block_count"), {"llama.block_count"});
  refuses(without("llama.attention.head_count"), {"llama.attention.head_count"});
  refuses(key("llama.attention.head_count", 0), {"llama.attention.head_count"});
  refuses(key("llama.attention.head_count_kv", 4), {"llama.attention.head_count_kv"});
  refuses(key("llama.attention.value_length", 8), {"llama.attention.value_length", "key_length"});
  refuses(key("llama.rope.dimension_count", 4), {"llama.rope.dimension_count", "6"});
  refuses(key("llama.expert_count", 8), {"llama.expert_count", "experts"});
  refuses(key("llama.attention.sliding_window", 8), {"llama.attention.sliding_window", "not known"});
  refuses(key("llama.vocab_size", 38), {"llama.vocab_size", "37"});
  refuses(key("llama.vocab_size", "\xFF"), {"llama.vocab_size", "37"});
  refuses(key("tokenizer.chat_template", "\xFF"), {"tokenizer.chat_template", "UTF-8"});
  refuses(key("split.count", 2), {"split.count", "merge"});
  refuses(key("llama.block_count", 3), {"layers.2."});
  refuses([](GgufFile& file) { file.at("token_embd.weight").name = "token_embedding.weight"; }, {"token_embd.weight"});
  refuses([](GgufFile& file) { file.at("blk.0.attn_q.weight").name = "blk.0.attn_z.weight"; },
          {"blk.0.attn_z.weight", "no tensor of this name"});
  refuses([](GgufFile& file) { file.at("blk.0.attn_q.weight").name = "blk.x.attn_q.weight"; }, {"blk.x.attn_q.weight"});
  refuses([](GgufFile& file) { file.at("blk.0.attn_q.weight").name = "blk.0.attn_q.scale"; }, {"blk.0.attn_q.scale"});
  refuses(
      [](GgufFile& file) {
        file.at("blk.0.attn_q.weight").shape = {45, 18};
      },
      {"blk.0.attn_q.weight", "[45, 18]", "[18, 45]"});
}

BOOST_AUTO_TEST_SUITE_END()
