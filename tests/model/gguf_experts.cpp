// Mixtures of experts in GGUF files. gguf_experts/ was written by make_gguf_experts.py with gguf-py; the digests are
// those of the same weights in transformers.
#include "tenon/checkpoint/gguf_experts.h"

#include <boost/test/unit_test.hpp>
#include <fstream>
#include <functional>
#include <map>

#include "../checkpoint/gguf_file.h"
#include "../checkpoint/quantized_case.h"
#include "../io/scratch.h"
#include "gguf_conversion.h"
#include "tenon/device/thread_pool.h"
#include "tenon/io/json.h"
#include "tenon/io/sha256.h"
#include "tenon/model/any_family.h"
#include "tenon/model/files.h"
#include "tenon/model/gguf_export.h"
#include "tenon/model/tensor_source.h"
#include "tenon/weights/int4_code.h"

BOOST_AUTO_TEST_SUITE(model_gguf_experts)

using namespace tenon;
using namespace tenon::test;

namespace {

const std::filesystem::path kFolder = TENON_SOURCE_DIR "/tests/model/gguf_experts";

std::vector<std::string> cases() {
  std::vector<std::string> names;
  for (const auto& each : std::filesystem::directory_iterator(kFolder))
    if (each.path().extension() == ".gguf") names.push_back(each.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

Json expected_of(const std::string& name) { return Json::parse(read_text_file(kFolder / (name + ".json"), 1 << 20)); }

// A file of F32 tensors with the shapes and the metadata of a case.
GgufFile file_of(const std::string& name) {
  const File file(kFolder / (name + ".gguf"));
  const GgufHeader header = read_gguf_header(file);
  GgufFile out;
  out.metadata = nlohmann::json::parse(header.metadata->dump());
  for (const TensorInfo& tensor : header.tensors) {
    std::size_t count = 1;
    for (const auto dim : tensor.shape) count *= dim;
    out.tensors.push_back({tensor.name, tensor.shape, std::vector<float>(count, 0.5f)});
  }
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(weights_have_the_bits_of_transformers) {
  BOOST_TEST(cases().size() >= 9u);
  for (const std::string& name : cases()) {
    const ModelFiles files = load_checkpoint(kFolder / (name + ".gguf"));
    const Json expected = expected_of(name);
    BOOST_TEST(files.tensors->tensors().size() == expected["weights"].size(), name);
    for (const auto& [tensor, digits] : expected["weights"].items()) {
      const TensorInfo* const found = files.tensors->find(tensor);
      BOOST_REQUIRE_MESSAGE(found, name << ": " << tensor);
      const std::vector<float> values = values_of(*files.tensors, found->name);
      BOOST_TEST(Sha256().update(std::as_bytes(std::span(values))).hex() == digits.get<std::string>(),
                 name << ": " << tensor);
    }
    BOOST_TEST(load_whole(files).empty());
  }
}

BOOST_AUTO_TEST_CASE(configs_are_those_of_transformers) {
  for (const std::string& name : cases()) {
    BOOST_TEST_CONTEXT(name) {
      const ModelFiles found = load_checkpoint(kFolder / (name + ".gguf"));
      const Json expected = expected_of(name);
      ModelFiles wanted;
      wanted.config =
          std::make_shared<const ConfigFile>(std::make_shared<const Json>(expected["config"]), "config.json");
      BOOST_TEST(found.config->model_type() == wanted.config->model_type());
      const Family& family = find_family(BuiltInModels{}, found.config->model_type());
      same_config(family, wanted, found);
      const ModelConfig a = family.configure(*wanted.config), b = family.configure(*found.config);
      BOOST_TEST((a.experts == b.experts && a.experts_chosen == b.experts_chosen));
      BOOST_TEST((a.expert_inner == b.expert_inner && a.router_kind == b.router_kind));
      BOOST_TEST((a.shared_inner == b.shared_inner && a.choice_bias == b.choice_bias));
      BOOST_TEST((a.router_scale == b.router_scale && a.router_epsilon == b.router_epsilon));
      BOOST_TEST((a.dense_layers == b.dense_layers && a.expert_gate == b.expert_gate));
      BOOST_TEST((a.rotary.factor == b.rotary.factor && a.rotary.trained_positions == b.rotary.trained_positions));
      BOOST_TEST((a.rotary == b.rotary));
    }
  }
}

// Blocks of rows as they are loaded, not whole matrices, have the same bits.
BOOST_AUTO_TEST_CASE(any_rows_have_the_bits_of_the_whole) {
  for (const std::string name : {"gpt-oss", "gpt-oss_mixed", "llama"}) {
    const ModelFiles files = load_checkpoint(kFolder / (name + ".gguf"));
    const Family& family = find_family(BuiltInModels{}, model_type_of(files));
    const ModelConfig config = family.configure(*files.config);
    const DecoderSpec spec = family.tensors(config);
    const TensorSource source(files, family.name_prefix);
    for (const MatrixSpec* m : {&spec.layers[1].experts[1].up.weight, &spec.layers[1].experts[1].down.weight}) {
      const auto cols = static_cast<std::size_t>(m->shape.cols);
      std::vector<float> whole(static_cast<std::size_t>(m->shape.rows) * cols), part(whole.size());
      source.read(*m, 0, m->shape.rows, whole.data());
      for (const int step : {1, 3, 7, 20}) {
        for (int row = 0; row < m->shape.rows; row += step)
          source.read(*m, row, std::min(step, m->shape.rows - row), part.data() + static_cast<std::size_t>(row) * cols);
        BOOST_TEST((part == whole), name << ", " << step << " rows");
      }
    }
  }
}

// Q4_0 is int4: the codes of an expert are kept.
BOOST_AUTO_TEST_CASE(codes_of_experts_pass_unchanged) {
  using Code = Int4Code<32>;
  const ModelFiles files = load_checkpoint(kFolder / "llama.gguf");
  const ModelConfig config = Mixtral::configure(*files.config);
  const DecoderSpec spec = Mixtral::tensors(config);
  const TensorSource source(files, Mixtral::name_prefix);
  for (const auto& expert : spec.layers[1].experts) {
    const MatrixSpec& up = expert.up.weight;
    BOOST_TEST_REQUIRE(source.holds<Code>(up));
    BOOST_TEST(!source.holds<Code>(expert.down.weight));  // Q8_0
    CodeBlock block;
    source.read_codes<Code>(up, 0, up.shape.rows, block);
    std::vector<float> values(static_cast<std::size_t>(up.shape.rows) * static_cast<std::size_t>(up.shape.cols));
    source.read(up, 0, up.shape.rows, values.data());
    std::size_t at = 0;
    for (int row = 0; row < block.rows; ++row)
      for (int col = 0; col < block.cols; ++col) BOOST_REQUIRE(Code::value(block, row, col) == values[at++]);
  }
}

namespace {

// The model of a case as a folder of transformers: config.json, and float32 weights in safetensors.
void write_folder(const std::string& name, const std::filesystem::path& folder, const nlohmann::json& more = {}) {
  const ModelFiles files = load_checkpoint(kFolder / (name + ".gguf"));
  TensorFile tensors;
  for (const TensorInfo& each : files.tensors->tensors())
    tensors.add(each.name, DType::f32, each.shape, values_of(*files.tensors, each.name));
  std::filesystem::create_directories(folder);
  tensors.write(folder / "model.safetensors");
  nlohmann::json config = nlohmann::json::parse(expected_of(name)["config"].dump());
  if (!more.is_null()) config.update(more);
  std::ofstream(folder / "config.json") << config;
}

}  // namespace

// gguf-py wrote the file of a case. The folder of its weights becomes a file with its tensors, values and metadata.
BOOST_AUTO_TEST_CASE(folders_are_written_as_files_of_gguf_py) {
  ThreadPool pool(2);
  for (const std::string name : {"llama", "olmoe", "lfm2moe", "qwen2moe", "qwen3moe", "qwen3moe_one_expert"}) {
    BOOST_TEST_CONTEXT(name) {
      const Scratch scratch;
      write_folder(name, scratch / "folder");
      export_gguf(scratch / "folder", scratch / "model.gguf", "f32", pool);
      const auto opened = [](const std::filesystem::path& path) {
        File file(path);
        GgufHeader header = read_gguf_header(file);
        return std::pair(Checkpoint::of_tensors(std::move(file), std::move(header.tensors)), header.metadata);
      };
      const auto [found, metadata] = opened(scratch / "model.gguf");
      const auto [wanted, keys] = opened(kFolder / (name + ".gguf"));
      BOOST_TEST(found.tensors().size() == wanted.tensors().size());
      for (const TensorInfo& each : wanted.tensors()) {
        const TensorInfo* const tensor = found.find(each.name);
        BOOST_REQUIRE_MESSAGE(tensor, each.name);
        BOOST_CHECK(tensor->dtype == DType::f32);
        BOOST_TEST((tensor->shape == each.shape), each.name);
        std::vector<float> a(tensor->end / 4 - tensor->begin / 4), b(a.size());
        found.read_all(*tensor, a.data());
        wanted.read_all(each, b.data());
        BOOST_TEST((a == b), each.name);
      }
      for (const auto& [key, value] : keys->items())
        if (key.find(".expert") != key.npos || key == "general.architecture")
          BOOST_TEST((*metadata)[key] == value, key);
      const ModelFiles read = load_checkpoint(scratch / "model.gguf");
      same_config(find_family(BuiltInModels{}, model_type_of(read)), load_checkpoint(scratch / "folder"), read);
      BOOST_TEST(load_whole(read).empty());
    }
  }
}

BOOST_AUTO_TEST_CASE(routers_stay_float32_and_experts_become_blocks) {
  ThreadPool pool(2);
  const Scratch scratch;
  write_folder("qwen3moe", scratch / "folder");
  export_gguf(scratch / "folder", scratch / "model.gguf", "q8_0", pool);
  const auto header = read_gguf_header(File(scratch / "model.gguf"));
  for (const TensorInfo& each : header.tensors) {
    if (each.name.ends_with("ffn_gate_inp.weight")) BOOST_CHECK(each.dtype == DType::f32);
    if (each.name.ends_with("_exps.weight")) BOOST_CHECK(each.dtype == DType::q8_0);
  }
  BOOST_TEST(load_whole(load_checkpoint(scratch / "model.gguf")).empty());
}

BOOST_AUTO_TEST_CASE(the_scores_of_lfm2moe_are_sigmoids_with_or_without_a_bias) {
  const Scratch scratch;
  const auto read = [&](const auto& change) {
    GgufFile file = file_of("lfm2moe");
    change(file);
    scratch.write("model.gguf", file.bytes());
    const ModelFiles files = load_checkpoint(scratch / "model.gguf");
    BOOST_TEST(load_whole(files).empty());
    return Lfm2Moe::configure(*files.config);
  };
  const ModelConfig c = read([](GgufFile&) {});
  BOOST_TEST((c.choice_bias && c.router_kind == RouterKind::normalised_sigmoid && c.router_epsilon == 1e-6f));
  const auto no_bias = [](GgufFile& file) {
    std::erase_if(file.tensors, [](const Tensor& each) { return each.name.ends_with("exp_probs_b.bias"); });
  };
  BOOST_TEST(!read(no_bias).choice_bias);
  for (const nlohmann::json& kind : {nlohmann::json(1), nlohmann::json(0)})
    BOOST_TEST(mentions(refusal([&] { read([&](auto& f) { f.metadata["lfm2moe.expert_gating_func"] = kind; }); }),
                        {"lfm2moe.expert_gating_func", "other than 2"}));
}

// The converter of 2024 wrote the gate of a shared expert as a vector, and no width where it is that of an MLP.
BOOST_AUTO_TEST_CASE(older_files_of_qwen2moe_are_read) {
  const Scratch scratch;
  GgufFile file = file_of("qwen2moe");
  file.metadata.erase("qwen2moe.expert_shared_feed_forward_length");
  file.metadata["qwen2moe.feed_forward_length"] = 96;
  for (const char* name : {"blk.0.ffn_gate_inp_shexp.weight", "blk.1.ffn_gate_inp_shexp.weight"})
    file.at(name).shape = {32};
  scratch.write("model.gguf", file.bytes());
  const ModelFiles files = load_checkpoint(scratch / "model.gguf");
  BOOST_TEST(Qwen2Moe::configure(*files.config).shared_inner == 96);
  BOOST_TEST(load_whole(files).empty());
}

BOOST_AUTO_TEST_CASE(mixtures_that_gguf_cannot_express_are_refused) {
  ThreadPool pool(1);
  const auto refused = [&](const std::string& name, const nlohmann::json& more) {
    const Scratch scratch;
    write_folder(name, scratch / "folder", more);
    return refusal([&] { export_gguf(scratch / "folder", scratch / "model.gguf", "f32", pool); });
  };
  BOOST_TEST(mentions(refused("olmoe", {{"norm_topk_prob", true}}), {"the weights of the experts", "olmoe"}));
  BOOST_TEST(mentions(refused("qwen3moe", {{"norm_topk_prob", false}}), {"the weights of the experts", "qwen3moe"}));
  BOOST_TEST(mentions(refused("qwen2moe", {{"norm_topk_prob", true}}), {"the weights of the experts", "qwen2moe"}));
  for (const nlohmann::json& other : {nlohmann::json{{"norm_topk_prob", false}}, {{"routed_scaling_factor", 2.0}}})
    BOOST_TEST(mentions(refused("lfm2moe", other), {"the weights of the experts", "lfm2moe"}));
  BOOST_TEST(mentions(refused("llama", {{"sliding_window", 4}}), {"the window", "llama"}));
  BOOST_TEST(mentions(refused("gpt-oss", {}), {"model_type", "gpt_oss"}));
}

BOOST_AUTO_TEST_CASE(wrong_files_are_refused) {
  const auto refuses = [](const std::string& name, const std::function<void(GgufFile&)>& change,
                          const std::vector<std::string>& words) {
    const Scratch scratch;
    GgufFile file = file_of(name);
    change(file);
    scratch.write("model.gguf", file.bytes());
    const std::string message =
        refusal([&] { BOOST_TEST(load_whole(load_checkpoint(scratch / "model.gguf")).empty()); });
    BOOST_TEST(mentions(message, words), message);
    BOOST_TEST(mentions(message, {"model.gguf"}), message);
  };
  const auto key = [](const char* name, const nlohmann::json& value) {
    return [=](GgufFile& file) { file.metadata[name] = value; };
  };
  const auto without = [](const char* name) {
    return [=](GgufFile& file) { std::erase_if(file.tensors, [&](const auto& each) { return each.name == name; }); };
  };
  const auto shaped = [](const char* name, std::vector<std::uint64_t> shape) {
    return [=](GgufFile& file) {
      Tensor& tensor = file.at(name);
      tensor.shape = shape;
      std::size_t count = 1;
      for (const auto dim : shape) count *= dim;
      tensor.values.resize(count, 0.5f);
    };
  };
  for (const std::string& name : cases())
    BOOST_TEST(refusal([&] {
                 const Scratch scratch;
                 scratch.write("model.gguf", file_of(name).bytes());
                 BOOST_TEST(load_whole(load_checkpoint(scratch / "model.gguf")).empty());
               }) == "accepted");
  refuses("llama", key("llama.expert_count", 0), {"llama.expert_used_count", "no experts"});
  refuses("llama", key("llama.expert_count", 4), {"blk.", "_exps", "[3, ", "4, the number of experts"});
  refuses("llama", key("llama.expert_count", 5000), {"llama.expert_count", "4096"});
  refuses("llama", key("llama.expert_used_count", 4), {"llama.expert_used_count", "3"});
  refuses("llama", key("llama.expert_gating_func", 2), {"llama.expert_gating_func", "1"});
  refuses("llama", key("llama.expert_weights_scale", 2.5f), {"llama.expert_weights_scale", "not known"});
  refuses("llama", key("general.architecture", "qwen2"), {"qwen2."});
  refuses("llama", without("blk.0.ffn_gate_inp.weight"), {"block_sparse_moe.gate.weight", "missing"});
  refuses("llama", without("blk.1.ffn_up_exps.weight"), {"layers.1.block_sparse_moe.experts.0.w3.weight", "missing"});
  refuses("llama", shaped("blk.0.ffn_up_exps.weight", {3, 64, 64}),
          {"blk.0.ffn_up_exps.weight", "[64, 64]", "[64, 32]"});
  refuses("llama", shaped("blk.0.ffn_up_exps.weight", {192, 32}), {"blk.0.ffn_up_exps.weight", "3 dimensions"});
  refuses("llama", [](GgufFile& f) { f.at("blk.0.ffn_up_exps.weight").name = "blk.7.ffn_up_exps.weight"; },
          {"blk.7.ffn_up_exps.weight", "no tensor of this name"});
  refuses("llama_one_tensor_each", without("blk.0.ffn_up.2.weight"), {"experts.2.w3.weight", "missing"});
  refuses("llama_one_tensor_each", [](GgufFile& f) { f.at("blk.0.ffn_up.2.weight").name = "blk.0.ffn_up.4.weight"; },
          {"blk.0.ffn_up.4.weight", "no tensor of this name"});
  refuses("gpt-oss", without("blk.0.ffn_up_exps.weight"), {"blk.0.ffn_up_exps.weight is missing"});
  refuses("gpt-oss", without("blk.0.ffn_gate_exps.bias"), {"blk.0.ffn_gate_exps.bias is missing"});
  refuses("gpt-oss", without("blk.1.attn_sinks.weight"), {"layers.1.self_attn.sinks", "missing"});
  refuses("gpt-oss", shaped("blk.0.ffn_up_exps.bias", {3, 33}), {"blk.0.ffn_up_exps.bias", "[3, 33]", "[3, 32]"});
  refuses("gpt-oss", shaped("blk.0.ffn_down_exps.weight", {3, 32}), {"blk.0.ffn_down_exps.weight", "3 dimensions"});
  refuses("gpt-oss", [](GgufFile& f) { f.at("blk.0.ffn_up_exps.weight").values[7] = std::nanf(""); },
          {"blk.0.ffn_gate_exps.weight", "not finite"});
  refuses("qwen3moe", key("qwen3moe.expert_feed_forward_length", 64), {"has shape", "needs"});
  refuses("olmoe", [](GgufFile& f) { f.metadata.erase("olmoe.expert_count"); }, {"olmoe.expert_count", "missing"});
}

BOOST_AUTO_TEST_CASE(files_of_mixtures_can_be_copied_in_another_type) {
  const Scratch scratch;
  ThreadPool pool(1);
  // A copy of a file is no conversion.
  export_gguf(kFolder / "gpt-oss.gguf", scratch / "copy.gguf", "q8_0", pool);
  BOOST_TEST(load_whole(load_checkpoint(scratch / "copy.gguf")).empty());
}

BOOST_AUTO_TEST_SUITE_END()
