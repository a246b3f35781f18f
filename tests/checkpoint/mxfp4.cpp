// Experts in MXFP4: damaged files. quantized.cpp compares the values with those of transformers.
#include "tenon/checkpoint/mxfp4.h"

#include <boost/test/unit_test.hpp>

#include "quantized_case.h"

BOOST_AUTO_TEST_SUITE(checkpoint_mxfp4)

using namespace tenon;
using namespace tenon::test;

namespace {

const std::string kExperts = "model.layers.0.mlp.experts.";

}  // namespace

BOOST_AUTO_TEST_CASE(experts_are_stacked_with_inputs_first) {
  const ModelFiles files = load_checkpoint(kQuantizedCases / "mxfp4");
  const TensorInfo *up = files.tensors->find(kExperts + "gate_up_proj"),
                   *down = files.tensors->find(kExperts + "down_proj");
  BOOST_REQUIRE(up);
  BOOST_REQUIRE(down);
  BOOST_TEST(up->shape == (std::vector<std::uint64_t>{4, 64, 64}));
  BOOST_TEST(down->shape == (std::vector<std::uint64_t>{4, 32, 64}));
  BOOST_TEST(up->end - up->begin == 4u * 64 * (64 / 2 + 64 / 32));
  BOOST_TEST(files.tensors->where(*up) == "model.safetensors: " + kExperts + "gate_up_proj_blocks");
  BOOST_TEST(files.tensors->find(kExperts + "gate_up_proj_scales") == nullptr);
}

BOOST_AUTO_TEST_CASE(exponents_of_all_sizes) {
  const Scratch scratch;
  const Checkpoint checkpoint = changed_checkpoint(scratch, "mxfp4", [](QuantizedCase& c) {
    c.tensor(kExperts + "down_proj_blocks").put(0, std::uint8_t{0x91});  // 0.5, then -0.5
    c.tensor(kExperts + "down_proj_scales").put(0, std::uint8_t{0});
    c.tensor(kExperts + "down_proj_blocks").put(16, std::uint8_t{0xf7});  // 6, then -6
    c.tensor(kExperts + "down_proj_scales").put(1, std::uint8_t{252});
  });
  const std::vector<float> values = values_of(checkpoint, kExperts + "down_proj");  // [4, 32, 64]
  BOOST_TEST(values[0] == 0x1p-128f);
  BOOST_TEST(values[64] == -0x1p-128f);
  BOOST_TEST(values[1] == 6 * 0x1p125f);
  BOOST_TEST(values[64 + 1] == -6 * 0x1p125f);
}

BOOST_AUTO_TEST_CASE(damaged_files_are_refused) {
  const std::string up = kExperts + "gate_up_proj";
  const auto shaped = [](const std::string& name, std::vector<std::uint64_t> shape) {
    return [=](QuantizedCase& c) { c.tensor(name).shape = shape; };
  };
  const auto without = [](const std::string& name) { return [=](QuantizedCase& c) { c.file.tensors.erase(name); }; };
  const Damage damages[] = {
      {"mxfp4", without(up + "_scales"), {"tensor " + up + "_scales is missing", "quant_method"}},
      {"mxfp4", without(up + "_blocks"), {up, "missing"}},
      {"mxfp4", shaped(up + "_blocks", {4, 64, 32}), {up + "_blocks", "[4, 64, 32]", "inputs / 32, 16"}},
      {"mxfp4", shaped(up + "_blocks", {4, 64, 4, 8}), {up + "_blocks", "inputs / 32, 16"}},
      {"mxfp4", shaped(up + "_blocks", {4, 32, 4, 16}), {up + "_scales", "has shape [4, 64, 2], needs [4, 32, 4]"}},
      {"mxfp4", shaped(up + "_scales", {4, 128}), {up + "_scales", "has shape [4, 128]"}},
      {"mxfp4", [=](auto& c) { c.tensor(up + "_blocks").dtype = DType::i8; }, {up + "_blocks", "dtype I8, needs U8"}},
      {"mxfp4",
       [=](auto& c) { c.tensor(up + "_scales").dtype = DType::f8_e8m0; },
       {up + "_scales", "dtype F8_E8M0, needs U8"}},
      {"mxfp4", [=](auto& c) { c.tensor(up + "_scales").put(9, std::uint8_t{255}); }, {up + "_blocks", "not finite"}},
      {"mxfp4",
       [=](auto& c) { c.file.template add<float>(up, DType::f32, {1}, {1}); },
       {up + "_blocks", "two forms", up}},
      {"mxfp4",
       [=](auto& c) {
         c.file.template add<std::uint8_t>(up + "_blocks", DType::u8, {0, 64, 2, 16}, {});
         c.file.template add<std::uint8_t>(up + "_scales", DType::u8, {0, 64, 2}, {});
       },
       {up + "_blocks", "[0, 64, 2, 16]"}},
      {"mxfp4",
       [=](auto& c) {
         for (const char* part : {"gate_up_proj", "down_proj"}) c.file.tensors.erase(kExperts + part + "_blocks");
       },
       {"quant_method", "has no matrix"}},
      {"mxfp4",
       [](auto& c) { c.config["num_local_experts"] = 5; },
       {"router.weight", "has shape [4, 64], needs [5, 64]"}},
      {"mxfp4", [](auto& c) { c.config["intermediate_size"] = 64; }, {"has shape", "needs"}},
  };
  check_refused(damages);
}

BOOST_AUTO_TEST_SUITE_END()
