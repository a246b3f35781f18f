// Tensor names of old uploads: without the model's prefix, with buffers that the classes had, with a copy of a tied
// head. transformers loads all of them (modeling_utils.py, _get_key_renaming_mapping).
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "../checkpoint/quantized_case.h"
#include "../checkpoint/tensor_file.h"
#include "../io/scratch.h"
#include "tenon/model/any_family.h"
#include "tenon/model/files.h"

BOOST_AUTO_TEST_SUITE(model_old_names)

using namespace tenon;
using namespace tenon::test;

namespace {

const std::filesystem::path kGolden = TENON_SOURCE_DIR "/tests/golden";

struct Case {
  std::string name, prefix;
  bool tied = false;
};

std::vector<Case> cases() {
  std::vector<Case> out;
  for (const auto& each : std::filesystem::directory_iterator(kGolden)) {
    if (!std::filesystem::exists(each.path() / "model.safetensors")) continue;
    const ConfigFile config(each.path());
    if (config.reads_images()) continue;  // their tensors are renamed as they are opened
    const Family& family = find_family(BuiltInModels{}, config.model_type());
    out.push_back(
        {each.path().filename().string(), std::string(family.name_prefix), family.configure(config).tied_head});
  }
  return out;
}

// The values of all parts of the model, one after another.
std::vector<float> values_of_model(const std::filesystem::path& folder) {
  const ModelFiles files = load_checkpoint(folder);
  std::vector<float> all;
  const Family& family = find_family(BuiltInModels{}, model_type_of(files));
  const ModelConfig config = family.configure(*files.config);
  const DecoderSpec spec = family.tensors(config);
  const TensorSource source(files, family.name_prefix);
  source.check(spec, config.tied_head);
  const auto more = [&](Shape shape) {
    const std::size_t at = all.size();
    all.resize(at + static_cast<std::size_t>(shape.rows) * static_cast<std::size_t>(shape.cols));
    return all.data() + at;
  };
  const auto matrix = [&](const MatrixSpec& m) { source.read(m, 0, m.shape.rows, more(m.shape)); };
  const auto vector = [&](const VectorSpec& v) { source.read(v, more(v.shape)); };
  visit_parts(spec, config.tied_head, {matrix, matrix, vector});
  return all;
}

// A copy of the folder with other tensors.
template <class Change>
std::filesystem::path changed(const Scratch& scratch, const std::string& name, Change change) {
  TensorFile file;
  file.read(kGolden / name / "model.safetensors");
  change(file);
  const std::filesystem::path folder = scratch / name;
  std::filesystem::create_directories(folder);
  std::filesystem::copy_file(kGolden / name / "config.json", folder / "config.json");
  file.write(folder / "model.safetensors");
  return folder;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_prefix_may_be_missing) {
  std::size_t families = 0;
  for (const Case& each : cases()) {
    const Scratch scratch;
    std::size_t renamed = 0;
    const auto folder = changed(scratch, each.name, [&](TensorFile& file) {
      std::map<std::string, TensorFile::Tensor> tensors;
      for (const auto& [name, tensor] : file.tensors) {
        const bool prefixed = name.starts_with(each.prefix);
        renamed += prefixed;
        tensors[prefixed ? name.substr(each.prefix.size()) : name] = tensor;
      }
      file.tensors = tensors;
    });
    BOOST_TEST(renamed > 0u, each.name);
    BOOST_TEST((values_of_model(folder) == values_of_model(kGolden / each.name)), each.name);
    ++families;
  }
  BOOST_TEST(families >= 20u);
}

BOOST_AUTO_TEST_CASE(buffers_of_old_classes_are_listed_and_not_read) {
  for (const Case& each : cases()) {
    const Scratch scratch;
    std::vector<std::string> buffers = {
        each.prefix + "h.0.attn.bias", each.prefix + "h.0.attn.masked_bias", each.prefix + "h.0.attn.attention.bias",
        each.prefix + "layers.0.attention.rotary_emb.inv_freq", each.prefix + "layers.0.self_attn.rotary_emb.inv_freq"};
    const auto folder = changed(scratch, each.name, [&](TensorFile& file) {
      for (const std::string& name : buffers) file.add<std::uint8_t>(name, DType::boolean, {1, 1, 2, 2}, {1, 0, 1, 1});
      if (!each.tied) return;
      buffers.push_back("lm_head.weight");  // old files have a copy of the embedding; the embedding decides
      file.add<float>(buffers.back(), DType::f32, {1, 2}, {7, 7});
    });
    BOOST_TEST((values_of_model(folder) == values_of_model(kGolden / each.name)), each.name);
    const std::vector<std::string> unused = load_whole(load_checkpoint(folder));
    BOOST_TEST(std::set(unused.begin(), unused.end()) == std::set(buffers.begin(), buffers.end()),
               boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_SUITE_END()
