// Quantised checkpoints of other libraries decode to the bits of their own dequantisation in float32.
#include "tenon/checkpoint/quantized.h"

#include <boost/test/unit_test.hpp>

#include "quantized_case.h"
#include "tenon/checkpoint/matrix_decoder.h"
#include "tenon/io/sha256.h"

BOOST_AUTO_TEST_SUITE(checkpoint_quantized)

using namespace tenon;
using namespace tenon::test;

namespace {

nlohmann::json expected_of(const std::string& name) {
  nlohmann::json expected;
  std::ifstream(kQuantizedCases / name / "expected.json") >> expected;
  return expected;
}

std::string digest(const std::vector<float>& values) { return Sha256().update(std::as_bytes(std::span(values))).hex(); }

}  // namespace

BOOST_AUTO_TEST_CASE(weights_have_the_bits_of_the_library) {
  int matrices = 0;
  for (const std::string& name : quantized_cases()) {
    const ModelFiles files = load_checkpoint(kQuantizedCases / name);
    const nlohmann::json expected = expected_of(name);
    for (const auto& [tensor, digits] : expected["weights"].items()) {
      const std::vector<float> values = values_of(*files.tensors, tensor), first(values.begin(), values.begin() + 4);
      BOOST_TEST(first == expected["rows"][tensor].get<std::vector<float>>(), boost::test_tools::per_element());
      BOOST_TEST(digest(values) == digits.get<std::string>(), name + ": " + tensor);
      ++matrices;
    }
    for (const TensorInfo& tensor : files.tensors->tensors())
      BOOST_TEST((tensor.decoder != nullptr) == expected["weights"].contains(tensor.name), name + ": " + tensor.name);
  }
  BOOST_TEST(matrices >= 40 * 4);
}

BOOST_AUTO_TEST_CASE(every_tensor_is_used) {
  for (const std::string& name : quantized_cases())
    BOOST_TEST(load_whole(load_checkpoint(kQuantizedCases / name)).empty(), name);
}

// Loading reads blocks of rows, and rows of one output more or less.
BOOST_AUTO_TEST_CASE(any_rectangle_has_the_bits_of_the_whole) {
  for (const std::string& name : quantized_cases()) {
    const ModelFiles files = load_checkpoint(kQuantizedCases / name);
    for (const TensorInfo& tensor : files.tensors->tensors()) {
      if (!tensor.decoder) continue;
      const std::vector<float> whole = values_of(*files.tensors, tensor.name);
      const std::uint64_t cols = tensor.shape.back(), rows = whole.size() / cols;  // of all matrices of a stack
      const std::uint64_t rectangles[][4] = {{0, 1, 0, cols},           {1, 16, 0, cols}, {5, rows - 5, 0, cols},
                                             {rows - 1, 1, 0, cols},    {3, 9, 1, 7},     {0, rows, 5, 1},
                                             {rows / 2, 4, cols - 9, 9}};
      for (const auto& [row, count, col, width] : rectangles) {
        std::vector<float> part(count * width), same;
        files.tensors->read(tensor, row, count, col, width, part.data());
        for (std::uint64_t r = row; r < row + count; ++r)
          for (std::uint64_t c = col; c < col + width; ++c) same.push_back(whole[r * cols + c]);
        BOOST_TEST((part == same), name + ": " + tensor.name);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(decoders_name_their_variant) {
  const std::pair<const char*, const char*> names[] = {
      {"gptq_g64_act_order", "gptq, 4 bits, groups of 64, in order of activations"},
      {"gptq_per_output", "gptq, 4 bits, a scale per output"},
      {"gptq_3bit_asym_act_order", "gptq, 3 bits, groups of 32, in order of activations"},
      {"ar_5bit_asym", "auto-round, 5 bits, groups of 32"},
      {"awq_g32", "awq, 4 bits, groups of 32"},
      {"bnb_int8", "bitsandbytes, int8; activations stay in float32"},
      {"bnb_fp4_double", "bitsandbytes, fp4, blocks of 64, double quantisation"},
      {"ct_int4_asym_g32", "compressed-tensors, 4 bits, groups of 32, zero points"},
      {"ct_fp8_tensor", "compressed-tensors, float8 e4m3, one scale"},
      {"ct_w8a8", "compressed-tensors, int8, a scale per output; activations stay in float32"},
      {"ct_nvfp4a16", "compressed-tensors, nvfp4, blocks of 16"},
      {"ct_nvfp4",
       "compressed-tensors, nvfp4, blocks of 16; activations stay in float32, their scales have no effect; keys and "
       "values stay as --kv says"},
      {"ct_mxfp4", "compressed-tensors, mxfp4, blocks of 32"},
      {"ct_mxfp8", "compressed-tensors, float8 e4m3, groups of 32"},
      {"hqq_3bit", "hqq, 3 bits, groups of 32"},
      {"hqq_2bit_axis_0", "hqq, 2 bits, groups of 32 along the outputs"},
      {"modelopt_fp8", "modelopt, float8 e4m3, one scale; activations stay in float32, their scales have no effect"},
      {"modelopt_nvfp4_file",
       "modelopt, nvfp4, blocks of 16; activations stay in float32, their scales have no effect; keys and values stay "
       "as --kv says"},
      {"fp8_blocks", "fp8, float8 e4m3, blocks of 48 x 32; activations stay in float32"},
      {"mxfp4", "mxfp4, blocks of 32"},
  };
  for (const auto& [name, variant] : names) {
    const ModelFiles files = load_checkpoint(kQuantizedCases / name);
    for (const TensorInfo& tensor : files.tensors->tensors()) {
      if (tensor.decoder) BOOST_TEST(tensor.decoder->name() == variant);
    }
  }
}

BOOST_AUTO_TEST_CASE(sizes_are_those_of_the_parts) {
  const ModelFiles files = load_checkpoint(kQuantizedCases / "gptq_g32");
  const QuantizedCase stored("gptq_g32");
  const std::string module = "model.layers.0.mlp.down_proj";
  std::uint64_t bytes = 0;
  for (const char* part : {".qweight", ".qzeros", ".scales", ".g_idx"})
    bytes += stored.file.tensors.at(module + part).bytes.size();
  const TensorInfo* tensor = files.tensors->find(module + ".weight");
  BOOST_REQUIRE(tensor);
  BOOST_TEST(tensor->end - tensor->begin == bytes);
  BOOST_TEST(dtype_name(tensor->dtype) == "quantised");
  BOOST_TEST(files.tensors->where(*tensor) == "model.safetensors: " + module + ".qweight");
  BOOST_TEST(files.tensors->find(module + ".qzeros") == nullptr);
}

// GPT-2 stores [inputs, outputs], but its head [outputs, inputs].
BOOST_AUTO_TEST_CASE(conv1d_layers_are_transposed_and_a_head_is_not) {
  const Scratch scratch;
  const std::string layer = "transformer.h.0.attn.c_attn";
  const Checkpoint checkpoint = changed_checkpoint(scratch, "gptq_conv1d", [&](QuantizedCase& c) {
    for (const std::string part : {".qweight", ".qzeros", ".scales", ".g_idx"})
      c.file.tensors["lm_head" + part] = c.tensor(layer + part);
  });
  const std::vector<std::uint64_t> conv = {64, 192}, linear = {192, 64};
  BOOST_TEST(checkpoint.find(layer + ".weight")->shape == conv);
  BOOST_TEST(checkpoint.find("lm_head.weight")->shape == linear);
  const std::vector<float> of_layer = values_of(checkpoint, layer + ".weight"),
                           of_head = values_of(checkpoint, "lm_head.weight");
  for (std::size_t i = 0; i < 64; ++i)
    for (std::size_t o = 0; o < 192; ++o) BOOST_REQUIRE(of_layer[i * 192 + o] == of_head[o * 64 + i]);
}

BOOST_AUTO_TEST_CASE(members_that_are_not_read_are_listed) {
  const auto unread = [](const std::string& name) {
    const ModelFiles files = load_checkpoint(kQuantizedCases / name);
    std::vector<std::string> out;
    for (const std::string& each : files.config->unread())
      if (each.find("quantization_config") != each.npos) out.push_back(each.substr(each.rfind(' ') + 1));
    return out;
  };
  const std::vector<std::string> gptq = {"quantization_config.damp_percent", "quantization_config.lm_head",
                                         "quantization_config.static_groups", "quantization_config.sym",
                                         "quantization_config.true_sequential"};
  BOOST_TEST(unread("gptq_g32") == gptq, boost::test_tools::per_element());
  const std::vector<std::string> mxfp4 = {"quantization_config.modules_to_not_convert"};
  BOOST_TEST(unread("mxfp4") == mxfp4, boost::test_tools::per_element());
  const std::vector<std::string> nested = unread("ct_w8a8");  // objects that are read in part
  for (const char* name : {"quantization_config.ignore", "quantization_config.config_groups.group_0.targets",
                           "quantization_config.config_groups.group_0.input_activations.num_bits"})
    BOOST_TEST((std::find(nested.begin(), nested.end(), name) != nested.end()), name);
}

BOOST_AUTO_TEST_CASE(what_is_no_quantised_checkpoint_is_refused) {
  const Damage damages[] = {
      {"gptq_g32",
       [](auto& c) { c.quantization()["quant_method"] = "exl3"; },
       {"config.json: quantization_config.quant_method", "\"exl3\"", "gptq", "compressed-tensors", "original"}},
      {"gptq_g32",
       [](auto& c) { c.quantization().erase("quant_method"); },
       {"config.json: quantization_config.quant_method", "missing"}},
      {"gptq_g32", [](auto& c) { c.quantization()["quant_method"] = 4; }, {"quant_method", "string"}},
      {"gptq_g32", [](auto& c) { c.config["quantization_config"] = "gptq"; }, {"quantization_config", "object"}},
      {"gptq_g32",
       [](auto& c) { c.quantization()["quant_method"] = "bitsandbytes"; },
       {"quantization_config.quant_method", "has no matrix", "delete quantization_config"}},
      {"gptq_g32",
       [](auto& c) { c.config.erase("quantization_config"); },
       {"model.safetensors", "self_attn.q_proj.weight is missing"}},
      {"bnb_int8", [](auto& c) { c.config.erase("quantization_config"); }, {"q_proj.weight", "dtype I8"}},
      {"gptq_g32",
       [](auto& c) { c.file.metadata["tenon.weights"] = "int8"; },
       {"quant_method", "quantised by tenon", "delete"}},
      {"gptq_g32", [](auto& c) { c.config["hidden_size"] = 128; }, {"model.safetensors", "has shape", "needs"}},
  };
  check_refused(damages);
}

BOOST_AUTO_TEST_SUITE_END()
