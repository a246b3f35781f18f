// GPTQ and AWQ: variants of the files, and damaged ones. quantized.cpp compares the values with the libraries.
#include "tenon/checkpoint/gptq.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>

#include "quantized_case.h"

BOOST_AUTO_TEST_SUITE(checkpoint_gptq)

using namespace tenon;
using namespace tenon::test;

namespace {

const std::string kQuery = "model.layers.0.self_attn.q_proj", kDown = "model.layers.0.mlp.down_proj";
constexpr std::uint16_t kHalfNan = 0x7e00, kHalfInfinity = 0x7c00;

std::vector<float> decoded(const std::string& name, const std::string& module,
                           const std::function<void(QuantizedCase&)>& change) {
  const Scratch scratch;
  return values_of(changed_checkpoint(scratch, name, change), module + ".weight");
}

void unchanged(QuantizedCase&) {}

// Adds 1 to each zero point, which is 7.
void add_one(QuantizedCase& c) {
  for (std::byte& each : c.tensor(kDown + ".qzeros").bytes)
    each = static_cast<std::byte>(std::to_integer<int>(each) + 0x11);
}

}  // namespace

BOOST_AUTO_TEST_CASE(groups_follow_from_the_size_where_indices_are_missing) {
  const auto without = [](QuantizedCase& c) { c.file.tensors.erase(kDown + ".g_idx"); };
  BOOST_TEST(decoded("gptq_g32", kDown, without) == decoded("gptq_g32", kDown, unchanged));
}

BOOST_AUTO_TEST_CASE(formats_differ_by_one_in_the_zero_points) {
  const std::vector<float> v1 = decoded("gptq_g32", kDown, unchanged);
  const std::vector<float> v2 = decoded("gptq_g32", kDown, [](QuantizedCase& c) {
    c.quantization()["checkpoint_format"] = "gptq_v2";
    add_one(c);
  });
  BOOST_TEST(v1 == v2);
  const auto renamed = [](QuantizedCase& c) {
    c.quantization().erase("checkpoint_format");
    c.quantization()["format"] = "gptq";
  };
  BOOST_TEST(decoded("gptq_g32", kDown, renamed) == v1);
}

// gptqmodel adds 1 to each zero point with one sum per word. So 15 becomes 0, and its neighbour one more.
BOOST_AUTO_TEST_CASE(a_carry_goes_to_the_next_zero_point) {
  const auto zeros = [&](std::uint32_t word, const char* format) {
    return decoded("gptq_g32", kDown, [&](QuantizedCase& c) {
      c.quantization()["checkpoint_format"] = format;
      if (format == std::string("gptq_v2")) add_one(c);
      c.tensor(kDown + ".qzeros").put(0, word);
    });
  };
  BOOST_TEST(zeros(0x7777777f, "gptq") == zeros(0x88888890, "gptq_v2"));
  BOOST_TEST(zeros(0xf7777777, "gptq") == zeros(0x08888888, "gptq_v2"));
}

// AutoGPTQ names no quantizer in the file. It adds 1 to a field by itself, so 15 becomes 16 and the next one is its
// own.
BOOST_AUTO_TEST_CASE(files_of_other_libraries_have_no_carry) {
  const auto zeros = [&](std::uint32_t word, const nlohmann::json& meta) {
    return decoded("gptq_g32", kDown, [&](QuantizedCase& c) {
      c.quantization()["meta"] = meta;
      c.tensor(kDown + ".qzeros").put(0, word);
    });
  };
  const nlohmann::json none, other = {{"quantizer", {"optimum:1.20.0"}}}, gptqmodel = {{"quantizer", "gptqmodel:1.0"}};
  const std::vector<float> usual = zeros(0x77777777, none);
  BOOST_TEST(usual == decoded("gptq_g32", kDown, unchanged));  // 8, by either rule
  BOOST_TEST(zeros(0x7777777f, gptqmodel) != zeros(0x7777777f, none));
  BOOST_TEST(zeros(0x7777777f, other) == zeros(0x7777777f, none));
  // Outputs 0 and 1, inputs 0 to 31: their scale s is that of 8 more codes.
  const std::vector<float> found = zeros(0x7777777f, none), one = zeros(0x77777776, none);
  const std::size_t inputs = usual.size() / 64;
  BOOST_TEST_REQUIRE(inputs == 96u);
  for (std::size_t i = 0; i < 32; ++i) {
    const float scale = one[i] - usual[i];
    BOOST_TEST(std::abs(usual[i] - found[i] - 8 * scale) <= 1e-5f * std::abs(8 * scale));
    BOOST_TEST(found[inputs + i] == usual[inputs + i]);
  }
}

BOOST_AUTO_TEST_CASE(rules_per_module_leave_the_bits_to_the_tensors) {
  const auto rules = [](QuantizedCase& c) {
    c.quantization()["bits"] = 4;
    c.quantization()["dynamic"] = {{"+:.*down_proj", {{"bits", 8}}}};
  };
  BOOST_TEST(decoded("gptq_8bit_g32", kDown, rules) == decoded("gptq_8bit_g32", kDown, unchanged));
  // Without indices the zero points show the bits, and the scales show the groups.
  const auto without = [&](QuantizedCase& c) {
    rules(c);
    c.quantization()["dynamic"]["+:.*q_proj"] = {{"group_size", 64}};
    c.file.tensors.erase(kDown + ".g_idx");
  };
  BOOST_TEST(decoded("gptq_8bit_g32", kDown, without) == decoded("gptq_8bit_g32", kDown, unchanged));
}

BOOST_AUTO_TEST_CASE(rules_that_do_not_fit_the_tensors_are_refused) {
  const auto rule = [](const char* key, int value) {
    return [=](QuantizedCase& c) {
      c.quantization()["dynamic"] = {{"+:.*down_proj", {{key, value}}}};
      c.file.tensors.erase(kQuery + ".g_idx");
    };
  };
  const auto both = [=](const char* key, int value, int other) {
    return [=](QuantizedCase& c) {
      c.quantization()[key] = other;
      rule(key, value)(c);
    };
  };
  const Damage damages[] = {
      {"gptq_g32", both("bits", 8, 2), {".qweight", "has shape", "no number of bits"}},
      {"gptq_g32", both("group_size", 48, 64), {".scales", "has shape", "no group_size"}},
      {"gptq_g32", both("group_size", 48, 40), {kQuery + ".scales", "groups of 40 or 48"}},
      {"gptq_g32", rule("bits", 7), {"dynamic", ".bits", "7 is not supported"}},
      {"gptq_g32", rule("group_size", 0), {"dynamic", ".group_size", "is 0"}},
      {"gptq_g32",
       [&](auto& c) {  // of 8 outputs, where words of 2 and of 4 bits are as many
         rule("bits", 2)(c);
         for (const std::string part : {".qweight", ".scales", ".qzeros"}) {
           auto& tensor = c.tensor(kQuery + part);
           tensor.bytes.resize(tensor.bytes.size() / 8);
           tensor.shape[1] /= 8;
         }
       },
       {kQuery + ".qweight", "may have 2 or 4 bits"}},
  };
  check_refused(damages);
}

// gptqmodel has one sum per word for 2 bits, and one per zero point for 3: there 7 becomes 0, and its neighbour stays.
BOOST_AUTO_TEST_CASE(zero_points_of_2_and_3_bits_wrap_as_in_the_library) {
  const auto zeros = [&](const char* name, std::uint32_t word, const nlohmann::json& meta,
                         const char* format = "gptq") {
    return decoded(name, kDown, [&](QuantizedCase& c) {
      c.quantization()["meta"] = meta;
      c.quantization()["checkpoint_format"] = format;
      if (format == std::string("gptq_v2"))
        for (std::byte& each : c.tensor(kDown + ".qzeros").bytes) each = std::byte{0xaa};  // 2 each
      c.tensor(kDown + ".qzeros").put(0, word);
    });
  };
  const nlohmann::json none, gptqmodel = {{"quantizer", "gptqmodel:7.7.0"}};
  BOOST_TEST(zeros("gptq_2bit_g32", 0x55555557, gptqmodel) == zeros("gptq_2bit_g32", 0xaaaaaaac, none, "gptq_v2"));
  const std::vector<float> usual = zeros("gptq_3bit_g32", 0xdb6db6db, none);
  const std::vector<float> wrapped = zeros("gptq_3bit_g32", 0xdb6db6df, gptqmodel),
                           kept = zeros("gptq_3bit_g32", 0xdb6db6df, none);
  for (std::size_t i = 0; i < 32; ++i) {
    BOOST_TEST(wrapped[96 + i] == usual[96 + i]);
    BOOST_TEST(kept[96 + i] == usual[96 + i]);
  }
  // 0 in place of 4, and 8 in place of 4: as far apart, in both directions.
  for (std::size_t i = 0; i < 32; ++i)
    BOOST_TEST(std::abs(wrapped[i] + kept[i] - 2 * usual[i]) <= 1e-5f * std::abs(wrapped[i] - kept[i]));
  BOOST_TEST(wrapped[0] != kept[0]);
}

BOOST_AUTO_TEST_CASE(three_bits_need_whole_blocks) {
  const auto cut = [](const std::string& part, std::vector<std::uint64_t> shape) {
    return [=](QuantizedCase& c) {
      auto& tensor = c.tensor(kQuery + part);
      tensor.bytes.resize(tensor.bytes.size() / (tensor.shape[0] * tensor.shape.back()) * (shape[0] * shape.back()));
      tensor.shape = shape;
      if (part == ".qweight") c.file.tensors.erase(kQuery + ".g_idx");
    };
  };
  const Damage damages[] = {
      {"gptq_3bit_g32", cut(".qweight", {5, 64}), {kQuery + ".qweight", "53 inputs and 64 outputs", "multiples of 32"}},
      {"gptq_3bit_g32", cut(".qzeros", {2, 5}), {kQuery + ".qzeros", "has shape [2, 5], needs [2, 6]"}},
  };
  check_refused(damages);
}

// A file of 60 inputs: the last word of codes is not full.
BOOST_AUTO_TEST_CASE(inputs_may_end_within_a_word) {
  const std::vector<float> whole = decoded("gptq_g32", kDown, unchanged);
  const std::vector<float> cut = decoded("gptq_g32", kDown, [](QuantizedCase& c) {
    auto& g_idx = c.tensor(kDown + ".g_idx");
    g_idx.shape = {93};
    g_idx.bytes.resize(93 * sizeof(std::int32_t));
  });
  for (std::size_t output = 0; output < 64; ++output)
    for (std::size_t input = 0; input < 93; ++input)
      BOOST_REQUIRE(cut[output * 93 + input] == whole[output * 96 + input]);
}

BOOST_AUTO_TEST_CASE(unsupported_gptq_fields_are_refused) {
  const Damage damages[] = {
      {"gptq_g32", [](auto& c) { c.quantization()["bits"] = 5; }, {"quantization_config.bits", "5", "2, 3, 4 and 8"}},
      {"gptq_g32", [](auto& c) { c.quantization()["bits"] = "4"; }, {"quantization_config.bits", "integer"}},
      {"gptq_g32", [](auto& c) { c.quantization()["bits"] = 8; }, {".qweight", "has shape", "needs"}},
      {"gptq_g32",
       [](auto& c) { c.quantization()["checkpoint_format"] = "marlin"; },
       {"quantization_config.checkpoint_format", "marlin", "gptq_v2"}},
      {"gptq_g32", [](auto& c) { c.quantization()["format"] = "gptq_v2"; }, {"quantization_config.format", "agree"}},
      {"gptq_g32", [](auto& c) { c.quantization()["pack_dtype"] = "int16"; }, {"pack_dtype", "int16", "int32"}},
      {"gptq_g32", [](auto& c) { c.quantization()["rotation"] = "hadamard"; }, {"rotation", "changes the output"}},
      {"gptq_g32", [](auto& c) { c.quantization()["group_size"] = 0; }, {"group_size", "0"}},
      {"gptq_g32", [](auto& c) { c.quantization()["group_size"] = -2; }, {"group_size"}},
      {"gptq_g32",
       [](auto& c) {
         c.quantization()["group_size"] = 16;
         c.file.tensors.erase(kQuery + ".g_idx");
       },
       {kQuery + ".scales", "has shape", "needs"}},
  };
  check_refused(damages);
}

BOOST_AUTO_TEST_CASE(damaged_gptq_tensors_are_refused) {
  const Damage damages[] = {
      {"gptq_g64_act_order",
       [](auto& c) { c.file.tensors.erase(kQuery + ".g_idx"); },
       {"tensor " + kQuery + ".g_idx is missing", "quant_method"}},
      {"gptq_g64_act_order",
       [](auto& c) { c.tensor(kQuery + ".g_idx").put(5, std::int32_t{2}); },
       {kQuery + ".g_idx", "group 2", "2 groups"}},
      {"gptq_g64_act_order",
       [](auto& c) { c.tensor(kQuery + ".g_idx").put(5, std::int32_t{-1}); },
       {kQuery + ".g_idx", "group -1"}},
      {"gptq_g32",
       [](auto& c) {
         auto& g_idx = c.tensor(kQuery + ".g_idx");
         g_idx.shape = {32};
         g_idx.bytes.resize(32 * 4);
       },
       {kQuery + ".qweight", "has shape [8, 64], needs [4, 64]"}},
      {"gptq_g32",
       [](auto& c) {
         auto& g_idx = c.tensor(kQuery + ".g_idx");
         g_idx.shape = {8, 8};
       },
       {kQuery + ".g_idx", "has shape"}},
      {"gptq_g32", [](auto& c) { c.file.tensors.erase(kQuery + ".scales"); }, {kQuery + ".scales is missing"}},
      {"gptq_g32", [](auto& c) { c.file.tensors.erase(kQuery + ".qzeros"); }, {kQuery + ".qzeros is missing"}},
      {"gptq_g32",
       [](auto& c) {
         c.tensor(kQuery + ".qzeros").shape = {1, 16};
       },
       {kQuery + ".qzeros", "has shape"}},
      {"gptq_g32", [](auto& c) { c.tensor(kQuery + ".qweight").shape = {512}; }, {kQuery + ".qweight", "matrix"}},
      {"gptq_g32", [](auto& c) { c.tensor(kQuery + ".qweight").dtype = DType::f32; }, {"dtype F32", "I32"}},
      {"gptq_g32", [](auto& c) { c.tensor(kQuery + ".scales").put(7, kHalfNan); }, {kQuery + ".qweight", "not finite"}},
      {"gptq_g32",
       [](auto& c) { c.tensor(kQuery + ".scales").put(7, kHalfInfinity); },
       {kQuery + ".qweight", "not finite"}},
      {"gptq_g32",
       [](auto& c) { c.file.template add<float>(kQuery + ".weight", DType::f32, {1}, {1}); },
       {kQuery + ".qweight", "two forms", kQuery + ".weight"}},
      {"gptq_g32",
       [](auto& c) {
         c.file.template add<float>(kQuery + ".qweight", DType::f32, {0, 4}, {});
       },
       {kQuery + ".qweight", "has shape [0, 4]"}},
  };
  check_refused(damages);
}

// gptqmodel writes zero_point false for symmetric matrices, whose zero points it stores all the same.
BOOST_AUTO_TEST_CASE(zero_points_of_awq_are_those_of_the_file) {
  const auto symmetric = [](QuantizedCase& c) { c.quantization()["zero_point"] = false; };
  BOOST_TEST(decoded("awq_g32", kDown, symmetric) == decoded("awq_g32", kDown, unchanged));
}

BOOST_AUTO_TEST_CASE(damaged_awq_files_are_refused) {
  const Damage damages[] = {
      {"awq_g32", [](auto& c) { c.quantization()["format"] = "gemv_fast"; }, {"format", "gemv_fast", "gemm"}},
      {"awq_g32", [](auto& c) { c.quantization()["bits"] = 8; }, {"quantization_config.bits", "4"}},
      {"awq_g32", [](auto& c) { c.quantization()["version"] = "gemv"; }, {"version", "gemv", "gemm"}},
      {"awq_g32", [](auto& c) { c.quantization()["backend"] = "llm-awq"; }, {"backend", "llm-awq"}},
      {"awq_g32", [](auto& c) { c.quantization()["group_size"] = 48; }, {".scales", "has shape", "needs"}},
      {"awq_g32", [](auto& c) { c.quantization()["group_size"] = 64; }, {"group_size", "64"}},
      {"awq_g32",
       [](auto& c) {
         c.tensor(kQuery + ".qzeros").shape = {1, 16};
       },
       {kQuery + ".qzeros", "has shape"}},
      {"awq_g32",
       [](auto& c) {
         c.tensor(kQuery + ".scales").shape = {1, 128};
       },
       {kQuery + ".scales", "has shape"}},
      {"awq_g32", [](auto& c) { c.tensor(kQuery + ".scales").put(0, kHalfNan); }, {kQuery + ".qweight", "not finite"}},
      {"awq_g32", [](auto& c) { c.file.tensors.erase(kQuery + ".qzeros"); }, {kQuery + ".qzeros is missing"}},
  };
  check_refused(damages);
}

BOOST_AUTO_TEST_SUITE_END()
