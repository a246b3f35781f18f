// ModelOpt: variants of the files, and damaged ones. quantized.cpp compares the values with the library.
#include "tenon/checkpoint/modelopt.h"

#include <boost/test/unit_test.hpp>
#include <cmath>

#include "quantized_case.h"

BOOST_AUTO_TEST_SUITE(checkpoint_modelopt)

using namespace tenon;
using namespace tenon::test;

namespace {

const std::string kQuery = "model.layers.0.self_attn.q_proj", kScale = kQuery + ".weight_scale";

std::vector<float> query(const std::string& name, const std::function<void(QuantizedCase&)>& change) {
  const Scratch scratch;
  return values_of(changed_checkpoint(scratch, name, change), kQuery + ".weight");
}
void unchanged(QuantizedCase&) {}

nlohmann::json nested(nlohmann::json quantization) {
  return {{"quant_method", "modelopt"}, {"quantization", std::move(quantization)}};
}

}  // namespace

// value = code * (scale * weight_scale_2), and no code is -0.
BOOST_AUTO_TEST_CASE(scales_of_nvfp4) {
  const std::vector<float> values = query("modelopt_nvfp4", [&](QuantizedCase& c) {
    c.tensor(kQuery + ".weight").put(0, std::uint8_t{0xf3});  // 1.5, then -6
    c.tensor(kQuery + ".weight").put(1, std::uint8_t{0x08});  // -0, then 0
    c.tensor(kScale).put(0, std::uint8_t{0x3c});              // 1.5
    c.tensor(kQuery + ".weight_scale_2").put(0, 2.0f);
  });
  BOOST_TEST(values[0] == 4.5f);
  BOOST_TEST(values[1] == -18.0f);
  BOOST_TEST(!std::signbit(values[2]));
}

BOOST_AUTO_TEST_CASE(both_forms_of_the_config) {
  const auto form = [](nlohmann::json config) { return [=](QuantizedCase& c) { c.quantization() = config; }; };
  const nlohmann::json nvfp4 = {{"quant_algo", "NVFP4"}, {"group_size", 16}, {"kv_cache_quant_algo", "FP8"}};
  BOOST_TEST(query("modelopt_nvfp4", form(nested(nvfp4))) == query("modelopt_nvfp4", unchanged));
  BOOST_TEST(query("modelopt_fp8", form(nested({{"quant_algo", "FP8"}}))) == query("modelopt_fp8", unchanged));
  const nlohmann::json layers = {{"a", {{"quant_algo", "FP8"}}}, {"b", {{"quant_algo", "NVFP4"}, {"group_size", 16}}}};
  const nlohmann::json mixed = {{"quant_algo", "MIXED_PRECISION"}, {"quantized_layers", layers}};
  for (const char* name : {"modelopt_nvfp4", "modelopt_fp8"})
    BOOST_TEST(query(name, form(nested(mixed))) == query(name, unchanged));
}

BOOST_AUTO_TEST_CASE(a_separate_file_names_the_method) {
  const auto load = [](const char* text) {
    const Scratch scratch;
    QuantizedCase changed("modelopt_nvfp4_file");
    changed.config.erase("quantization_config");
    changed.write(scratch.folder());
    std::ofstream(scratch / "hf_quant_config.json") << text;
    return refusal([&] { load_whole(load_checkpoint(scratch.folder())); });
  };
  BOOST_TEST(load(R"({"quantization": {"quant_algo": "NVFP4", "group_size": 16}})") == "accepted");
  BOOST_TEST(mentions(load(R"({"quantization": {"quant_algo": "W4A8_AWQ"}})"),
                      {"hf_quant_config.json: quantization.quant_algo", "W4A8_AWQ", "NVFP4"}));
  BOOST_TEST(mentions(load("[]"), {"hf_quant_config.json", "object"}));
  BOOST_TEST(mentions(load("{"), {"hf_quant_config.json"}));
  BOOST_TEST(mentions(load(R"({"quant_method": "exl3"})"), {"hf_quant_config.json: quant_method", "exl3"}));
}

BOOST_AUTO_TEST_CASE(what_is_not_read_is_refused) {
  const auto algorithm = [](const char* key, nlohmann::json value) {
    return [=](QuantizedCase& c) { c.quantization()[key] = value; };
  };
  const Damage damages[] = {
      {"modelopt_nvfp4", algorithm("quant_algo", "NVFP4_AWQ"), {"quantization_config.quant_algo", "NVFP4_AWQ", "FP8"}},
      {"modelopt_nvfp4", algorithm("quant_algo", nullptr), {"quantization_config.quant_algo", "string"}},
      {"modelopt_nvfp4", algorithm("quant_algo", "FP8"), {".weight", "floats of 4 bits", "quant_algo"}},
      {"modelopt_nvfp4", algorithm("group_size", 32), {"group_size", "16"}},
      {"modelopt_nvfp4", algorithm("quantized_layers", 3), {"quantized_layers", "object"}},
      {"modelopt_fp8", [](auto& c) { c.file.tensors.erase(kScale); }, {kScale + " is missing"}},
      {"modelopt_fp8",
       [](auto& c) { c.file.add(kQuery + ".pre_quant_scale", DType::f32, {64}, std::vector<float>(64)); },
       {kQuery + ".pre_quant_scale", "scales activations"}},
      {"modelopt_nvfp4",
       [](auto& c) { c.file.tensors.erase(kQuery + ".weight_scale_2"); },
       {kQuery + ".weight_scale_2 is missing"}},
      {"modelopt_nvfp4",
       [](auto& c) { c.tensor(kQuery + ".weight_scale_2").put(0, std::uint32_t{0x7fc00000}); },
       {kQuery + ".weight", "not finite"}},
      {"modelopt_nvfp4", [](auto& c) { c.tensor(kScale).dtype = DType::u8; }, {kScale, "dtype U8", "F8_E4M3"}},
  };
  check_refused(damages);
}

BOOST_AUTO_TEST_SUITE_END()
