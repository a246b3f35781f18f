// bitsandbytes: variants of the files, and damaged ones. quantized.cpp compares the values with the library.
#include "tenon/checkpoint/bitsandbytes.h"

#include <boost/test/unit_test.hpp>
#include <limits>

#include "quantized_case.h"

BOOST_AUTO_TEST_SUITE(checkpoint_bitsandbytes)

using namespace tenon;
using namespace tenon::test;

namespace {

const std::string kQuery = "model.layers.0.self_attn.q_proj", kWeight = kQuery + ".weight",
                  kState = kWeight + ".quant_state.bitsandbytes__nf4";

void set_text(QuantizedCase& c, const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  c.tensor(kState) = {DType::u8, {text.size()}, {bytes.begin(), bytes.end()}};
}

// Sets a member of the quantisation state.
void set_state(QuantizedCase& c, const std::string& key, const nlohmann::json& value) {
  const auto& bytes = c.tensor(kState).bytes;
  std::string text(bytes.size(), '\0');
  std::memcpy(text.data(), bytes.data(), bytes.size());
  nlohmann::json state = nlohmann::json::parse(text);
  state[key] = value;
  set_text(c, state.dump());
}

void cut(TensorFile::Tensor& tensor, std::uint64_t elements, std::size_t size) {
  tensor.shape = {elements};
  tensor.bytes.resize(elements * size);
}

}  // namespace

BOOST_AUTO_TEST_CASE(old_configs_have_only_a_switch) {
  for (const auto& [name, key] : {std::pair("bnb_int8", "load_in_8bit"), std::pair("bnb_nf4", "load_in_4bit")})
    BOOST_TEST(refusal_of(name, [&](QuantizedCase& c) { c.quantization() = {{key, true}}; }) == "accepted");
}

// The library has the 16 values in its code. The table in the file is not read.
BOOST_AUTO_TEST_CASE(the_table_of_four_bits_is_the_librarys) {
  const auto values = [](const std::function<void(QuantizedCase&)>& change) {
    const Scratch scratch;
    return values_of(changed_checkpoint(scratch, "bnb_nf4", change), kWeight);
  };
  const std::vector<float> own = values([](QuantizedCase&) {});
  BOOST_TEST(values([](QuantizedCase& c) { c.tensor(kWeight + ".quant_map").put(0, 5.0f); }) == own);
  BOOST_TEST(values([](QuantizedCase& c) { c.file.tensors.erase(kWeight + ".quant_map"); }) == own);
}

BOOST_AUTO_TEST_CASE(damaged_int8_files_are_refused) {
  const Damage damages[] = {
      {"bnb_int8", [](auto& c) { cut(c.tensor(kQuery + ".SCB"), 63, 4); }, {kQuery + ".SCB", "has shape [63]", "[64]"}},
      {"bnb_int8", [](auto& c) { c.tensor(kQuery + ".SCB").dtype = DType::i32; }, {kQuery + ".SCB", "dtype I32"}},
      {"bnb_int8",
       [](auto& c) { c.tensor(kQuery + ".SCB").put(3, std::numeric_limits<float>::quiet_NaN()); },
       {kWeight, "not finite"}},
      {"bnb_int8", [](auto& c) { c.file.tensors.erase(kQuery + ".SCB"); }, {kWeight, "dtype I8"}},
      {"bnb_int8", [](auto& c) { c.file.tensors.erase(kWeight); }, {kWeight + " is missing"}},
      {"bnb_int8", [](auto& c) { c.tensor(kWeight).dtype = DType::u8; }, {kWeight, "dtype U8", "I8"}},
      {"bnb_int8",
       [](auto& c) { c.tensor(kQuery + ".weight_format").bytes[0] = std::byte{1}; },
       {kQuery + ".weight_format", "is 1", "save the model again"}},
      {"bnb_int8",
       [](auto& c) {
         c.file.template add<std::uint8_t>(kQuery + ".weight_format", DType::u8, {2}, {0, 0});
       },
       {kQuery + ".weight_format", "one byte"}},
  };
  check_refused(damages);
}

BOOST_AUTO_TEST_CASE(damaged_states_are_refused) {
  const std::string deep = std::string(100, '[') + std::string(100, ']');
  const Damage damages[] = {
      {"bnb_nf4", [](auto& c) { set_text(c, "{\"quant_type\": \"nf4\""); }, {kState, "JSON", "end"}},
      {"bnb_nf4", [&](auto& c) { set_text(c, deep); }, {kState, "nest"}},
      {"bnb_nf4", [](auto& c) { set_text(c, "[]"); }, {kState, "object"}},
      {"bnb_nf4", [](auto& c) { set_text(c, std::string(70'000, ' ')); }, {kState, "70000 bytes"}},
      {"bnb_nf4", [](auto& c) { set_state(c, "quant_type", "fp4"); }, {"quant_type", "nf4"}},
      {"bnb_nf4", [](auto& c) { set_state(c, "dtype", "int8"); }, {"dtype", "int8", "bfloat16"}},
      {"bnb_nf4", [](auto& c) { set_state(c, "blocksize", 48); }, {"blocksize", "power of two"}},
      {"bnb_nf4", [](auto& c) { set_state(c, "blocksize", 0); }, {"blocksize"}},
      {"bnb_nf4", [](auto& c) { set_state(c, "blocksize", 128); }, {kWeight + ".absmax", "has shape [64]", "[32]"}},
      {"bnb_nf4", [](auto& c) { set_state(c, "shape", {64}); }, {"shape", "rows and columns"}},
      {"bnb_nf4",
       [](auto& c) {
         set_state(c, "shape", {64, -64});
       },
       {"shape", "-64"}},
      {"bnb_nf4",
       [](auto& c) {
         set_state(c, "shape", {64, 64.0});
       },
       {"shape", "64.0"}},
      {"bnb_nf4",
       [](auto& c) {
         set_state(c, "shape", {1 << 30, 1 << 30});
       },
       {kWeight, "2048 bytes", "shape"}},
      {"bnb_nf4",
       [](auto& c) {
         set_state(c, "shape", {32, 128});
       },
       {kWeight, "has shape [32, 128]", "[64, 64]"}},
  };
  check_refused(damages);
}

BOOST_AUTO_TEST_CASE(damaged_scales_are_refused) {
  const Damage damages[] = {
      {"bnb_nf4", [](auto& c) { cut(c.tensor(kWeight + ".absmax"), 63, 4); }, {kWeight + ".absmax", "has shape [63]"}},
      {"bnb_nf4", [](auto& c) { c.file.tensors.erase(kWeight + ".absmax"); }, {kWeight + ".absmax is missing"}},
      {"bnb_nf4", [](auto& c) { c.file.tensors.erase(kState); }, {kWeight, "dtype U8"}},
      {"bnb_nf4",
       [](auto& c) { c.tensor(kWeight + ".absmax").put(1, std::numeric_limits<float>::infinity()); },
       {kWeight, "not finite"}},
      {"bnb_nf4", [](auto& c) { set_state(c, "nested_blocksize", 256); }, {kWeight + ".absmax", "dtype F32"}},
      {"bnb_nf4_double",
       [](auto& c) { set_state(c, "nested_blocksize", nullptr); },
       {kWeight + ".absmax", "dtype U8", "F32"}},
      {"bnb_nf4_double", [](auto& c) { set_state(c, "nested_offset", "0"); }, {"nested_offset", "number"}},
      {"bnb_nf4_double", [](auto& c) { set_state(c, "nested_offset", 1e300); }, {"nested_offset"}},
      {"bnb_nf4_double",
       [](auto& c) { cut(c.tensor(kWeight + ".nested_quant_map"), 255, 4); },
       {kWeight + ".nested_quant_map", "[255]", "[256]"}},
      {"bnb_nf4_double",
       [](auto& c) { set_state(c, "nested_blocksize", 128); },
       {kWeight + ".nested_absmax", "has shape"}},
      {"bnb_nf4_double",
       [](auto& c) { c.file.tensors.erase(kWeight + ".nested_absmax"); },
       {kWeight + ".nested_absmax is missing"}},
      {"bnb_nf4_double",
       [](auto& c) { c.tensor(kWeight + ".nested_absmax").put(0, std::numeric_limits<float>::quiet_NaN()); },
       {kWeight, "not finite"}},
  };
  check_refused(damages);
}

BOOST_AUTO_TEST_SUITE_END()
