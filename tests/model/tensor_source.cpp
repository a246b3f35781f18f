// Inconsistent quantised checkpoints are refused under every weight policy; the error names file and tensor.
#include "tenon/model/tensor_source.h"

#include <boost/test/unit_test.hpp>
#include <functional>
#include <limits>

#include "../io/scratch.h"
#include "made_model.h"
#include "tenon/device/cpu.h"
#include "tenon/device/thread_pool.h"
#include "tenon/model/llama.h"
#include "tenon/model/load.h"
#include "tenon/model/quantize.h"
#include "tenon/weights/bfloat16.h"
#include "tenon/weights/float32.h"
#include "tenon/weights/float8.h"
#include "tenon/weights/int4.h"
#include "tenon/weights/int8.h"

BOOST_AUTO_TEST_SUITE(model_tensor_source)

using namespace tenon;
using tenon::test::mentions;
using tenon::test::refusal;
using tenon::test::Scratch;
using tenon::test::TensorFile;

namespace {

const std::string kK = "model.layers.1.self_attn.k_proj.weight";  // [6, 45]
constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();

template <WeightPolicy P>
std::string load(const std::filesystem::path& folder) {
  return refusal([&] {
    ModelFiles files;
    files.config = std::make_shared<const ConfigFile>(folder);
    files.tensors = std::make_shared<const Checkpoint>(Checkpoint::open(folder));
    const ModelConfig config = Llama::configure(*files.config);
    Cpu device({.threads = 2});
    DecoderWeights<P, P, Cpu>(device, Llama::tensors(config), config.tied_head,
                              TensorSource(files, Llama::name_prefix));
  });
}

// A Llama in format P, for tests that corrupt it.
template <WeightPolicy P>
class Quantized {
 public:
  explicit Quantized(const std::string& format = std::string(P::Code::name)) {
    test::make_model<Llama>(scratch_ / "original", test::kSmallLlama);
    ThreadPool pool(1);
    quantize_checkpoint(scratch_ / "original", scratch_ / "model", format, pool);
    sound_.read(scratch_ / "model" / "model.safetensors");
  }

  // Checks that the changed folder is refused with these words, by P and by another policy.
  void refuses(const std::vector<std::string>& words, const std::function<void(TensorFile&)>& change) {
    TensorFile file = sound_;
    change(file);
    file.write(scratch_ / "model" / "model.safetensors");
    for (const std::string& message : {load<P>(scratch_ / "model"), load<Float32>(scratch_ / "model")}) {
      BOOST_TEST(mentions(message, {"model.safetensors"}), message);
      BOOST_TEST(mentions(message, words), message);
    }
  }
  template <class T>
  void refuses_value(const std::string& tensor, std::size_t at, T value, const std::vector<std::string>& words) {
    std::vector<std::string> all = words;
    all.push_back("model.safetensors: " + tensor);
    refuses(all, [&](TensorFile& file) { file.tensors.at(tensor).put(at, value); });
  }

  void accepts(const std::function<void(TensorFile&)>& change) {
    TensorFile file = sound_;
    change(file);
    file.write(scratch_ / "model" / "model.safetensors");
    BOOST_TEST(load<P>(scratch_ / "model") == "accepted");
    BOOST_TEST(load<Float32>(scratch_ / "model") == "accepted");
  }

 private:
  Scratch scratch_;
  TensorFile sound_;
};

// Stores the tensor as float32.
void make_f32(TensorFile& file, const std::string& name) {
  auto& tensor = file.tensors.at(name);
  tensor.dtype = DType::f32;
  tensor.bytes.assign(tensor.shape[0] * tensor.shape[1] * 4, std::byte{});
}

}  // namespace

BOOST_AUTO_TEST_CASE(metadata_must_name_a_known_format) {
  Quantized<ZeroPointInt8> model;
  model.accepts([](TensorFile&) {});
  model.accepts([](TensorFile& f) { f.metadata = {{"tenon.weights", "int8"}}; });
  model.refuses({"__metadata__: tenon.weights: \"int3\"", "int8_tensor", "int4_group64"},
                [](TensorFile& f) { f.metadata["tenon.weights"] = "int3"; });
  model.refuses({"__metadata__: tenon.weights: \"\""}, [](TensorFile& f) { f.metadata["tenon.weights"] = ""; });
  // Without that entry, codes are not accepted as weights.
  model.refuses({"U8 cannot be read as a weight"}, [](TensorFile& f) { f.metadata.erase("tenon.weights"); });
  model.refuses({"U8 cannot be read as a weight"}, [](TensorFile& f) { f.metadata.clear(); });
  // Another code with the same element type.
  model.refuses({"shape", "needs [1]"}, [](TensorFile& f) { f.metadata["tenon.weights"] = "int8_tensor"; });
  model.refuses({"shape [18, 45], needs [405]"}, [](TensorFile& f) { f.metadata["tenon.weights"] = "int4"; });
  model.refuses({"dtype U8, needs F8_E4M3"}, [](TensorFile& f) { f.metadata["tenon.weights"] = "float8_e4m3"; });
  model.refuses({"dtype U8, needs BF16"}, [](TensorFile& f) { f.metadata["tenon.weights"] = "bfloat16"; });
}

BOOST_AUTO_TEST_CASE(scales_and_zero_points_must_be_there) {
  Quantized<ZeroPointInt8> model;
  for (const std::string beside : {".scale", ".zero_point"}) {
    const std::string name = kK + beside;
    model.refuses({"tensor " + name + " is missing", "int8"}, [&](TensorFile& f) { f.tensors.erase(name); });
    model.refuses({"model.safetensors: " + name, "shape [6, 1], needs [6]"}, [&](TensorFile& f) {
      f.tensors.at(name).shape = {6, 1};
    });
    model.refuses({"model.safetensors: " + name, "shape [5], needs [6]"},
                  [&](TensorFile& f) { f.add<float>(name, DType::f32, {5}, std::vector<float>(5)); });
    model.refuses({"model.safetensors: " + name, "dtype F16, needs F32"},
                  [&](TensorFile& f) { f.add<std::uint16_t>(name, DType::f16, {6}, std::vector<std::uint16_t>(6)); });
  }
  model.refuses({"tensor " + kK + " is missing"}, [&](TensorFile& f) { f.tensors.erase(kK); });
  model.refuses({"model.safetensors: " + kK, "dtype F32, needs U8"}, [&](TensorFile& f) { make_f32(f, kK); });
  model.refuses({"model.safetensors: " + kK, "shape [45, 6], needs [6, 45]"}, [&](TensorFile& f) {
    f.tensors.at(kK).shape = {45, 6};
  });
  // Only matrices may be codes.
  model.refuses({"model.norm.weight", "U8 cannot be read"}, [&](TensorFile& f) {
    f.add<std::uint8_t>("model.norm.weight", DType::u8, {45}, std::vector<std::uint8_t>(45));
  });
}

// Their author meant other values than those that we would read.
BOOST_AUTO_TEST_CASE(tensors_that_a_format_lacks_are_refused_beside_a_matrix) {
  const auto with = [](const std::string& name) {
    return [name](TensorFile& f) { f.add<float>(name, DType::f32, {6}, std::vector<float>(6)); };
  };
  Quantized<Float8<E4M3>> float8;
  float8.refuses({"model.safetensors: " + kK + ".zero_point: ", "float8_e4m3 weights"}, with(kK + ".zero_point"));
  float8.accepts(with("model.norm.weight.zero_point"));  // belongs to no matrix
  Quantized<GroupInt4> int4;
  int4.refuses({"model.safetensors: " + kK + ".zero_point: ", "int4 weights"}, with(kK + ".zero_point"));
  Quantized<BFloat16> plain;
  for (const std::string beside : {".scale", ".zero_point"})
    plain.refuses({"model.safetensors: " + kK + beside + ": ", "bfloat16 weights"}, with(kK + beside));
}

BOOST_AUTO_TEST_CASE(numbers_that_no_encoder_makes_are_refused) {
  Quantized<ZeroPointInt8> int8;
  for (const float scale : {-1.0f, kNan, kInfinity, 1e38f})
    int8.refuses_value(kK + ".scale", 3, scale, {"in row 3", "finite numbers from 0"});
  for (const float zero : {-1.0f, 256.0f, 0.5f, kNan, kInfinity})
    int8.refuses_value(kK + ".zero_point", 5, zero, {"in row 5", "whole numbers from 0 to 255"});
  int8.accepts([](TensorFile& f) {
    f.tensors.at(kK + ".scale").put(3, 0.0f);
    f.tensors.at(kK + ".zero_point").put(3, 255.0f);
  });

  Quantized<Float8<E4M3>> e4m3;
  e4m3.refuses_value(kK, 17, std::uint8_t{0x7f}, {"no finite number"});
  e4m3.refuses_value(kK, 17, std::uint8_t{0xff}, {"no finite number"});
  e4m3.refuses_value(kK + ".scale", 0, -1e-9f, {"in row 0", "finite numbers from 0"});
  e4m3.refuses_value(kK + ".scale", 0, 1e37f, {"in row 0"});  // 448 times the scale is beyond float32
  e4m3.accepts([](TensorFile& f) { f.tensors.at(kK).put(17, std::uint8_t{0xfe}); });

  Quantized<Float8<E5M2>> e5m2;
  for (const int code : {0x7c, 0x7d, 0x7f, 0xfc, 0xff})
    e5m2.refuses_value(kK, 17, static_cast<std::uint8_t>(code), {"no finite number"});
  e5m2.accepts([](TensorFile& f) { f.tensors.at(kK).put(17, std::uint8_t{0x7b}); });

  Quantized<GroupInt4> int4;
  for (const int half : {0x7c00, 0xfc00, 0x7e00})
    int4.refuses_value(kK + ".scale", 11, static_cast<std::uint16_t>(half), {"in row 5", "finite numbers"});
  int4.accepts(
      [](TensorFile& f) { f.tensors.at(kK + ".scale").put(11, std::uint16_t{0xfbff}); });  // its scales have signs
}

BOOST_AUTO_TEST_CASE(one_matrix_has_one_range_where_the_code_has_one) {
  Quantized<ZeroPointInt8Of<PerTensor>> model;
  const std::vector<std::string> words = {"model.safetensors: " + kK,
                                          "another scale or zero point than model.layers.1.self_attn.q_proj.weight"};
  model.refuses(words, [](TensorFile& f) { f.tensors.at(kK + ".scale").put(0, 0.5f); });
  model.refuses(words, [](TensorFile& f) { f.tensors.at(kK + ".zero_point").put(0, 3.0f); });
  const auto all = [](TensorFile& f, const std::string& what, float value) {
    for (const char* part : {"q", "k", "v"})
      f.tensors.at("model.layers.1.self_attn." + std::string(part) + "_proj.weight" + what).put(0, value);
  };
  model.accepts([&](TensorFile& f) { all(f, ".scale", 0.5f), all(f, ".zero_point", 2.5f); });
  for (const float bad : {-1.0f, 1e38f})
    model.refuses({"q_proj.weight.scale", "finite numbers from 0"}, [&](TensorFile& f) { all(f, ".scale", bad); });
  for (const float bad : {-1.0f, 256.0f, kInfinity})
    model.refuses({"q_proj.weight.zero_point", "numbers from 0 to 255"},
                  [&](TensorFile& f) { all(f, ".zero_point", bad); });
}

BOOST_AUTO_TEST_CASE(tensors_of_codes_are_not_unused) {
  const Scratch scratch;
  test::make_model<Llama>(scratch / "original", test::kSmallLlama);
  ThreadPool pool(1);
  quantize_checkpoint(scratch / "original", scratch / "model", "int8", pool);
  TensorFile file;
  file.read(scratch / "model" / "model.safetensors");
  file.add<float>(kK + ".g_idx", DType::f32, {1}, {0});
  file.write(scratch / "model" / "model.safetensors");
  ModelFiles files;
  files.config = std::make_shared<const ConfigFile>(scratch / "model");
  files.tensors = std::make_shared<const Checkpoint>(Checkpoint::open(scratch / "model"));
  const TensorSource source(files, Llama::name_prefix);
  BOOST_TEST(
      source.unused(Llama::tensors(Llama::configure(*files.config)), false) == std::vector<std::string>{kK + ".g_idx"},
      boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()
