// Models written to GGUF: the tensors are those of the converter's formulas, and the file is the folder's model.
#include "tenon/model/gguf_export.h"

#include <boost/test/unit_test.hpp>
#include <map>

#include "../io/scratch.h"
#include "gguf_conversion.h"
#include "made_model.h"
#include "tenon/device/thread_pool.h"
#include "tenon/io/json.h"

BOOST_AUTO_TEST_SUITE(model_gguf_export)

using namespace tenon;
using namespace tenon::test;

namespace {

Checkpoint opened(const std::filesystem::path& path) {
  File file(path);
  auto tensors = read_gguf_header(file).tensors;
  return Checkpoint::of_tensors(std::move(file), std::move(tensors));
}

std::vector<float> values_of(const Checkpoint& checkpoint, const TensorInfo& tensor) {
  std::size_t count = 1;
  for (const auto dim : tensor.shape) count *= dim;
  std::vector<float> out(count);
  checkpoint.read_all(tensor, out.data());
  return out;
}

std::vector<std::byte> bytes_of(const Checkpoint& checkpoint, const TensorInfo& tensor) {
  std::vector<std::byte> out(tensor.end - tensor.begin);
  checkpoint.read_bytes(tensor, 0, out);
  return out;
}

QuantizeReport write(const std::filesystem::path& source, const std::filesystem::path& target,
                     std::string_view type = "f32") {
  ThreadPool pool(2);
  return export_gguf(source, target, type, pool);
}

Json metadata_in(const std::filesystem::path& path) { return *read_gguf_header(File(path)).metadata; }

// The tensors in the file are those that the test's converter makes, by name and by bits.
void same_tensors(const GgufFile& wanted, const std::filesystem::path& path) {
  const Checkpoint found = opened(path);
  BOOST_TEST(found.tensors().size() == wanted.tensors.size());
  for (const GgufFile::Tensor& each : wanted.tensors) {
    const TensorInfo* const tensor = found.find(each.name);
    BOOST_TEST_REQUIRE(tensor, each.name);
    BOOST_TEST((tensor->shape == each.shape), each.name);
    BOOST_TEST((values_of(found, *tensor) == each.values), each.name);
  }
}

// A number is stored as float32.
void same_entry(const Json& metadata, const std::string& key, const nlohmann::json& value) {
  const Json wanted = value.is_number_float() ? Json(static_cast<double>(value.get<float>())) : Json(value);
  BOOST_TEST(metadata.value(key, Json()) == wanted, key);
}

nlohmann::json llama_config(const nlohmann::json& more = nlohmann::json::object()) {
  nlohmann::json config = {{"model_type", "llama"},       {"vocab_size", 37},
                           {"hidden_size", 64},           {"num_hidden_layers", 2},
                           {"num_attention_heads", 4},    {"num_key_value_heads", 2},
                           {"intermediate_size", 96},     {"max_position_embeddings", 24},
                           {"tie_word_embeddings", false}};
  config.update(more);
  return config;
}

}  // namespace

BOOST_AUTO_TEST_CASE(architectures_have_the_converters_tensors) {
  const Json all = Json::parse(read_text_file(TENON_SOURCE_DIR "/tests/model/gguf_names.json", 1 << 20));
  for (const auto& [architecture, each] : all.items()) {
    BOOST_TEST_CONTEXT(architecture) {
      const std::string name = architecture;
      const nlohmann::json config = converted_config(all, name);
      const Family& family = find_family(BuiltInModels{}, config["model_type"].get<std::string>());
      const Scratch scratch;
      make_model(family, scratch / "folder", config);
      const GgufFile wanted =
          renamed(scratch / "folder", std::string(family.name_prefix), all[name]["names"], name, config);
      const QuantizeReport report = write(scratch / "folder", scratch / "model.gguf");
      BOOST_TEST(report.left_out == std::vector<std::string>{"of.no.use"});
      same_tensors(wanted, scratch / "model.gguf");
      same_model(family, scratch / "folder", scratch / "model.gguf");
      const Json metadata = metadata_in(scratch / "model.gguf");
      for (const auto& [key, value] : wanted.metadata.items())
        if (key != name + ".tensor_data_layout") same_entry(metadata, key, value);
    }
  }
}

BOOST_AUTO_TEST_CASE(older_architectures_are_read_back) {
  const auto same = [](const Family& family, const nlohmann::json& config) {
    const Scratch scratch;
    make_model(family, scratch / "folder", config);
    write(scratch / "folder", scratch / "model.gguf");
    same_model(family, scratch / "folder", scratch / "model.gguf");
  };
  same(family_of<Gpt2>, kSmallGpt2);
  same(family_of<Bloom>, kSmallBloom);
  same(family_of<Llama>, kSmallLlama);
  nlohmann::json shared = kSmallGptBigCode;
  shared["multi_query"] = true;
  same(family_of<GptBigCode>, shared);
}

BOOST_AUTO_TEST_CASE(a_mistral_without_a_window_is_a_llama) {
  const Scratch scratch;
  nlohmann::json config = llama_config({{"model_type", "mistral"}, {"sliding_window", nullptr}});
  make_model<Mistral>(scratch / "mistral", config);
  config["model_type"] = "llama";
  make_model<Llama>(scratch / "llama", config);
  write(scratch / "mistral", scratch / "model.gguf");
  same_model(family_of<Llama>, scratch / "llama", scratch / "model.gguf");
}

BOOST_AUTO_TEST_CASE(rotary_scaling_is_kept) {
  const nlohmann::json scalings[] = {
      {{"rope_type", "linear"}, {"factor", 4.0}},
      {{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 8}, {"beta_fast", 16.0}},
      {{"rope_type", "llama3"},
       {"factor", 8.0},
       {"low_freq_factor", 1.0},
       {"high_freq_factor", 4.0},
       {"original_max_position_embeddings", 8192}}};
  for (const nlohmann::json& scaling : scalings) {
    const Scratch scratch;
    make_model<Llama>(scratch / "folder", llama_config({{"rope_scaling", scaling}, {"rope_theta", 500000.0}}));
    write(scratch / "folder", scratch / "model.gguf");
    same_model(family_of<Llama>, scratch / "folder", scratch / "model.gguf");
  }
}

BOOST_AUTO_TEST_CASE(matrices_are_encoded_and_vectors_are_not) {
  const Scratch scratch;
  make_model<Llama>(scratch / "folder", llama_config({{"intermediate_size", 100}}));
  write(scratch / "folder", scratch / "f32.gguf");
  const Checkpoint exact = opened(scratch / "f32.gguf");
  for (const auto& [name, type] :
       {std::pair("Q8_0", DType::q8_0), {"q4_0", DType::q4_0}, {"float16", DType::f16}, {"bf16", DType::bf16}}) {
    const std::filesystem::path file = scratch / (std::string(name) + ".gguf");
    const QuantizeReport report = write(scratch / "folder", file, name);
    const Checkpoint found = opened(file);
    std::uint64_t bytes = 0;
    for (const TensorInfo& tensor : found.tensors()) {
      bytes += tensor.end - tensor.begin;
      const bool vector = tensor.shape.size() == 1, whole = vector || tensor.shape[1] != 100;
      const DType wanted = vector ? DType::f32 : is_block(type) && !whole ? DType::f16 : type;
      BOOST_TEST((tensor.dtype == wanted), tensor.name);
      const std::vector<float> values = values_of(exact, *exact.find(tensor.name));
      std::vector<std::byte> encoded(tensor.end - tensor.begin);
      const GgufBlock block = block_layout(tensor.dtype);
      encode_blocks(tensor.dtype, values.data(), values.size() / static_cast<std::size_t>(block.values),
                    encoded.data());
      BOOST_TEST((encoded == bytes_of(found, tensor)), tensor.name);
    }
    BOOST_TEST(report.bytes_after == bytes);
    const Json metadata = metadata_in(file);
    BOOST_TEST(metadata["general.architecture"] == "llama");
    BOOST_TEST(metadata.contains("general.quantization_version") == is_block(type));
  }
  BOOST_TEST(metadata_in(scratch / "Q8_0.gguf")["general.file_type"] == 7);
  BOOST_TEST(metadata_in(scratch / "q4_0.gguf")["general.file_type"] == 2);
}

BOOST_AUTO_TEST_CASE(a_gguf_file_keeps_its_metadata_and_its_blocks) {
  const Scratch scratch;
  make_model<Llama>(scratch / "folder", llama_config());
  write(scratch / "folder", scratch / "f32.gguf");
  write(scratch / "folder", scratch / "q4.gguf", "q4_0");
  write(scratch / "f32.gguf", scratch / "copy.gguf", "q4_0");
  write(scratch / "q4.gguf", scratch / "again.gguf", "q4_0");
  write(scratch / "q4.gguf", scratch / "wide.gguf", "f32");
  const Checkpoint direct = opened(scratch / "q4.gguf"), copy = opened(scratch / "copy.gguf"),
                   again = opened(scratch / "again.gguf"), wide = opened(scratch / "wide.gguf");
  for (const TensorInfo& tensor : direct.tensors()) {
    const std::vector<std::byte> bytes = bytes_of(direct, tensor);
    BOOST_TEST((bytes == bytes_of(copy, *copy.find(tensor.name))), tensor.name);
    BOOST_TEST((bytes == bytes_of(again, *again.find(tensor.name))), tensor.name);
    BOOST_TEST((values_of(direct, tensor) == values_of(wide, *wide.find(tensor.name))), tensor.name);
  }
  BOOST_TEST((metadata_in(scratch / "copy.gguf") == metadata_in(scratch / "q4.gguf")));
  BOOST_TEST(metadata_in(scratch / "wide.gguf")["general.file_type"] == 0);
}

// Q4_0 is int4 with groups of 32: loading keeps codes and scales, and so does a folder written from the file.
BOOST_AUTO_TEST_CASE(q4_0_is_read_as_codes) {
  const auto same = [](const Family& family, const nlohmann::json& config) {
    const Scratch scratch;
    make_model(family, scratch / "folder", config);
    write(scratch / "folder", scratch / "q4.gguf", "q4_0");
    ThreadPool pool(2);
    quantize_checkpoint(scratch / "q4.gguf", scratch / "int4", "int4", pool);
    const ModelFiles file = load_checkpoint(scratch / "q4.gguf"), folder = load_checkpoint(scratch / "int4");
    const ModelConfig c = family.configure(*file.config);
    const TensorSource one(file, family.name_prefix), other(folder, family.name_prefix);
    int matrices = 0;
    const auto matrix = [&](const MatrixSpec& m) {
      if (m.parts.empty()) return;
      BOOST_TEST(one.template holds<Int4Code<32>>(m));
      BOOST_TEST(!one.template holds<Int4Code<64>>(m));
      ++matrices;
      const auto count = static_cast<std::size_t>(m.shape.rows) * static_cast<std::size_t>(m.shape.cols);
      std::vector<float> decoded(count), stored(count);
      one.read(m, 0, m.shape.rows, decoded.data());
      other.read(m, 0, m.shape.rows, stored.data());
      BOOST_TEST((decoded == stored), m.parts.front().name);  // the folder kept the codes
      for (int row = 0; row < m.shape.rows; row += 7) {
        CodeBlock block;
        const int rows = std::min(7, m.shape.rows - row);
        one.template read_codes<Int4Code<32>>(m, row, rows, block);
        for (int r = 0; r < rows; ++r)
          for (int col = 0; col < m.shape.cols; ++col)
            BOOST_REQUIRE_EQUAL(Int4Code<32>::value(block, r, col),
                                decoded[static_cast<std::size_t>((row + r) * m.shape.cols + col)]);
      }
    };
    const auto vector = [](const VectorSpec&) {};
    visit_parts(family.tensors(c), c.tied_head, {matrix, matrix, vector});
    BOOST_TEST(matrices > 4);
  };
  same(family_of<Llama>, llama_config());  // rows of queries and keys in another order
  same(family_of<Gpt2>, {{"model_type", "gpt2"},
                         {"vocab_size", 37},
                         {"n_embd", 64},
                         {"n_layer", 2},
                         {"n_head", 4},
                         {"n_inner", 96},
                         {"n_positions", 24}});  // transposed twice
  same(family_of<Bloom>,
       {{"model_type", "bloom"}, {"vocab_size", 37}, {"hidden_size", 64}, {"n_layer", 2}, {"n_head", 4}});
}

BOOST_AUTO_TEST_CASE(a_scale_that_is_not_finite_is_refused) {
  const Scratch scratch;
  make_model<Llama>(scratch / "folder", llama_config());
  write(scratch / "folder", scratch / "q4.gguf", "q4_0");
  std::string bytes = read_text_file(scratch / "q4.gguf", 1 << 20);
  const Checkpoint found = opened(scratch / "q4.gguf");
  bytes[found.find("blk.1.ffn_up.weight")->begin + 18 * 2 * 5 + 1] = '\x7c';  // row 5: an infinity or a NaN
  scratch.write("bad.gguf", bytes);
  ThreadPool pool(1);
  BOOST_TEST(mentions(refusal([&] { quantize_checkpoint(scratch / "bad.gguf", scratch / "int4", "int4", pool); }),
                      {"bad.gguf: blk.1.ffn_up.weight", "not finite", "row 5"}));
}

BOOST_AUTO_TEST_CASE(what_gguf_cannot_say_is_refused) {
  const auto refuses = [](const Family& family, const nlohmann::json& config, const std::vector<std::string>& words) {
    const Scratch scratch;
    make_model(family, scratch / "folder", config);
    const std::string message = refusal([&] { write(scratch / "folder", scratch / "model.gguf"); });
    BOOST_TEST(mentions(message, words), message);
    BOOST_TEST(!std::filesystem::exists(scratch / "model.gguf"));
  };
  nlohmann::json windowed = llama_config({{"model_type", "mistral"}, {"sliding_window", 8}});
  refuses(family_of<Mistral>, windowed, {"config.json", "window", "architecture llama"});
  refuses(family_of<Llama>, llama_config({{"hidden_act", "relu"}}),
          {"config.json", "activation", "architecture llama"});
  refuses(family_of<Llama>, llama_config({{"rope_scaling", {{"rope_type", "dynamic"}, {"factor", 2.0}}}}), {"rotary"});
  refuses(family_of<Llama>,
          llama_config({{"rope_scaling",
                         {{"rope_type", "llama3"},
                          {"factor", 8.0},
                          {"low_freq_factor", 2.0},
                          {"high_freq_factor", 4.0},
                          {"original_max_position_embeddings", 8192}}}}),
          {"rotary positions", "architecture llama"});
  refuses(family_of<GptJ>,
          {{"model_type", "gptj"},
           {"vocab_size", 37},
           {"n_embd", 32},
           {"n_layer", 1},
           {"n_head", 2},
           {"n_positions", 24},
           {"rotary_dim", 8}},
          {"config.json: model_type", "gptj", "llama"});
  const Scratch scratch;
  make_model<Llama>(scratch / "folder", llama_config());
  const auto message = [&](const char* target, const char* type) {
    return refusal([&] { write(scratch / "folder", scratch / target, type); });
  };
  BOOST_TEST(mentions(message("model.gguf", "q4_k"), {"q4_k", "q8_0, q4_0"}));
  write(scratch / "folder", scratch / "model.gguf");
  BOOST_TEST(mentions(message("model.gguf", "f32"), {"model.gguf", "exists"}));
  ThreadPool pool(1);
  quantize_checkpoint(scratch / "folder", scratch / "int8", "int8", pool);
  BOOST_TEST(mentions(refusal([&] { write(scratch / "int8", scratch / "b.gguf"); }), {"int8 already"}));
}

BOOST_AUTO_TEST_SUITE_END()
