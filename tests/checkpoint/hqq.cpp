// HQQ: damaged files. quantized.cpp compares the values with the library.
#include "tenon/checkpoint/hqq.h"

#include <boost/test/unit_test.hpp>

#include "quantized_case.h"

BOOST_AUTO_TEST_SUITE(checkpoint_hqq)

using namespace tenon;
using namespace tenon::test;

namespace {

const std::string kQuery = "model.layers.0.self_attn.q_proj";

}  // namespace

// value = (code - zero) * scale. The first half of the matrix has the high 4 bits of the bytes.
BOOST_AUTO_TEST_CASE(codes_and_zero_points) {
  const Scratch scratch;
  const Checkpoint checkpoint = changed_checkpoint(scratch, "hqq_4bit", [](QuantizedCase& c) {
    c.tensor(kQuery + ".W_q").put(0, std::uint8_t{0x9c});
    for (const std::size_t group : {0, 64}) {
      c.tensor(kQuery + ".scale").put(group, std::uint16_t{0x4000});  // 2
      c.tensor(kQuery + ".zero").put(group, std::uint16_t{0x4100});   // 2.5
    }
  });
  const std::vector<float> values = values_of(checkpoint, kQuery + ".weight");  // [64, 64]
  BOOST_TEST(values[0] == (9 - 2.5f) * 2);
  BOOST_TEST(values[64 * 32] == (12 - 2.5f) * 2);
}

BOOST_AUTO_TEST_CASE(tensors_that_describe_a_matrix_are_parts_of_it) {
  const ModelFiles files = load_checkpoint(kQuantizedCases / "hqq_3bit");
  for (const TensorInfo& tensor : files.tensors->tensors())
    BOOST_TEST((tensor.name.ends_with(".weight") || tensor.name.ends_with(".bias")), tensor.name);
}

BOOST_AUTO_TEST_CASE(damaged_files_are_refused) {
  const auto number = [](const char* name, std::int32_t value) {
    return [=](QuantizedCase& c) { c.tensor(kQuery + name).put(0, value); };
  };
  const auto on = [](const char* name) {
    return [=](QuantizedCase& c) { c.tensor(kQuery + name).put(0, std::uint8_t{1}); };
  };
  const auto shape = [](const char* name, std::vector<std::uint64_t> value) {
    return [=](QuantizedCase& c) { c.tensor(kQuery + name).shape = value; };
  };
  const auto size = [](std::int64_t rows, std::int64_t cols) {
    return [=](QuantizedCase& c) {
      c.tensor(kQuery + ".shape").put(0, rows);
      c.tensor(kQuery + ".shape").put(1, cols);
    };
  };
  const Damage damages[] = {
      {"hqq_4bit", number(".nbits", 5), {kQuery + ".nbits", "5 is not supported"}},
      {"hqq_4bit", number(".nbits", 9), {kQuery + ".nbits", "from 1 to 8"}},
      {"hqq_4bit", number(".nbits", 2), {kQuery + ".W_q", "has shape [64, 32], needs [32, 32]"}},
      {"hqq_4bit", number(".nbits", 3), {kQuery + ".W_q", "dtype U8", "I32"}},
      {"hqq_4bit", number(".group_size", 0), {kQuery + ".group_size", "is 0"}},
      {"hqq_4bit", number(".group_size", 48), {kQuery + ".W_q", "groups of 48"}},
      {"hqq_4bit", number(".group_size", 4096), {kQuery + ".W_q", "groups of 4096"}},
      {"hqq_4bit", number(".axis", 2), {kQuery + ".axis", "is 2"}},
      {"hqq_4bit", number(".axis", 0), {kQuery + ".W_q", "has shape", "needs [16, 128]"}},
      {"hqq_4bit", on(".view_as_float"), {kQuery + ".view_as_float", "not supported"}},
      {"hqq_4bit", on(".quant_zero"), {kQuery + ".quant_zero", "not supported"}},
      {"hqq_4bit", on(".quant_scale"), {kQuery + ".quant_scale", "not supported"}},
      {"hqq_4bit", size(0, 64), {kQuery + ".shape", "[0, 64]"}},
      {"hqq_4bit", size(64, -1), {kQuery + ".shape"}},
      {"hqq_4bit", size(1 << 30, 1 << 30), {kQuery + ".W_q", "has shape"}},
      {"hqq_4bit", size(32, 128), {kQuery, "has shape [32, 128]"}},
      {"hqq_4bit", shape(".scale", {1, 128}), {kQuery + ".scale", "needs [128, 1]"}},
      {"hqq_4bit",
       [](auto& c) {
         c.file.add(kQuery + ".nbits", DType::i32, {2}, std::vector<std::int32_t>{4, 4});
       },
       {kQuery + ".nbits", "one number"}},
      {"hqq_4bit", [](auto& c) { c.file.tensors.erase(kQuery + ".zero"); }, {kQuery + ".zero is missing"}},
      {"hqq_4bit", [](auto& c) { c.file.tensors.erase(kQuery + ".W_q"); }, {kQuery, "missing"}},
      {"hqq_4bit",
       [](auto& c) { c.tensor(kQuery + ".scale").put(9, std::uint16_t{0x7e00}); },
       {kQuery + ".W_q", "not finite"}},
  };
  check_refused(damages);
}

BOOST_AUTO_TEST_SUITE_END()
