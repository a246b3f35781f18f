// AutoRound: variants of the files, and damaged ones. quantized.cpp compares the values with the library.
#include "tenon/checkpoint/auto_round.h"

#include <boost/test/unit_test.hpp>

#include "quantized_case.h"

BOOST_AUTO_TEST_SUITE(checkpoint_auto_round)

using namespace tenon;
using namespace tenon::test;

namespace {

const std::string kQuery = "model.layers.0.self_attn.q_proj";

std::vector<float> query(const std::string& name, const std::function<void(QuantizedCase&)>& change) {
  const Scratch scratch;
  return values_of(changed_checkpoint(scratch, name, change), kQuery + ".weight");
}
void unchanged(QuantizedCase&) {}
auto option(const char* key, nlohmann::json value) {
  return [=](QuantizedCase& c) { c.quantization()[key] = value; };
}

}  // namespace

BOOST_AUTO_TEST_CASE(names_of_the_method_and_of_the_packing) {
  const std::vector<float> plain = query("ar_gptq_3bit_asym", unchanged);
  BOOST_TEST(query("ar_gptq_3bit_asym", option("quant_method", "intel/auto-round")) == plain);
  BOOST_TEST(query("ar_gptq_3bit_asym", option("packing_format", "auto_round:gptq")) == plain);
  BOOST_TEST(query("ar_gptq_3bit_asym", option("packing_format", nullptr)) == plain);
  BOOST_TEST(query("ar_gptq_3bit_asym", option("packing_format", "auto_round")) != plain);  // zero points as they are
  BOOST_TEST(query("ar_awq", option("packing_format", "auto_round:awq")) == query("ar_awq", unchanged));
}

// The tensors of GPTQ and AWQ under their own names have the same values.
BOOST_AUTO_TEST_CASE(files_are_those_of_gptq_and_awq) {
  const auto as = [](const char* method, nlohmann::json more) {
    return [=](QuantizedCase& c) {
      nlohmann::json config = {{"quant_method", method}, {"bits", c.quantization()["bits"]}, {"group_size", 32}};
      config.update(more);
      c.quantization() = config;
    };
  };
  BOOST_TEST(query("ar_gptq_3bit_asym", as("gptq", {{"sym", false}})) == query("ar_gptq_3bit_asym", unchanged));
  const nlohmann::json rules = {
      {"dynamic",
       {{"+:.*down_proj", {{"bits", 8}, {"group_size", -1}}}, {"+:.*q_proj", {{"bits", 2}, {"group_size", 16}}}}}};
  BOOST_TEST(query("ar_gptq_mixed", as("gptq", rules)) == query("ar_gptq_mixed", unchanged));
}

BOOST_AUTO_TEST_CASE(rules_for_floats_have_no_effect) {
  const auto rules = [](QuantizedCase& c) {
    c.quantization()["extra_config"] = {{"lm_head", {{"bits", 16}, {"data_type", "float"}}}, {".*gate", nullptr}};
  };
  BOOST_TEST(query("ar_gptq_3bit_asym", rules) == query("ar_gptq_3bit_asym", unchanged));
}

BOOST_AUTO_TEST_CASE(what_is_not_read_is_refused) {
  const auto rule = [](nlohmann::json value) { return option("extra_config", {{".*up_proj", value}}); };
  const Damage damages[] = {
      {"ar_gptq_mixed", option("bits", nullptr), {"quantization_config.bits", "integer"}},
      {"ar_gptq_mixed", option("bits", 9), {"quantization_config.bits", "9", "7 and 8"}},
      {"ar_gptq_mixed", option("bits", 16), {".qweight", "no number of bits"}},
      {"ar_gptq_mixed", option("extra_config", nullptr), {"down_proj", "has shape", "needs"}},
      {"ar_gptq_mixed", option("extra_config", 4), {"extra_config", "object"}},
      {"ar_gptq_mixed", option("group_size", 0), {"quantization_config.group_size", "0"}},
      {"ar_gptq_mixed", option("data_type", "mx_fp"), {"data_type", "mx_fp", "int"}},
      {"ar_gptq_mixed", option("act_bits", 8), {"act_bits", "activations"}},
      {"ar_gptq_mixed", rule({{"act_bits", 4}}), {"extra_config", "up_proj", "act_bits"}},
      {"ar_gptq_mixed", rule({{"bits", 1}}), {"extra_config", "up_proj", "bits", "1"}},
      {"ar_gptq_mixed",
       option("rotation_config", {{"hadamard_type", "random"}}),
       {"rotation_config", "changes the output"}},
      {"ar_gptq_mixed",
       option("packing_format", "auto_round:llm_compressor"),
       {"packing_format", "llm_compressor", "auto_round:auto_gptq"}},
      {"ar_gptq_mixed", option("packing_format", "auto_round:auto_awq"), {"bits", "8", "4 is"}},
      {"ar_awq", option("packing_format", "auto_round:auto_gptq"), {".scales", "has shape"}},
      {"ar_awq", [](auto& c) { c.file.tensors.erase(kQuery + ".scales"); }, {kQuery + ".scales is missing"}},
      {"ar_5bit_asym",
       [](auto& c) {
         auto& tensor = c.tensor(kQuery + ".qzeros");
         tensor.shape = {tensor.shape[0] * tensor.shape[1]};
       },
       {kQuery + ".qzeros", "needs that of a matrix"}},
  };
  check_refused(damages);
}

BOOST_AUTO_TEST_SUITE_END()
