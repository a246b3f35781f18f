// A quantised checkpoint loads as the same bytes in memory as the original under that weight format, in every engine.
#include "tenon/model/quantize.h"

#include <sys/resource.h>

#include <boost/test/unit_test.hpp>
#include <csignal>
#include <cstring>

#include "../io/scratch.h"
#include "made_model.h"
#include "tenon/device/cpu.h"
#include "tenon/device/thread_pool.h"
#include "tenon/model/load.h"
#include "tenon/weights/bfloat16.h"
#include "tenon/weights/bfloat16_amx.h"
#include "tenon/weights/bfloat16_dot.h"
#include "tenon/weights/float16.h"
#include "tenon/weights/float32.h"
#include "tenon/weights/float8.h"
#include "tenon/weights/group_int8.h"
#include "tenon/weights/int4.h"
#include "tenon/weights/int4_act8.h"
#include "tenon/weights/int8.h"
#include "tenon/weights/int8_act8.h"

BOOST_AUTO_TEST_SUITE(model_quantize)

using namespace tenon;
using tenon::test::mentions;
using tenon::test::refusal;
using tenon::test::Scratch;
using tenon::test::TensorFile;

namespace {

const std::filesystem::path kTales = TENON_SOURCE_DIR "/examples/models/tales";

// A pool of a huge number of threads, so that every block has 16 rows.
struct SmallBlocks {
  int threads() const { return 1 << 20; }
  template <class Body>
  void share(int count, int, Body&& body) {
    for (int i = count - 1; i >= 0; --i) body(i, i + 1, 0);
  }
};
struct SmallBlockDevice : Cpu {
  using Cpu::Cpu;
  SmallBlocks& pool() { return small; }
  SmallBlocks small;
};

// Every matrix of a folder, packed in format P, in the order of the model's parts.
template <class Family, WeightPolicy P, class Device = Cpu>
struct Loaded {
  ModelFiles files;
  Device device{CpuOptions{.threads = 2}};
  std::unique_ptr<DecoderWeights<P, P, Device>> weights;

  explicit Loaded(const std::filesystem::path& folder) {
    files.config = std::make_shared<const ConfigFile>(folder);
    files.tensors = std::make_shared<const Checkpoint>(Checkpoint::open(folder));
    const ModelConfig config = Family::configure(*files.config);
    const TensorSource source(files, Family::name_prefix);
    weights = std::make_unique<DecoderWeights<P, P, Device>>(device, Family::tensors(config), config.tied_head, source);
  }
  std::span<const std::byte> bytes() const { return weights->matrices(); }
  std::span<const std::byte> heads() const { return weights->heads(); }
};

bool same(std::span<const std::byte> a, std::span<const std::byte> b) {
  return !a.empty() && a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size()) == 0;
}

template <class Family, WeightPolicy P>
void check_loads_alike(const std::filesystem::path& original, const std::filesystem::path& quantized,
                       const std::string& what) {
  const Loaded<Family, P> at_load(original), in_large_blocks(quantized);
  const Loaded<Family, P, SmallBlockDevice> read(quantized);
  BOOST_TEST(same(at_load.bytes(), read.bytes()), what);
  BOOST_TEST(same(at_load.heads(), read.heads()), what + ": head");
  BOOST_TEST(at_load.weights->hash(1) == read.weights->hash(2), what);
  BOOST_TEST(at_load.weights->hash(1) == in_large_blocks.weights->hash(0), what);
}

// Loaded as float32, the matrices have the values of the codes.
template <class Family, WeightPolicy P>
void check_values(const std::filesystem::path& quantized, const std::string& what) {
  const Loaded<Family, P> codes(quantized);
  const Loaded<Family, Float32> floats(quantized);
  const auto compare = [&](const auto& code, const auto& value, Shape shape) {
    float worst = 0;
    for (int r = 0; r < shape.rows; ++r) {
      for (int c = 0; c < shape.cols; ++c) worst = std::max(worst, std::fabs(code.at(r, c) - value.at(r, c)));
    }
    // The zero point of a whole tensor is a fraction. Subtracting 128 rounds it.
    BOOST_TEST(worst <= (P::Code::per_tensor ? 1e-6f : 0.0f), what);
  };
  const ModelConfig config = Family::configure(*codes.files.config);
  const DecoderSpec spec = Family::tensors(config);
  const auto& c = codes.weights->parts();
  const auto& f = floats.weights->parts();
  compare(c.head, f.head, (config.tied_head ? spec.embedding : spec.head).shape);
  for (std::size_t l = 0; l < spec.layers.size(); ++l) {
    compare(c.layers[l].qkv.weight, f.layers[l].qkv.weight, spec.layers[l].qkv.weight.shape);
    const auto compare_mlp = [&](const auto& in_codes, const auto& in_floats, const auto& shapes) {
      compare(in_codes.up.weight, in_floats.up.weight, shapes.up.weight.shape);
      compare(in_codes.down.weight, in_floats.down.weight, shapes.down.weight.shape);
    };
    if (!config.is_mixture(static_cast<int>(l))) compare_mlp(c.layers[l], f.layers[l], spec.layers[l]);
    for (std::size_t e = 0; e < spec.layers[l].experts.size(); ++e)
      compare_mlp(c.layers[l].experts[e], f.layers[l].experts[e], spec.layers[l].experts[e]);
  }
}

template <class Family, WeightPolicy... Ps>
void check_code(const std::filesystem::path& original) {
  using P = std::tuple_element_t<0, std::tuple<Ps...>>;
  const std::string name(P::Code::name), what = std::string(Family::model_type) + " " + name;
  const Scratch scratch;
  SmallBlocks small;
  const QuantizeReport report = quantize_checkpoint(original, scratch / "out", name, small);
  BOOST_TEST(report.left_out == std::vector<std::string>{"of.no.use"}, boost::test_tools::per_element());
  (check_loads_alike<Family, Ps>(original, scratch / "out", what), ...);
  check_values<Family, P>(scratch / "out", what);
}

template <class Family>
void check_family(const nlohmann::json& config) {
  const Scratch scratch;
  const auto folder = scratch / "model";
  test::make_model<Family>(folder, config);
  check_code<Family, Float8<E4M3>>(folder);
  check_code<Family, Float8<E5M2>>(folder);
  check_code<Family, ZeroPointInt8, ZeroPointInt8Act8>(folder);
  if (Family::model_type != GptOss::model_type) check_code<Family, ZeroPointInt8Of<PerTensor>>(folder);
  check_code<Family, GroupInt4Of<32>, GroupInt4Act8>(folder);
  check_code<Family, GroupInt4Of<64>>(folder);
  check_code<Family, GroupInt4Of<128>>(folder);
  check_code<Family, GroupInt8>(folder);
  check_code<Family, NormalFloat4>(folder);
  check_code<Family, BFloat16, BFloat16Dot, BFloat16Amx>(folder);
  check_code<Family, Float16>(folder);
}

}  // namespace

BOOST_AUTO_TEST_CASE(gpt2_loads_alike) { check_family<Gpt2>(test::kSmallGpt2); }
BOOST_AUTO_TEST_CASE(gpt_bigcode_loads_alike) { check_family<GptBigCode>(test::kSmallGptBigCode); }
BOOST_AUTO_TEST_CASE(llama_loads_alike) { check_family<Llama>(test::kSmallLlama); }
BOOST_AUTO_TEST_CASE(mistral_loads_alike) { check_family<Mistral>(test::kSmallMistral); }
BOOST_AUTO_TEST_CASE(bloom_loads_alike) { check_family<Bloom>(test::kSmallBloom); }
BOOST_AUTO_TEST_CASE(experts_load_alike) { check_family<Qwen3Moe>(test::kSmallQwen3Moe); }
BOOST_AUTO_TEST_CASE(stacked_experts_load_alike) { check_family<GptOss>(test::kSmallGptOss); }
// A matrix of each expert has a scale, and the file's tensor of all experts would have one.
BOOST_AUTO_TEST_CASE(stacked_experts_have_no_scale_in_common) {
  const Scratch scratch;
  test::make_model<GptOss>(scratch / "model", test::kSmallGptOss);
  SmallBlocks small;
  const auto refused = [&] { quantize_checkpoint(scratch / "model", scratch / "out", "int8_tensor", small); };
  BOOST_TEST(mentions(refusal(refused), {"gate_up_proj", "int8_tensor", "another format"}));
}

BOOST_AUTO_TEST_CASE(the_file_has_the_form_that_is_documented) {
  const Scratch scratch;
  test::make_model<Llama>(scratch / "model", test::kSmallLlama);
  ThreadPool pool(2);
  const auto written = [&](const std::string& format) {
    TensorFile file;
    quantize_checkpoint(scratch / "model", scratch / format, format, pool);
    file.read(scratch / format / "model.safetensors");
    BOOST_TEST(file.metadata["tenon.weights"] == format);
    BOOST_TEST(file.metadata["tenon.version"] == std::string(kVersion));
    BOOST_TEST(!file.metadata["tenon.layout"].empty());
    BOOST_TEST(file.metadata["format"] == (format == "bfloat16" ? "pt" : "tenon"));
    return file;
  };
  const std::string down = "model.layers.1.mlp.down_proj.weight";  // [45, 133]
  TensorFile original;
  original.read(scratch / "model" / "model.safetensors");
  const auto expect = [](const TensorFile::Tensor& tensor, DType dtype, const std::vector<std::uint64_t>& shape) {
    BOOST_CHECK(tensor.dtype == dtype);
    BOOST_TEST(tensor.shape == shape, boost::test_tools::per_element());
  };
  TensorFile file = written("int4");
  expect(file.tensors.at(down), DType::u8, {(45 * 133 + 1) / 2});
  expect(file.tensors.at(down + ".scale"), DType::f16, {45, 5});
  BOOST_TEST(!file.tensors.contains(down + ".zero_point"));
  BOOST_TEST(!file.tensors.contains("of.no.use"));
  BOOST_CHECK(file.tensors.at("model.norm.weight").bytes == original.tensors.at("model.norm.weight").bytes);

  file = written("int8");
  expect(file.tensors.at(down), DType::u8, {45, 133});
  expect(file.tensors.at(down + ".scale"), DType::f32, {45});
  expect(file.tensors.at(down + ".zero_point"), DType::f32, {45});

  file = written("int8_tensor");
  expect(file.tensors.at(down + ".zero_point"), DType::f32, {1});
  const std::string h = "model.layers.0.mlp.";
  BOOST_CHECK(file.tensors.at(h + "gate_proj.weight.scale").bytes == file.tensors.at(h + "up_proj.weight.scale").bytes);

  expect(written("float8_e5m2").tensors.at(down), DType::f8_e5m2, {45, 133});

  file = written("bfloat16");
  expect(file.tensors.at(down), DType::bf16, {45, 133});
  BOOST_TEST(file.tensors.size() == original.tensors.size() - 1);
  BOOST_CHECK(file.tensors.at("model.norm.weight").dtype == DType::f32);
}

// GPT-2 matrices stay [inputs, outputs], and all other tensors stay unchanged.
BOOST_AUTO_TEST_CASE(sixteen_bit_floats_keep_the_original_order) {
  const Scratch scratch;
  test::make_model<Gpt2>(scratch / "model", test::kSmallGpt2);
  SmallBlocks pool;
  quantize_checkpoint(scratch / "model", scratch / "out", "float16", pool);
  TensorFile original, file;
  original.read(scratch / "model" / "model.safetensors");
  file.read(scratch / "out" / "model.safetensors");
  const auto &was = original.tensors.at("transformer.h.1.mlp.c_fc.weight"),
             &is = file.tensors.at("transformer.h.1.mlp.c_fc.weight");
  BOOST_TEST(is.shape == was.shape, boost::test_tools::per_element());
  bool rounded = true;
  for (std::size_t i = 0; i < is.bytes.size() / 2; ++i) {
    float before;
    float16 after;
    std::memcpy(&before, was.bytes.data() + 4 * i, 4);
    std::memcpy(&after, is.bytes.data() + 2 * i, 2);
    rounded = rounded && after == float16(before);
  }
  BOOST_TEST(rounded);
  BOOST_CHECK(file.tensors.at("transformer.wpe.weight").bytes == original.tensors.at("transformer.wpe.weight").bytes);
}

BOOST_AUTO_TEST_CASE(small_files_are_copied_and_progress_is_told) {
  const Scratch scratch;
  ThreadPool pool(2);
  std::uint64_t last = 0, total = 0;
  const auto report =
      quantize_checkpoint(kTales, scratch / "a" / "b", "int8", pool, [&](std::uint64_t done, std::uint64_t all) {
        BOOST_TEST(done > last);
        last = done;
        total = all;
      });
  BOOST_TEST(last == total);
  BOOST_TEST(report.bytes_before == 12099584u);
  BOOST_TEST(report.bytes_after == 6475776u);
  for (const char* name : {"config.json", "vocab.json", "merges.txt", "tokenizer_config.json"}) {
    BOOST_TEST(read_text_file(scratch / "a" / "b" / name, 1 << 20) == read_text_file(kTales / name, 1 << 20));
  }
  const auto files = load_checkpoint(scratch / "a" / "b");
  BOOST_CHECK(files.tokenizer);
  BOOST_TEST(weight_code_of(files) == "int8");
  BOOST_TEST(weight_code_of(load_checkpoint(kTales)).empty());
  BOOST_TEST(weight_code_of(random_checkpoint(Gpt2::small())).empty());
}

BOOST_AUTO_TEST_CASE(existing_files_are_not_touched) {
  const Scratch scratch;
  test::make_model<Bloom>(scratch / "model", test::kSmallBloom);
  ThreadPool pool(1);
  const auto attempt = [&](const std::string& target, const std::string& format) {
    return refusal([&] { quantize_checkpoint(scratch / "model", scratch / target, format, pool); });
  };
  BOOST_TEST(mentions(attempt("model", "int8"), {"model: ", "own folder"}));
  std::filesystem::create_directory_symlink(scratch / "model", scratch / "link");
  BOOST_TEST(mentions(attempt("link", "int8"), {"link: ", "own folder"}));
  BOOST_TEST(attempt("out", "int8") == "accepted");
  BOOST_TEST(mentions(attempt("out", "int4"), {"out: ", "model already", "model.safetensors"}));
  for (const char* name : {"config.json", "model.safetensors.index.json", "tokenizer.json"}) {
    std::filesystem::create_directory(scratch / (std::string("to_") + name));
    scratch.write(std::string("to_") + name + "/" + name, "mine");
    BOOST_TEST(mentions(attempt(std::string("to_") + name, "int8"), {"model already", name}));
    BOOST_TEST(read_text_file(scratch / (std::string("to_") + name) / name, 100) == "mine");
  }
  scratch.write("file", "");
  BOOST_TEST(mentions(attempt("file", "int8"), {"file: ", "folder"}));
  BOOST_TEST(mentions(attempt("none", "int3"), {"\"int3\"", "int8_tensor", "int4_group128"}));
  BOOST_TEST(!std::filesystem::exists(scratch / "none"));
  BOOST_TEST(mentions(refusal([&] { quantize_checkpoint(scratch / "out", scratch / "twice", "int4", pool); }),
                      {"model.safetensors", "int8 already"}));
}

BOOST_AUTO_TEST_CASE(a_failure_leaves_nothing_and_names_the_tensor) {
  const Scratch scratch;
  test::make_model<Llama>(scratch / "model", test::kSmallLlama);
  TensorFile file;
  file.read(scratch / "model" / "model.safetensors");
  const std::string name = "model.layers.1.self_attn.k_proj.weight";
  const TensorFile sound = file;
  ThreadPool pool(2);
  const auto attempt = [&](float value, const std::string& format) {
    file = sound;
    file.tensors.at(name).put(5, value);
    file.write(scratch / "model" / "model.safetensors");
    const std::string message = refusal([&] { quantize_checkpoint(scratch / "model", scratch / "out", format, pool); });
    BOOST_TEST(!std::filesystem::exists(scratch / "out"));
    return message;
  };
  BOOST_TEST(mentions(attempt(65520.0f, "float16"), {"model.safetensors: " + name, "16-bit", "another format"}));
  BOOST_TEST(mentions(attempt(1e9f, "int4"), {"model.safetensors: " + name, "another format"}));
  BOOST_TEST(
      mentions(attempt(std::numeric_limits<float>::quiet_NaN(), "int8"), {"model.safetensors: " + name, "not finite"}));
  BOOST_TEST(mentions(attempt(-std::numeric_limits<float>::infinity(), "bfloat16"),
                      {"model.safetensors: " + name, "not finite"}));
  // At load, the error names the matrix that the tensor is a part of.
  attempt(65520.0f, "float16");
  using F16 = Loaded<Llama, Float16>;
  BOOST_TEST(
      mentions(refusal([&] { F16(scratch / "model"); }), {"model.safetensors: ", name, "16-bit", "another format"}));
}

// At the limits of float32, a written checkpoint reads back within the usual error; otherwise nothing is written.
BOOST_AUTO_TEST_CASE(values_at_the_end_of_float32_are_read_back_or_refused) {
  const Scratch scratch;
  test::make_model<Bloom>(scratch / "model", test::kSmallBloom);
  TensorFile file;
  file.read(scratch / "model" / "model.safetensors");
  ThreadPool pool(1);
  constexpr float kMost = std::numeric_limits<float>::max(), kLeast = std::numeric_limits<float>::denorm_min();
  std::string refused;
  // step: of the code, as a fraction of its largest value, which is `reach` scales.
  const auto attempt = [&](const std::string& format, float step, float reach, float value, const std::string& word) {
    file.tensors.at("transformer.h.0.mlp.dense_h_to_4h.weight").put(3, value);  // the rest of its row is 0
    file.write(scratch / "model" / "model.safetensors");
    const std::string message = refusal([&] {
      quantize_checkpoint(scratch / "model", scratch / "out", format, pool);
      const Loaded<Bloom, Float32> before(scratch / "model"), after(scratch / "out");
      const auto &was = before.weights->parts().layers[0].up.weight, &is = after.weights->parts().layers[0].up.weight;
      float worst = 0;
      for (int col = 0; col < 15; ++col) worst = std::max(worst, std::fabs(is.at(0, col) - was.at(0, col)));
      // A row is all zeros if its scale would be subnormal.
      const bool lost = value / reach < std::numeric_limits<float>::min();
      BOOST_TEST(worst <= (lost ? value : step * value), format << " " << word << ": " << worst << " off");
    });
    if (message != "accepted") {
      BOOST_TEST(mentions(message, {"dense_h_to_4h.weight", "another format"}), message);
      BOOST_TEST(!std::filesystem::exists(scratch / "out"));
      refused += format + " " + word + "; ";
    }
    std::filesystem::remove_all(scratch / "out");
  };
  using Case = std::tuple<const char*, float, float>;
  for (const auto& [format, step, reach] :
       {Case{"float8_e4m3", 0x1p-4f, 448.0f}, Case{"float8_e5m2", 0x1p-3f, 57344.0f}, Case{"int8", 0x1p-8f, 255.0f},
        Case{"int8_tensor", 0x1p-7f, 255.0f}, Case{"bfloat16", 0x1p-9f, 0x1p-6f}}) {
    attempt(format, step, reach, kMost, "most");
    attempt(format, step, reach, 3e38f, "3e38");
    // One range for the whole tensor cannot represent a small value next to large ones.
    if (std::string_view(format) == "int8_tensor") continue;
    for (const float value : {1e-30f, 1e-38f, kLeast}) attempt(format, step, reach, value, "small");
  }
  BOOST_TEST(refused == "bfloat16 most; ");  // bfloat16 rounds it to infinity; the other formats have a scale for it
}

// A retry must not find a folder that "has a model already".
BOOST_AUTO_TEST_CASE(a_failure_at_the_very_end_leaves_nothing) {
  const Scratch scratch;
  ThreadPool pool(1);
  const auto attempt = [&](const QuantizeProgress& progress) {
    return refusal([&] { quantize_checkpoint(kTales, scratch / "out", "int8", pool, progress); });
  };
  const std::string message = attempt([&](std::uint64_t done, std::uint64_t total) {
    if (done == total) std::filesystem::create_directory(scratch / "out" / "model.safetensors");
  });
  BOOST_TEST(mentions(message, {"model.safetensors: cannot get its name"}), message);
  BOOST_TEST(std::filesystem::remove(scratch / "out" / "model.safetensors"));
  BOOST_TEST(std::filesystem::is_empty(scratch / "out"));
  BOOST_TEST(attempt({}) == "accepted");
}

// A full disk is simulated by a file size limit of 1 MB. The small files are below it, the weights are above it.
BOOST_AUTO_TEST_CASE(a_full_disk_leaves_nothing) {
  const Scratch scratch;
  ThreadPool pool(1);
  ::rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const ::rlimit little{1u << 20, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &little);
  const std::string message = refusal([&] { quantize_checkpoint(kTales, scratch / "a" / "b" / "out", "int8", pool); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  BOOST_TEST(mentions(message, {"model.safetensors: cannot be written", "too large"}), message);
  BOOST_TEST(std::filesystem::is_empty(scratch.folder()));
}

// A folder that could not be loaded again is not written.
BOOST_AUTO_TEST_CASE(a_folder_that_cannot_be_loaded_is_not_quantised) {
  const Scratch scratch;
  ThreadPool pool(1);
  test::make_model<Gpt2>(scratch / "model", test::kSmallGpt2);
  TensorFile sound;
  sound.read(scratch / "model" / "model.safetensors");
  const auto attempt = [&] {
    const std::string message = refusal([&] { quantize_checkpoint(scratch / "model", scratch / "out", "int8", pool); });
    BOOST_TEST(std::filesystem::exists(scratch / "out") == (message == "accepted"));
    return message;
  };
  for (const std::string name : {"transformer.wpe.weight", "transformer.h.1.ln_2.bias"}) {
    TensorFile file = sound;
    file.tensors.at(name).put(7, std::numeric_limits<float>::quiet_NaN());
    file.write(scratch / "model" / "model.safetensors");
    BOOST_TEST(mentions(attempt(), {"model.safetensors: " + name + ": ", "not finite"}));
  }
  TensorFile file = sound;
  std::vector<std::uint16_t> halves(15, 0x3f80);  // 1 in bfloat16
  halves[3] = 0x7f80;
  file.add("transformer.ln_f.weight", DType::bf16, {15}, halves);
  file.write(scratch / "model" / "model.safetensors");
  BOOST_TEST(mentions(attempt(), {"model.safetensors: transformer.ln_f.weight: ", "not finite"}));

  sound.write(scratch / "model" / "model.safetensors");
  scratch.write("model/tokenizer.json", "{");
  BOOST_TEST(mentions(attempt(), {"tokenizer.json"}));
  std::filesystem::remove(scratch / "model" / "tokenizer.json");
  BOOST_TEST(attempt() == "accepted");
}

BOOST_AUTO_TEST_CASE(files_that_are_not_copied_are_named) {
  const Scratch scratch;
  ThreadPool pool(1);
  test::make_model<Bloom>(scratch / "model", test::kSmallBloom);
  const std::vector<std::string> copied = {"added_tokens.json", "chat_template.jinja"};
  for (const std::string& name : copied) scratch.write("model/" + name, name);
  scratch.write("model/README.md", "");
  scratch.write("model/two\nlines", "");
  std::filesystem::create_directory(scratch / "model" / "adapters");
  const auto report = quantize_checkpoint(scratch / "model", scratch / "out", "int8", pool);
  for (const std::string& name : copied) BOOST_TEST(read_text_file(scratch / "out" / name, 100) == name);
  const std::vector<std::string> expected = {"README.md", "adapters/", "two\\x0alines"};
  BOOST_TEST(report.files_left_out == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()
