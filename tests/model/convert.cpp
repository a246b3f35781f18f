// Folders with files of torch.save, written again as safetensors. Readers of models open them.
#include "tenon/model/convert.h"

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include "../checkpoint/tensor_file.h"
#include "../io/scratch.h"

BOOST_AUTO_TEST_SUITE(model_convert)

using namespace tenon;
using tenon::test::mentions;
using tenon::test::refusal;
using tenon::test::Scratch;
using tenon::test::TensorFile;

namespace {

const std::filesystem::path kCases = TENON_SOURCE_DIR "/tests/checkpoint/torch_cases";

void put(const Scratch& scratch, const std::string& name, const std::string& from) {
  std::filesystem::copy_file(kCases / from, scratch / ("source/" + name));
}

std::string text_of(const std::filesystem::path& path) { return read_text_file(path, 1 << 20); }

ConvertReport convert(const Scratch& scratch, std::uint64_t shard_bytes = ShardedWriter::kShardBytes) {
  return convert_checkpoint(scratch / "source", scratch / "target", {}, shard_bytes);
}

// A folder with small files and no weights.
struct Source {
  Scratch scratch;

  Source() {
    std::filesystem::create_directory(scratch / "source");
    scratch.write("source/config.json", R"({"quantization_config": {"quant_method": "gptq"}})");
    scratch.write("source/tokenizer.json", "{}");
    scratch.write("source/training_args.bin", "?");
  }
};

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& each : std::filesystem::directory_iterator(folder)) names.push_back(each.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

TensorFile read_all(const std::filesystem::path& folder) {
  TensorFile all;
  for (const std::string& name : names_in(folder))
    if (name.ends_with(".safetensors")) all.read(folder / name);
  return all;
}

bool same(const TensorFile& a, const TensorFile& b) {
  return std::equal(a.tensors.begin(), a.tensors.end(), b.tensors.begin(), b.tensors.end(),
                    [](const auto& x, const auto& y) {
                      return x.first == y.first && x.second.dtype == y.second.dtype &&
                             x.second.shape == y.second.shape && x.second.bytes == y.second.bytes;
                    });
}

TensorFile expected() {
  TensorFile file;
  file.read(kCases / "expected.safetensors");
  return file;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_model_keeps_tensors_and_small_files) {
  for (const char* layout : {"archive.bin", "before_1_6.bin"}) {
    const Source source;
    put(source.scratch, "pytorch_model.bin", layout);
    const ConvertReport report = convert(source.scratch);
    BOOST_TEST(!report.adapter);
    BOOST_TEST(report.tensors == 19u);
    BOOST_TEST(report.shards == 1u);
    BOOST_TEST(report.files_left_out == std::vector<std::string>{"training_args.bin"},
               boost::test_tools::per_element());
    const std::vector<std::string> names = {"config.json", "model.safetensors", "tokenizer.json"};
    BOOST_TEST(names_in(source.scratch / "target") == names, boost::test_tools::per_element());
    BOOST_TEST(text_of(source.scratch / "target/config.json") == text_of(source.scratch / "source/config.json"));
    BOOST_CHECK(same(read_all(source.scratch / "target"), expected()));
    BOOST_TEST(Checkpoint::open(source.scratch / "target").tensors().size() == 19u);
  }
}

BOOST_AUTO_TEST_CASE(shards_are_read_and_written) {
  const Source source;
  put(source.scratch, "pytorch_model-00001-of-00002.bin", "archive.bin");
  put(source.scratch, "pytorch_model-00002-of-00002.bin", "module.bin");
  const nlohmann::json index = {
      {"weight_map", {{"whole", "pytorch_model-00001-of-00002.bin"}, {"weight", "pytorch_model-00002-of-00002.bin"}}}};
  source.scratch.write("source/pytorch_model.bin.index.json", index.dump());
  const ConvertReport report = convert(source.scratch, 256);
  BOOST_TEST(report.tensors == 21u);
  BOOST_TEST(report.shards > 1u);
  BOOST_TEST(report.files_left_out.size() == 1u);
  const Checkpoint read = Checkpoint::open(source.scratch / "target");
  BOOST_TEST(read.shards() == report.shards);
  BOOST_TEST(read.tensors().size() == 21u);
  TensorFile all = read_all(source.scratch / "target");
  BOOST_TEST(all.tensors.erase("weight") + all.tensors.erase("bias") == 2u);
  BOOST_CHECK(same(all, expected()));
}

BOOST_AUTO_TEST_CASE(an_adapter_is_one_file) {
  const Source source;
  std::filesystem::remove(source.scratch / "source/config.json");
  source.scratch.write("source/adapter_config.json", R"({"r": 4})");
  put(source.scratch, "adapter_model.bin", "archive.bin");
  const ConvertReport report = convert(source.scratch, 1);
  BOOST_TEST(report.adapter);
  BOOST_TEST(report.shards == 1u);
  const std::vector<std::string> names = {"adapter_config.json", "adapter_model.safetensors", "tokenizer.json"};
  BOOST_TEST(names_in(source.scratch / "target") == names, boost::test_tools::per_element());
  BOOST_CHECK(same(read_all(source.scratch / "target"), expected()));
  BOOST_TEST(Checkpoint::open(source.scratch / "target", "adapter_model").tensors().size() == 19u);
}

BOOST_AUTO_TEST_CASE(refusals_leave_no_folder) {
  const auto refused = [](const std::function<void(const Scratch&)>& change) {
    const Source source;
    change(source.scratch);
    const std::string message = refusal([&] { convert(source.scratch); });
    BOOST_TEST(!std::filesystem::exists(source.scratch / "target"));
    return message;
  };
  BOOST_TEST(mentions(refused([](const Scratch&) {}), {"source", "pytorch_model.bin", "adapter_model.bin"}));
  BOOST_TEST(mentions(refused([](const Scratch& s) {
                        put(s, "pytorch_model.bin", "archive.bin");
                        put(s, "model.safetensors", "expected.safetensors");
                      }),
                      {"model.safetensors", "already"}));
  BOOST_TEST(mentions(refused([](const Scratch& s) { put(s, "pytorch_model.bin", "refused_payload.bin"); }),
                      {"pytorch_model.bin", "posix.system"}));
  BOOST_TEST(
      mentions(refused([](const Scratch& s) { put(s, "adapter_model.bin", "archive.bin"); }), {"adapter_config.json"}));
  BOOST_TEST(mentions(refused([](const Scratch& s) { put(s, "pytorch_model.bin", "empty.bin"); }), {"no tensor"}));
  const auto with_index = [&](const std::string& name) {
    return refused([&](const Scratch& s) {
      put(s, "part.bin", "archive.bin");
      put(s, "other.bin", "archive.bin");
      s.write("source/pytorch_model.bin.index.json",
              nlohmann::json{{"weight_map", {{"whole", "part.bin"}, {"rows", name}}}}.dump());
    });
  };
  BOOST_TEST(mentions(with_index("other.bin"), {"part.bin", "in two files"}));
  BOOST_TEST(mentions(with_index("missing.bin"), {"missing.bin"}));
  for (const std::string name : {"../part.bin", "/etc/passwd", "..", "", "a\\b"})
    BOOST_TEST(mentions(with_index(name), {"weight_map", "plain name"}), name);
  BOOST_TEST(mentions(with_index(std::string("part.bin\0x", 10)), {"weight_map", "plain name"}));
  for (const char* map : {R"({"weight": "part.bin", "x": "other.bin"})", R"({"x": "part.bin", "whole": "other.bin"})"})
    BOOST_TEST(mentions(refused([map](const Scratch& s) {
                          put(s, "part.bin", "module.bin");
                          put(s, "other.bin", "archive.bin");
                          s.write("source/pytorch_model.bin.index.json", "{\"weight_map\": " + std::string(map) + "}");
                        }),
                        {"weight_map: x", "does not hold"}));
  BOOST_TEST(mentions(refused([](const Scratch& s) {
                        put(s, "part.bin", "module.bin");
                        put(s, "other.bin", "archive.bin");
                        s.write("source/pytorch_model.bin.index.json",
                                R"({"weight_map": {"weight": "other.bin", "bias": "part.bin"}})");
                      }),
                      {"weight_map: weight", "other.bin, which does not hold"}));
  BOOST_TEST(mentions(refused([](const Scratch& s) { s.write("source/pytorch_model.bin.index.json", "{}"); }),
                      {"weight_map", "missing"}));
  BOOST_TEST(mentions(refused([](const Scratch& s) {
                        std::string bytes = text_of(kCases / "before_1_6.bin");
                        bytes.replace(bytes.find("columns"), 2, "\xff\xfe");
                        s.write("source/pytorch_model.bin", bytes);
                      }),
                      {"not valid UTF-8"}));
}

BOOST_AUTO_TEST_CASE(an_existing_target_is_not_touched) {
  const Source source;
  put(source.scratch, "pytorch_model.bin", "archive.bin");
  std::filesystem::create_directory(source.scratch / "target");
  BOOST_TEST(mentions(refusal([&] { convert(source.scratch); }), {"target"}));
  BOOST_TEST(names_in(source.scratch / "target").empty());
}

BOOST_AUTO_TEST_SUITE_END()
