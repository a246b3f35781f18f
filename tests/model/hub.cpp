// Models in a folder like the cache of huggingface_hub: names, snapshots, links to blobs, shards.
#include "tenon/model/hub.h"

#include <boost/test/unit_test.hpp>

#include "../io/scratch.h"
#include "made_model.h"
#include "tenon/model/files.h"
#include "tenon/model/llama.h"

BOOST_AUTO_TEST_SUITE(model_hub)

using namespace tenon;
using tenon::test::refusal;
namespace fs = std::filesystem;

namespace {

// A repository in the cache. The files of `folder` become blobs, to which the snapshot links.
fs::path add_repository(const fs::path& cache, const std::string& name, const fs::path& folder) {
  const fs::path repository = cache / ("models--" + name), snapshot = repository / "snapshots" / "0a1b2c";
  fs::create_directories(repository / "blobs");
  fs::create_directories(repository / "refs");
  fs::create_directories(snapshot);
  std::ofstream(repository / "refs" / "main") << "0a1b2c";
  int number = 0;
  for (const auto& each : fs::directory_iterator(folder)) {
    const std::string blob = "blob" + std::to_string(number++);
    fs::rename(each.path(), repository / "blobs" / blob);
    fs::create_symlink("../../blobs/" + blob, snapshot / each.path().filename());
  }
  return snapshot;
}

void says(const std::string& message, const std::string& words) {
  BOOST_TEST(message.find(words) != message.npos, words << " is not in: " << message);
}

// Splits model.safetensors in two shards with an index.
void split_in_two(const fs::path& folder) {
  const test::TensorFile whole = test::made_tensors(family_of<Llama>, Llama::configure(ConfigFile(folder)));
  test::TensorFile parts[2];
  nlohmann::json map;
  std::size_t number = 0;
  for (const auto& [name, tensor] : whole.tensors) {
    const std::size_t which = number++ % 2;
    parts[which].tensors.emplace(name, tensor);
    map[name] = "model-0000" + std::to_string(which + 1) + "-of-00002.safetensors";
  }
  for (int i = 0; i < 2; ++i) parts[i].write(folder / ("model-0000" + std::to_string(i + 1) + "-of-00002.safetensors"));
  std::ofstream(folder / "model.safetensors.index.json")
      << nlohmann::json{{"metadata", {{"total_size", 1}}}, {"weight_map", map}}.dump();
  fs::remove(folder / "model.safetensors");
}

}  // namespace

BOOST_AUTO_TEST_CASE(names_are_those_of_the_hub) {
  for (const char* name : {"gpt2", "HuggingFaceTB/SmolLM2-135M-Instruct", "a/b.c_d-e", "A1/0"})
    BOOST_TEST(is_hub_name(name), name);
  for (const char* name : {"", "/", "a/", "/a", "a/b/c", "../a", "a..b", "-a", "a/-b", "a/b.", "a b", "a--b", "~/a"})
    BOOST_TEST(!is_hub_name(name), name);
  BOOST_TEST(!is_hub_name(std::string(97, 'a')));
}

BOOST_AUTO_TEST_CASE(snapshots_of_links_and_shards_load) {
  const test::Scratch scratch;
  for (const bool shards : {false, true}) {
    const fs::path folder = scratch / "made", cache = scratch / (shards ? "cache2" : "cache1");
    test::make_model<Llama>(folder, test::kSmallLlama);
    if (shards) split_in_two(folder);
    const fs::path snapshot = add_repository(cache, "org--tiny", folder);
    BOOST_TEST(find_model("org/tiny", cache) == snapshot);
    const ModelFiles files = load_checkpoint(find_model("org/tiny", cache));
    BOOST_TEST(files.tensors->shards() == (shards ? 2u : 1u));
    BOOST_TEST(Llama::configure(*files.config).hidden == 45);
    BOOST_TEST(files.tensors->find("model.norm.weight") != nullptr);
    fs::remove_all(folder);
  }
}

// A snapshot of GGUF files, and a folder.
BOOST_AUTO_TEST_CASE(a_folder_of_one_gguf_model_is_that_model) {
  const test::Scratch scratch;
  const fs::path folder = scratch / "made", cache = scratch / "cache";
  fs::create_directories(folder);
  const auto add = [&](const fs::path& to, const char* name) { std::ofstream(to / name) << "GGUF"; };
  BOOST_TEST(find_model(folder.string(), {}) == folder);
  for (const char* name : {"tiny-00001-of-00002.gguf", "tiny-00002-of-00002.gguf", "mmproj-tiny.gguf"})
    add(folder, name);
  BOOST_TEST(find_model(folder.string(), {}) == folder / "tiny-00001-of-00002.gguf");
  const fs::path snapshot = add_repository(cache, "org--tiny", folder);
  BOOST_TEST(find_model("org/tiny", cache) == snapshot / "tiny-00001-of-00002.gguf");
  add(snapshot, "other.gguf");
  const std::string message = refusal([&] { find_model("org/tiny", cache); });
  says(message, "has no config.json, but 2 GGUF models");
  says(message, "other.gguf, tiny-00001-of-00002.gguf");
  add(snapshot, "config.json");
  BOOST_TEST(find_model("org/tiny", cache) == snapshot);
}

BOOST_AUTO_TEST_CASE(names_of_models) {
  const std::pair<const char*, const char*> names[] = {{"/models/tiny", "tiny"},
                                                       {"/models/tiny/", "tiny"},
                                                       {"/models/tiny/.", "tiny"},
                                                       {"/models/tiny.gguf", "tiny.gguf"},
                                                       {"/hub/models--org--tiny-2/snapshots/0f1e2d", "tiny-2"},
                                                       {"/hub/models--org--tiny-2/snapshots/0f1e2d/", "tiny-2"},
                                                       {"/hub/models--gpt2/snapshots/0f1e2d", "gpt2"},
                                                       {"/hub/models--org--tiny/blobs/0f1e2d", "0f1e2d"},
                                                       {"/hub/tiny/snapshots/0f1e2d", "0f1e2d"}};
  for (const auto& [path, name] : names) BOOST_TEST(model_name_of(path) == name, path);
}

BOOST_AUTO_TEST_CASE(a_path_that_exists_wins) {
  const test::Scratch scratch;
  const fs::path before = fs::current_path();
  fs::create_directories(scratch / "org/tiny");
  fs::create_directories(scratch / "cache/models--org--tiny/refs");
  fs::current_path(scratch.folder());
  BOOST_TEST(find_model("org/tiny", scratch / "cache") == "org/tiny");
  fs::current_path(before);
  BOOST_TEST(find_model("/no/such/folder", scratch / "cache") == "/no/such/folder");
}

BOOST_AUTO_TEST_CASE(what_is_missing_is_named) {
  const test::Scratch scratch;
  const fs::path cache = scratch / "hub", repository = cache / "models--org--tiny";
  const auto message = [&](const fs::path& in) { return refusal([&] { find_model("org/tiny", in); }); };
  says(message({}), "HF_HOME");
  says(message(cache), repository.string());
  says(message(cache), "hf download org/tiny");
  fs::create_directories(repository / "refs");
  says(message(cache), (repository / "refs" / "main").string());
  std::ofstream(repository / "refs" / "main") << "../../etc";
  says(message(cache), "does not name a snapshot");
  std::ofstream(repository / "refs" / "main") << "abc\n";
  says(message(cache), (repository / "snapshots" / "abc").string());
  fs::create_directories(repository / "snapshots" / "abc");
  BOOST_TEST(find_model("org/tiny", cache) == repository / "snapshots" / "abc");
  says(refusal([&] { find_model("gpt2", cache); }), (cache / "models--gpt2").string());
}

BOOST_AUTO_TEST_SUITE_END()
