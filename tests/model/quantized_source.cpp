// Re-encoding a model that another library quantised gives the file of the model with its decoded weights.
#include <boost/test/unit_test.hpp>

#include "../checkpoint/quantized_case.h"
#include "tenon/device/thread_pool.h"
#include "tenon/io/file.h"
#include "tenon/model/gguf_export.h"
#include "tenon/model/quantize.h"

BOOST_AUTO_TEST_SUITE(model_quantized_source)

using namespace tenon;
using namespace tenon::test;

namespace {

// The same model with float32 matrices in place of codes.
void write_decoded(const std::string& name, const std::filesystem::path& folder) {
  const ModelFiles files = load_checkpoint(kQuantizedCases / name);
  const Checkpoint& checkpoint = *files.tensors;
  QuantizedCase decoded(name);
  TensorFile floats;
  floats.metadata = decoded.file.metadata;
  for (const TensorInfo& tensor : checkpoint.tensors()) {
    if (tensor.decoder)
      floats.add(tensor.name, DType::f32, tensor.shape, values_of(checkpoint, tensor.name));
    else
      floats.tensors[tensor.name] = decoded.tensor(tensor.name);
  }
  decoded.config.erase("quantization_config");
  decoded.file = std::move(floats);
  decoded.write(folder);
}

bool same(const TensorFile& a, const TensorFile& b) {
  const auto equal = [](const auto& x, const auto& y) {
    return x.first == y.first && x.second.dtype == y.second.dtype && x.second.shape == y.second.shape &&
           x.second.bytes == y.second.bytes;
  };
  return a.metadata == b.metadata && a.tensors.size() == b.tensors.size() &&
         std::equal(a.tensors.begin(), a.tensors.end(), b.tensors.begin(), equal);
}

}  // namespace

BOOST_AUTO_TEST_CASE(re_encoding_equals_that_of_the_decoded_model) {
  ThreadPool pool(2);
  // Tensors of every kind: plain, transposed, stacked, interleaved, fused.
  for (const char* name : {"ct_int4_g32", "gptq_conv1d", "bnb_int8_conv1d", "gptq_asym_g32", "awq_per_output",
                           "gptq_8bit_asym_act_order"}) {
    const Scratch scratch;
    write_decoded(name, scratch / "decoded");
    for (const std::string format : {"int8", "int4", "bfloat16"}) {
      TensorFile ours, theirs;
      quantize_checkpoint(kQuantizedCases / name, scratch / ("ours." + format), format, pool);
      quantize_checkpoint(scratch / "decoded", scratch / ("theirs." + format), format, pool);
      ours.read(scratch / ("ours." + format) / "model.safetensors");
      theirs.read(scratch / ("theirs." + format) / "model.safetensors");
      BOOST_TEST(same(ours, theirs), std::string(name) + " as " + format);
      BOOST_TEST(load_whole(load_checkpoint(scratch / ("ours." + format))).empty());
    }
  }
}

// The converter's orders apply to the decoded matrices.
BOOST_AUTO_TEST_CASE(gguf_files_equal_those_of_the_decoded_model) {
  ThreadPool pool(2);
  for (const std::string name : {"gptq_g32", "gptq_conv1d", "bnb_nf4_conv1d", "gptq_8bit_asym_act_order"}) {
    const Scratch scratch;
    std::filesystem::create_directory(scratch / "decoded");
    write_decoded(name, scratch / "decoded" / name);  // the file names the folder
    for (const std::string type : {"float32", "q8_0"}) {
      export_gguf(kQuantizedCases / name, scratch / ("ours." + type), type, pool);
      export_gguf(scratch / "decoded" / name, scratch / ("theirs." + type), type, pool);
      const auto bytes = [&](const std::string& file) { return read_text_file(scratch / file, 1 << 22); };
      BOOST_TEST((bytes("ours." + type) == bytes("theirs." + type)), name + " as " + type);
    }
  }
}

// The blocks of bitsandbytes and the groups of `nf4` are the same where a row has a multiple of 64 columns.
BOOST_AUTO_TEST_CASE(normal_float4_of_bitsandbytes_has_no_other_rounding) {
  for (const std::string name : {"bnb_nf4", "bnb_nf4_double"}) {
    const ModelFiles files = load_checkpoint(kQuantizedCases / name);
    int matrices = 0;
    for (const TensorInfo& tensor : files.tensors->tensors()) {
      if (!tensor.decoder || tensor.shape[1] % 64 != 0) continue;
      const std::vector<float> values = values_of(*files.tensors, tensor.name);
      const int cols = static_cast<int>(tensor.shape[1]);
      CodeBlock block;
      NormalFloat4Code::encode(cols, values, {}, block);
      for (int i = 0; i < static_cast<int>(values.size()); ++i)
        BOOST_TEST_REQUIRE(NormalFloat4Code::value(block, i / cols, i % cols) == values[static_cast<std::size_t>(i)]);
      ++matrices;
    }
    BOOST_TEST(matrices > 0, name);
  }
}

// The copy holds codes of tenon, so its config.json names no other method. Everything else in it is kept.
BOOST_AUTO_TEST_CASE(the_copy_names_no_method) {
  const Scratch scratch;
  ThreadPool pool(1);
  quantize_checkpoint(kQuantizedCases / "bnb_nf4", scratch / "out", "int8", pool);
  nlohmann::json copy;
  std::ifstream(scratch / "out" / "config.json") >> copy;
  QuantizedCase source("bnb_nf4");
  source.config.erase("quantization_config");
  BOOST_TEST(copy == source.config);
}

BOOST_AUTO_TEST_CASE(codes_without_use_are_listed) {
  const Scratch scratch;
  QuantizedCase more("gptq_g32");
  for (const std::string part : {".qweight", ".qzeros", ".scales", ".g_idx"})
    more.file.tensors["of.no.use" + part] = more.tensor("model.layers.0.mlp.up_proj" + part);
  more.write(scratch.folder());
  const std::vector<std::string> unused = load_whole(load_checkpoint(scratch.folder()));
  BOOST_TEST(unused == std::vector<std::string>{"of.no.use.weight"}, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()
