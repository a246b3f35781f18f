// compressed-tensors and fp8: variants of the files, and damaged ones. quantized.cpp compares the values with the
// library.
#include "tenon/checkpoint/compressed_tensors.h"

#include <boost/test/unit_test.hpp>
#include <limits>

#include "quantized_case.h"

BOOST_AUTO_TEST_SUITE(checkpoint_compressed_tensors)

using namespace tenon;
using namespace tenon::test;

namespace {

const std::string kQuery = "model.layers.0.self_attn.q_proj", kScale = kQuery + ".weight_scale";
constexpr std::uint16_t kHalfNan = 0x7e00;

nlohmann::json& scheme(QuantizedCase& c) { return c.quantization()["config_groups"]["group_0"]; }

std::vector<float> query(const std::string& name, const std::function<void(QuantizedCase&)>& change) {
  const Scratch scratch;
  return values_of(changed_checkpoint(scratch, name, change), kQuery + ".weight");
}
void unchanged(QuantizedCase&) {}

// The columns of scales in the other order, and for each input the column that it then needs.
void swap_groups(QuantizedCase& c, bool unset) {
  auto& scales = c.tensor(kScale);  // [64, 2], F16
  if (!unset) {
    for (std::size_t row = 0; row < 64; ++row)
      std::swap_ranges(scales.bytes.data() + row * 4, scales.bytes.data() + row * 4 + 2,
                       scales.bytes.data() + row * 4 + 2);
  }
  std::vector<std::int32_t> groups(64);
  for (std::size_t i = 0; i < 64; ++i) groups[i] = unset ? -1 : i < 32 ? 1 : 0;
  c.file.add(kQuery + ".weight_g_idx", DType::i32, {64}, groups);
}

}  // namespace

BOOST_AUTO_TEST_CASE(indices_give_the_groups_of_inputs) {
  const std::vector<float> plain = query("ct_int4_g32", unchanged);
  BOOST_TEST(query("ct_int4_g32", [](QuantizedCase& c) { swap_groups(c, false); }) == plain);
  BOOST_TEST(query("ct_int4_g32", [](QuantizedCase& c) { swap_groups(c, true); }) == plain);
  BOOST_TEST(mentions(refusal_of("ct_int4_g32",
                                 [](QuantizedCase& c) {
                                   swap_groups(c, false);
                                   c.tensor(kQuery + ".weight_g_idx").put(9, std::int32_t{2});
                                 }),
                      {kQuery + ".weight_g_idx", "group 2", "2 groups"}));
}

BOOST_AUTO_TEST_CASE(ignored_modules_stay_floats) {
  const std::vector<float> plain = query("ct_fp8_tensor", unchanged);
  const std::vector<float> floats = query("ct_fp8_tensor", [&](QuantizedCase& c) {
    c.quantization()["ignore"] = {"lm_head", kQuery};
    c.file.tensors.erase(kScale);
    c.file.add(kQuery + ".weight", DType::f32, {64, 64}, plain);
  });
  BOOST_TEST(floats == plain);
}

BOOST_AUTO_TEST_CASE(blocks_may_be_a_string) {
  const auto text = [](QuantizedCase& c) { scheme(c)["weights"]["block_structure"] = "32x48"; };
  BOOST_TEST(query("ct_fp8_block", text) == query("ct_fp8_block", unchanged));
  for (const std::string wrong : {"32x", "32x48x2", "x", "32x-48", "3200000000000x48"}) {
    const auto change = [&](QuantizedCase& c) { scheme(c)["weights"]["block_structure"] = wrong; };
    BOOST_TEST(mentions(refusal_of("ct_fp8_block", change), {"weights.block_structure"}), wrong);
  }
}

BOOST_AUTO_TEST_CASE(fp8_may_have_one_scale) {
  const std::vector<float> plain = query("ct_fp8_tensor", unchanged);
  const auto as_fp8 = [](QuantizedCase& c) {
    c.quantization() = {{"quant_method", "fp8"}, {"activation_scheme", "dynamic"}};
  };
  BOOST_TEST(query("ct_fp8_tensor", as_fp8) == plain);
}

// Scales of activations and of the cache have no effect, and are no tensors of the model.
BOOST_AUTO_TEST_CASE(fixed_scales_of_float_activations_have_no_effect) {
  const auto fixed = [](QuantizedCase& c) {
    if (c.quantization().contains("config_groups"))
      scheme(c)["input_activations"] = {{"num_bits", 8}, {"type", "float"}, {"dynamic", false}, {"strategy", "tensor"}};
    else
      c.quantization()["activation_scheme"] = "static";
    c.quantization()["kv_cache_scheme"] = {{"num_bits", 8}, {"type", "float"}};
    for (const char* name : {".input_scale", ".activation_scale"})
      c.file.add(kQuery + name, DType::f32, {1}, std::vector<float>{0.5f});
    for (const char* name : {"k_scale", "v_scale"})
      c.file.add(std::string("model.layers.0.self_attn.") + name, DType::f32, {1}, std::vector<float>{0.5f});
  };
  for (const char* name : {"ct_fp8_tensor", "fp8_blocks"}) {
    BOOST_TEST(query(name, fixed) == query(name, unchanged));
    const Scratch scratch;
    QuantizedCase changed(name);
    fixed(changed);
    changed.write(scratch.folder());
    const ModelFiles files = load_checkpoint(scratch.folder());
    BOOST_TEST(load_whole(files).empty());
    BOOST_TEST(
        files.tensors->find(kQuery + ".weight")
            ->decoder->name()
            .ends_with(
                "; activations stay in float32, their scales have no effect; keys and values stay as --kv says"));
  }
}

// value = code * (scale / global).
BOOST_AUTO_TEST_CASE(scales_of_nvfp4) {
  const std::string packed = kQuery + ".weight_packed", global = kQuery + ".weight_global_scale";
  const std::vector<float> values = query("ct_nvfp4a16", [&](QuantizedCase& c) {
    c.tensor(packed).put(0, std::uint8_t{0xf3});  // 1.5, then -6
    c.tensor(kScale).put(0, std::uint8_t{0x3c});  // 1.5
    c.tensor(global).put(0, 3.0f);
  });
  BOOST_TEST(values[0] == 0.75f);
  BOOST_TEST(values[1] == -3.0f);
  const Damage damages[] = {
      {"ct_nvfp4a16", [&](auto& c) { c.tensor(global).put(0, 0.0f); }, {packed, "not finite"}},
      {"ct_nvfp4a16", [&](auto& c) { c.file.tensors.erase(global); }, {global + " is missing"}},
      {"ct_nvfp4a16",
       [&](auto& c) { c.file.add(global, DType::f32, {2}, std::vector<float>(2)); },
       {global, "one number"}},
      {"ct_nvfp4a16", [&](auto& c) { c.tensor(global).dtype = DType::i32; }, {global, "dtype I32", "F32"}},
      {"ct_nvfp4a16", [&](auto& c) { c.tensor(kScale).put(5, std::uint8_t{0x7f}); }, {packed, "not finite"}},
      {"ct_nvfp4a16", [&](auto& c) { c.tensor(kScale).dtype = DType::u8; }, {kScale, "dtype U8", "F8_E4M3"}},
      {"ct_nvfp4a16",
       [&](auto& c) {
         c.tensor(kScale).shape = {4, 64};
       },
       {kScale, "has shape [4, 64], needs [64, 4]"}},
      {"ct_nvfp4a16",
       [&](auto& c) {
         c.tensor(packed).shape = {256, 8};
         c.tensor(kScale).shape = {256, 1};
       },
       {"has shape", "needs"}},
      {"ct_nvfp4a16",
       [&](auto& c) {
         c.tensor(packed).shape = {512, 4};
       },
       {packed, "8 inputs", "multiple of 16"}},
      {"ct_mxfp4", [&](auto& c) { c.tensor(kScale).put(3, std::uint8_t{255}); }, {packed, "not finite"}},
      {"ct_mxfp4", [&](auto& c) { c.tensor(kScale).dtype = DType::f8_e4m3; }, {kScale, "dtype F8_E4M3", "U8"}},
      {"ct_mxfp4", [&](auto& c) { c.file.tensors.erase(kScale); }, {kScale + " is missing"}},
      {"ct_mxfp8", [&](auto& c) { c.tensor(kScale).put(3, std::uint8_t{255}); }, {kQuery + ".weight", "not finite"}},
      {"ct_mxfp8", [&](auto& c) { scheme(c)["weights"].erase("scale_dtype"); }, {".weight_scale", "dtype U8"}},
      {"ct_mxfp4",
       [&](auto& c) {
         scheme(c)["weights"] = {{"type", "int"}, {"num_bits", 4}, {"strategy", "channel"}};
       },
       {".weight_packed", "floats of 4 bits", "config_groups"}},
  };
  check_refused(damages);
}

BOOST_AUTO_TEST_CASE(variants_that_change_the_output_are_refused) {
  const Damage damages[] = {
      {"ct_int4_g32",
       [](auto& c) { c.quantization()["format"] = "mxfp6-pack-quantized"; },
       {"quantization_config.format", "mxfp6", "nvfp4-pack-quantized"}},
      {"ct_int4_g32",
       [](auto& c) { c.quantization()["quantization_status"] = "calibration"; },
       {"quantization_status", "calibration", "compressed"}},
      {"ct_int4_g32",
       [](auto& c) {
         c.quantization()["transform_config"] = {{"config_groups", {{"u", 1}}}};
       },
       {"transform_config", "changes the output"}},
      {"ct_int4_g32",
       [](auto& c) {
         c.quantization()["sparsity_config"] = {{"format", "sparse-24-bitmask"}};
       },
       {"sparsity_config.format", "sparse-24-bitmask"}},
      {"ct_int4_g32", [](auto& c) { scheme(c)["weights"]["num_bits"] = 3; }, {"weights.num_bits", "3"}},
      {"ct_int4_g32",
       [](auto& c) { scheme(c)["weights"]["strategy"] = "tensor_group"; },
       {"weights.strategy", "tensor_group"}},
      {"ct_int4_g32", [](auto& c) { scheme(c)["weights"]["dynamic"] = true; }, {"weights.dynamic"}},
      {"ct_int4_g32", [](auto& c) { scheme(c)["format"] = "marlin-24"; }, {"group_0.format", "marlin-24"}},
      {"ct_nvfp4", [](auto& c) { scheme(c)["weights"]["group_size"] = 32; }, {"weights.group_size", "32", "16 is"}},
      {"ct_mxfp4", [](auto& c) { scheme(c)["weights"]["group_size"] = 16; }, {"weights.group_size", "16", "32 is"}},
      {"ct_mxfp4", [](auto& c) { scheme(c)["weights"]["strategy"] = "channel"; }, {"weights.strategy", "channel"}},
      {"ct_mxfp4", [](auto& c) { scheme(c)["weights"]["symmetric"] = false; }, {"weights.symmetric", "floats"}},
      {"ct_w8a8",
       [](auto& c) { scheme(c)["input_activations"]["dynamic"] = false; },
       {"input_activations.dynamic", "fixed scales"}},
      {"ct_w8a8",
       [](auto& c) {
         scheme(c)["output_activations"] = {{"num_bits", 8}};
       },
       {"output_activations"}},
      {"fp8_blocks", [](auto& c) { c.quantization()["activation_scheme"] = "fixed"; }, {"activation_scheme", "fixed"}},
      {"fp8_blocks", [](auto& c) { c.quantization()["fmt"] = "e5m2"; }, {"fmt", "e5m2"}},
  };
  check_refused(damages);
}

BOOST_AUTO_TEST_CASE(damaged_files_are_refused) {
  const std::string packed = kQuery + ".weight_packed", dims = kQuery + ".weight_shape",
                    zeros = kQuery + ".weight_zero_point";
  const Damage damages[] = {
      {"ct_int4_g32", [&](auto& c) { c.tensor(dims).put(0, std::int64_t{65}); }, {dims, "[65, 64]", "[64, 8]"}},
      {"ct_int4_g32", [&](auto& c) { c.tensor(dims).put(1, std::int64_t{-1}); }, {dims}},
      {"ct_int4_g32", [&](auto& c) { c.tensor(dims).put(1, std::int64_t{1} << 40); }, {dims}},
      {"ct_int4_g32", [&](auto& c) { c.tensor(dims).put(1, std::int64_t{72}); }, {packed, "[64, 8]", "num_bits"}},
      {"ct_int4_g32", [&](auto& c) { c.tensor(dims).put(1, std::int64_t{63}); }, {kScale, "no scheme", "[64, 63]"}},
      {"ct_int4_g32", [&](auto& c) { c.tensor(dims).dtype = DType::f64; }, {dims, "dtype F64"}},
      {"ct_int4_g32", [&](auto& c) { c.file.tensors.erase(dims); }, {dims + " is missing"}},
      // Without these, matrices would decode to something else.
      {"ct_int4_g32", [&](auto& c) { scheme(c)["weights"]["symmetric"] = false; }, {"weight_zero_point", "missing"}},
      {"ct_int4_g32", [&](auto& c) { scheme(c)["weights"]["actorder"] = "group"; }, {"weight_g_idx", "missing"}},
      {"ct_int4_g32", [&](auto& c) { scheme(c)["weights"]["actorder"] = "random"; }, {"weights.actorder"}},
      {"ct_int4_g32",
       [&](auto& c) {
         c.tensor(kScale).shape = {2, 64};
       },
       {kScale, "[2, 64]", "no scheme"}},
      {"ct_int4_g32", [&](auto& c) { scheme(c)["weights"]["group_size"] = 16; }, {"weight_scale", "no scheme"}},
      {"ct_int4_g32", [&](auto& c) { scheme(c)["weights"]["group_size"] = 0; }, {"weights.group_size"}},
      {"ct_int4_g32", [&](auto& c) { c.tensor(kScale).put(0, kHalfNan); }, {packed, "not finite"}},
      {"ct_int4_g32", [&](auto& c) { c.file.tensors.erase(kScale); }, {kScale + " is missing"}},
      {"ct_int4_g32",
       [&](auto& c) {
         c.quantization()["config_groups"] = {{"W4A16", {"Linear"}}};
       },
       {"config_groups.W4A16", "object"}},
      {"ct_int4_g32", [&](auto& c) { c.quantization().erase("config_groups"); }, {"config_groups", "missing"}},
      {"ct_int4_asym_g32",
       [&](auto& c) {
         c.tensor(zeros).shape = {16, 1};
       },
       {zeros, "has shape [16, 1]", "[8, 2]"}},
      {"ct_int4_asym_g32", [&](auto& c) { c.tensor(zeros).dtype = DType::f32; }, {zeros, "dtype F32", "I8"}},
      {"ct_int4_asym_plain_zeros", [&](auto& c) { c.tensor(zeros).shape = {64}; }, {zeros, "has shape [64]"}},
      {"ct_w8a8", [&](auto& c) { c.file.tensors.erase(kScale); }, {kScale + " is missing"}},
      {"ct_fp8_dynamic",
       [&](auto& c) { c.tensor(kQuery + ".weight").bytes[5] = std::byte{0x7f}; },
       {kQuery + ".weight", "no finite number"}},
      {"ct_fp8_block",
       [&](auto& c) {
         scheme(c)["weights"]["block_structure"] = {0, 48};
       },
       {"block_structure"}},
      {"ct_w8a8", [&](auto& c) { scheme(c)["input_activations"]["dynamic"] = 3; }, {"dynamic", "local"}},
      {"ct_fp8_block",
       [&](auto& c) {
         scheme(c)["weights"]["block_structure"] = {16, 48};
       },
       {"weight_scale", "no scheme"}},
      {"fp8_blocks", [&](auto& c) { c.file.tensors.erase(kScale + "_inv"); }, {kScale + " is missing"}},
      {"fp8_blocks",
       [&](auto& c) { c.tensor(kScale + "_inv").put(0, std::numeric_limits<float>::infinity()); },
       {kQuery + ".weight", "not finite"}},
  };
  check_refused(damages);
}

BOOST_AUTO_TEST_SUITE_END()
