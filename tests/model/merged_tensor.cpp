// Merged tensors are what the formulas give in double, rounded once, whichever way a matrix is stored.
#include "tenon/model/merged_tensor.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <limits>

#include "../checkpoint/tensor_file.h"
#include "../io/scratch.h"
#include "tenon/checkpoint/sharded_writer.h"
#include "tenon/core/elements.h"
#include "tenon/device/thread_pool.h"

BOOST_AUTO_TEST_SUITE(model_merged_tensor)

using namespace tenon;
using tenon::test::mentions;
using tenon::test::refusal;
using tenon::test::Scratch;
using tenon::test::TensorFile;

namespace {

constexpr int kInputs = 5, kOutputs = 3, kRank = 2;
constexpr double kScale = 1.5;

std::vector<float> drawn(std::size_t count, int seed) {
  std::vector<float> all(count);
  for (std::size_t i = 0; i < count; ++i)
    all[i] = std::sin(static_cast<float>(i) * 1.7f + static_cast<float>(seed)) * 0.3f;
  return all;
}

// A base with one linear, stored in one of two orders, and an adapter for it.
struct Pair {
  Scratch scratch;
  std::vector<float> w = drawn(kInputs * kOutputs, 1);  // [outputs, inputs]
  std::vector<float> a = drawn(kRank * kInputs, 2), b = drawn(kOutputs * kRank, 3);
  std::vector<float> magnitude = {0.5f, 1.25f, 2.0f}, output_gains = {1.5f, -0.25f, 3.0f};
  std::vector<float> input_gains = {1, 2, 0.5f, -1, 0.1f};
  Checkpoint base = Checkpoint::open(write_base());
  PeftAdapter adapter = write_adapter();

  std::filesystem::path write_base() const {
    TensorFile file;
    std::vector<float> turned(w.size());
    for (std::size_t o = 0; o < kOutputs; ++o)
      for (std::size_t i = 0; i < kInputs; ++i) turned[i * kOutputs + o] = w[o * kInputs + i];
    file.add("w", DType::f32, {kOutputs, kInputs}, w);
    file.add("turned", DType::f32, {kInputs, kOutputs}, turned);
    file.add<float>("bias", DType::f32, {kOutputs}, {1, 2, 3});
    file.write(scratch / "model.safetensors");
    return scratch.folder();
  }

  // The tensors of a DoRA with a bias, and of IA3 vectors that PeftFactors and PeftScale point to.
  PeftAdapter write_adapter() const {
    scratch.write("adapter_config.json",
                  R"({"peft_type": "LORA", "r": 2, "lora_alpha": 3, "use_dora": true, "target_modules": ["m"]})");
    TensorFile file;
    const std::string stem = "base_model.model.m.";
    file.add(stem + "lora_A.weight", DType::f32, {kRank, kInputs}, a);
    file.add(stem + "lora_B.weight", DType::f32, {kOutputs, kRank}, b);
    file.add(stem + "lora_magnitude_vector", DType::f32, {kOutputs}, magnitude);
    file.write(scratch / "adapter_model.safetensors");
    return PeftAdapter::open(scratch.folder(), std::vector<PeftModule>{{"m", kInputs, kOutputs}});
  }

  detail::MergedTensor tensor(const std::string& name, DType type = DType::f32) const {
    const TensorInfo* source = base.find(name);
    return {.plan = {name, type, source->shape}, .source = source, .inputs_first = name == "turned"};
  }

  // Writes the tensor and reads its bytes back.
  std::vector<std::byte> merged(const detail::MergedTensor& each, const PeftAdapter& with) const {
    const Scratch out;
    ThreadPool pool(2);
    ShardedWriter writer(out.folder(), {each.plan}, {});
    detail::write_merged(pool, each, base, with, writer);
    std::vector<NewFile> files = writer.take_files();
    NewFile::publish_all(files);
    const Checkpoint read = Checkpoint::open(out.folder());
    std::vector<std::byte> bytes(read.tensors()[0].end - read.tensors()[0].begin);
    read.read_bytes(read.tensors()[0], 0, bytes);
    return bytes;
  }
  // Element (output, input) of the merged matrix.
  std::vector<float> values(const detail::MergedTensor& each, const PeftAdapter& with) const {
    const std::vector<std::byte> bytes = merged(each, with);
    std::vector<float> stored(kInputs * kOutputs), all(stored.size());
    BOOST_REQUIRE(bytes.size() == stored.size() * sizeof(float));
    std::memcpy(stored.data(), bytes.data(), bytes.size());
    for (std::size_t o = 0; o < kOutputs; ++o)
      for (std::size_t i = 0; i < kInputs; ++i)
        all[o * kInputs + i] = each.inputs_first ? stored[i * kOutputs + o] : stored[o * kInputs + i];
    return all;
  }

  // W + scale * B A in double.
  std::vector<double> updated() const {
    std::vector<double> all;
    for (std::size_t o = 0; o < kOutputs; ++o)
      for (std::size_t i = 0; i < kInputs; ++i) {
        double product = 0;
        for (std::size_t r = 0; r < kRank; ++r)
          product += static_cast<double>(b[o * kRank + r]) * static_cast<double>(a[r * kInputs + i]);
        all.push_back(std::fma(kScale, product, static_cast<double>(w[o * kInputs + i])));
      }
    return all;
  }
};

std::vector<float> rounded(const std::vector<double>& values) { return {values.begin(), values.end()}; }

}  // namespace

BOOST_AUTO_TEST_CASE(low_rank_updates) {
  const Pair pair;
  PeftFactors plain = pair.adapter.factors()[0];
  BOOST_TEST(plain.scale == kScale);
  plain.magnitude = nullptr;
  for (const char* name : {"w", "turned"}) {
    detail::MergedTensor tensor = pair.tensor(name);
    BOOST_CHECK(pair.values(tensor, pair.adapter) == pair.w);  // a copy
    tensor.update = &plain;
    BOOST_CHECK(pair.values(tensor, pair.adapter) == rounded(pair.updated()));
  }
}

BOOST_AUTO_TEST_CASE(dora_divides_by_the_norm_of_each_output) {
  const Pair pair;
  std::vector<double> wanted = pair.updated();
  for (std::size_t o = 0; o < kOutputs; ++o) {
    double sum = 0;
    for (std::size_t i = 0; i < kInputs; ++i) sum = std::fma(wanted[o * kInputs + i], wanted[o * kInputs + i], sum);
    for (std::size_t i = 0; i < kInputs; ++i)
      wanted[o * kInputs + i] *= static_cast<double>(pair.magnitude[o]) / std::sqrt(sum);
  }
  for (const char* name : {"w", "turned"}) {
    detail::MergedTensor tensor = pair.tensor(name);
    tensor.update = &pair.adapter.factors()[0];
    BOOST_CHECK(pair.values(tensor, pair.adapter) == rounded(wanted));
  }
}

BOOST_AUTO_TEST_CASE(ia3_scales_outputs_or_inputs) {
  const Pair pair;
  const Scratch scratch;
  for (const bool of_inputs : {false, true}) {
    scratch.write("adapter_config.json", std::string(R"({"peft_type": "IA3", "target_modules": ["m"],)") +
                                             R"("feedforward_modules": [)" + (of_inputs ? R"("m"]})" : "]}"));
    TensorFile file;
    const std::vector<float>& gains = of_inputs ? pair.input_gains : pair.output_gains;
    file.add("base_model.model.m.ia3_l", DType::f32,
             of_inputs ? std::vector<std::uint64_t>{1, kInputs} : std::vector<std::uint64_t>{kOutputs, 1}, gains);
    file.write(scratch / "adapter_model.safetensors");
    const PeftAdapter ia3 = PeftAdapter::open(scratch.folder(), std::vector<PeftModule>{{"m", kInputs, kOutputs}});
    std::vector<float> wanted = pair.w;
    for (std::size_t o = 0; o < kOutputs; ++o)
      for (std::size_t i = 0; i < kInputs; ++i) wanted[o * kInputs + i] *= gains[of_inputs ? i : o];
    for (const char* name : {"w", "turned"}) {
      detail::MergedTensor tensor = pair.tensor(name);
      tensor.scale = &ia3.scales()[0];
      BOOST_CHECK(pair.values(tensor, ia3) == wanted);
    }
    if (of_inputs) continue;
    detail::MergedTensor bias = pair.tensor("bias");
    bias.scale = &ia3.scales()[0];
    const std::vector<float> scaled = {1.5f, -0.5f, 9};
    const std::vector<std::byte> bytes = pair.merged(bias, ia3);
    BOOST_TEST(std::memcmp(bytes.data(), scaled.data(), bytes.size()) == 0);
  }
}

BOOST_AUTO_TEST_CASE(values_are_rounded_once) {
  // Halfway between two bfloat16 is 1 + 2^-8, and between two float16 1 + 2^-11. Float32 loses what is added to it.
  for (const double above : {0x1p-40, -0x1p-40, 0.0}) {
    const std::vector<double> values = {1 + 0x1p-8 + above, 1 + 0x1p-11 + above, -(1 + 0x1p-8 + above)};
    std::uint16_t out[3];
    BOOST_TEST(detail::round_to(DType::bf16, values, reinterpret_cast<std::byte*>(out)));
    BOOST_TEST(float_of_bf16(out[0]) == (above > 0 ? 1.0078125f : 1.0f));
    BOOST_TEST(float_of_bf16(out[2]) == (above > 0 ? -1.0078125f : -1.0f));
    BOOST_TEST(detail::round_to(DType::f16, values, reinterpret_cast<std::byte*>(out)));
    BOOST_TEST(float_of_f16(out[1]) == (above > 0 ? 1 + 0x1p-10f : 1.0f));
  }
  // Floats are rounded as by the elements' own conversion.
  for (const float value : drawn(1000, 9)) {
    std::uint16_t out;
    const std::vector<double> one = {static_cast<double>(value)};
    BOOST_TEST(detail::round_to(DType::bf16, one, reinterpret_cast<std::byte*>(&out)));
    BOOST_TEST(out == bfloat16(value).bits);
    BOOST_TEST(detail::round_to(DType::f16, one, reinterpret_cast<std::byte*>(&out)));
    BOOST_TEST(out == float16(value).bits);
  }
}

BOOST_AUTO_TEST_CASE(values_beyond_a_type_are_found) {
  std::byte out[8];
  const auto fits = [&](DType type, double value) { return detail::round_to(type, std::vector{value}, out); };
  const double most = std::numeric_limits<float>::max(), nan = std::numeric_limits<double>::quiet_NaN();
  BOOST_TEST(fits(DType::f16, 65519.99));
  BOOST_TEST(!fits(DType::f16, 65520));
  BOOST_TEST(fits(DType::f32, most));
  BOOST_TEST(!fits(DType::f32, -2 * most));
  BOOST_TEST(!fits(DType::bf16, most));
  for (const DType type : {DType::f32, DType::f16, DType::bf16}) BOOST_TEST(!fits(type, nan));

  Pair pair;
  pair.w[4] = 70000;
  pair.base = Checkpoint::open(pair.write_base());
  BOOST_TEST(mentions(refusal([&] { pair.merged(pair.tensor("w", DType::f16), pair.adapter); }),
                      {"model.safetensors: w", "F16"}));
  BOOST_TEST(pair.merged(pair.tensor("w", DType::bf16), pair.adapter).size() == 2 * pair.w.size());
}

BOOST_AUTO_TEST_SUITE_END()
