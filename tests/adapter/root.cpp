// adapter_below and adapter_in_hub_cache: ids from untrusted clients lead to folders below the root, or in the hub
// cache, or are refused.
#include <boost/test/unit_test.hpp>

#include <filesystem>
#include <string>
#include <vector>

#include "../io/scratch.h"
#include "tenon/adapter/root.h"

BOOST_AUTO_TEST_SUITE(adapter_root)

using namespace tenon;
using namespace tenon::test;
namespace fs = std::filesystem;

namespace {

// A cache as huggingface_hub writes it: models--NAME with one snapshot, whose files are links to blobs.
void add_repository(const Scratch& scratch, const std::string& name, const std::string& commit) {
  const fs::path repository = scratch / ("cache/models--" + name), snapshot = repository / "snapshots" / commit;
  for (const char* folder : {"blobs", "refs"}) fs::create_directories(repository / folder);
  fs::create_directories(snapshot);
  const std::string folder = "cache/models--" + name;
  scratch.write(folder + "/refs/main", commit + "\n");
  for (const char* file : {"adapter_config.json", "adapter_model.safetensors"}) {
    scratch.write(folder + "/blobs/" + file + "-blob", "{}");
    fs::create_symlink("../../blobs/" + std::string(file) + "-blob", snapshot / file);
  }
}

// The folder of `id` in the cache, or the error, which names no path.
std::string looked_up(const Scratch& scratch, const std::string& id) {
  std::string found;
  const std::string said = refusal([&] { found = adapter_in_hub_cache(scratch / "cache", id).string(); });
  BOOST_TEST(said.find(scratch.folder().string()) == said.npos, said);
  return said == "accepted" ? found : said;
}

std::string snapshot_of(const Scratch& scratch, const std::string& name, const std::string& commit) {
  return fs::canonical(scratch / ("cache/models--" + name + "/snapshots/" + commit)).string();
}

}  // namespace

BOOST_AUTO_TEST_CASE(ids) {
  for (const char* id : {"a", "weather", "team/weather", "v1.2_x-y", "0"}) BOOST_TEST(is_adapter_id(id), id);
  for (const std::string& id :
       {std::string(), std::string("."), std::string(".."), std::string("a..b"), std::string("/a"), std::string("a/"),
        std::string("a//b"), std::string("a/b/c"), std::string("../a"), std::string("a/../b"), std::string("a b"),
        std::string("a\nb"), std::string("a\0b", 3), std::string("%2e%2e"), std::string(129, 'a'), std::string("-a"),
        std::string("a/.b"), std::string("\xc3\xa4")}) {
    BOOST_TEST(!is_adapter_id(id), id);
  }
  BOOST_TEST(is_adapter_id(std::string(128, 'a')));
}

BOOST_AUTO_TEST_CASE(links_may_not_lead_out) {
  const Scratch scratch, elsewhere;
  std::filesystem::create_directories(scratch / "root/a");
  std::filesystem::create_directories(scratch / "root-other");
  std::filesystem::create_directory_symlink(scratch / "root/a", scratch / "root/inside");
  std::filesystem::create_directory_symlink(elsewhere.folder(), scratch / "root/outside");
  std::filesystem::create_directory_symlink(scratch / "root-other", scratch / "root/sibling");
  std::filesystem::create_directory_symlink(scratch / "root", scratch / "root/itself");
  const auto at = [&](const std::string& id) { return adapter_below(scratch / "root", id); };
  BOOST_TEST(at("a") == std::filesystem::canonical(scratch / "root/a"));
  BOOST_TEST(at("inside") == std::filesystem::canonical(scratch / "root/a"));
  for (const char* id : {"outside", "sibling", "itself"}) {
    const std::string said = refusal([&] { at(id); });
    BOOST_TEST(mentions(said, {id, "outside the adapter root"}), said);
    BOOST_TEST(said.find(scratch.folder().string()) == std::string::npos);
  }
  BOOST_TEST(mentions(refusal([&] { at("nobody"); }), {"nobody", "not known"}));
  BOOST_TEST(mentions(refusal([&] { adapter_below(scratch / "nowhere", "a"); }), {"adapter root"}));
}

// Files of an adapter may be links that stay below the root, as in a download cache.
BOOST_AUTO_TEST_CASE(links_in_the_folder_may_not_lead_out) {
  const Scratch scratch, elsewhere;
  for (const char* name : {"stays", "leaves", "broken", "team/leaves"})
    std::filesystem::create_directories(scratch / "root" / name);
  scratch.write("root/config", "{}");
  elsewhere.write("secret", "{}");
  std::filesystem::create_symlink(scratch / "root/config", scratch / "root/stays/adapter_config.json");
  std::filesystem::create_symlink(scratch / "root/nothing", scratch / "root/broken/adapter_config.json");
  for (const char* name : {"leaves", "team/leaves"})
    std::filesystem::create_symlink(elsewhere / "secret", scratch / "root" / name / "part-7.safetensors");
  const auto at = [&](const std::string& id) { return adapter_below(scratch / "root", id); };
  for (const char* id : {"stays", "broken"}) BOOST_TEST(at(id) == std::filesystem::canonical(scratch / "root" / id));
  for (const char* id : {"leaves", "team/leaves"}) {
    const std::string said = refusal([&] { at(id); });
    BOOST_TEST(mentions(said, {id, "outside the adapter root"}), said);
    BOOST_TEST(said.find(elsewhere.folder().string()) == std::string::npos);
  }
}

BOOST_AUTO_TEST_CASE(ids_of_a_hub_cache) {
  for (const char* id : {"a", "org/name", "org/name@main", "a@v1.2", "org/name@refs/pr/3", "a@0123456789abcdef"})
    BOOST_TEST(is_hub_adapter_id(id), id);
  for (const std::string& id :
       {std::string(), std::string("a@"), std::string("@main"), std::string("a@../b"), std::string("a@b/../c"),
        std::string("a@/b"), std::string("a@b/"), std::string("a@b//c"), std::string("a@b@c"), std::string("a@-b"),
        std::string("a--b"), std::string("org/a--b"), std::string("a/b/c"), std::string("../a"), std::string("a b"),
        std::string("a@b\nc"), std::string(97, 'a'), std::string("a@") + std::string(129, 'b'),
        std::string("a@.git")}) {
    BOOST_TEST(!is_hub_adapter_id(id), id);
  }
  BOOST_TEST(is_hub_adapter_id(std::string(96, 'a') + "@" + std::string(128, 'b')));
}

BOOST_AUTO_TEST_CASE(snapshots_of_a_hub_cache) {
  const Scratch scratch;
  add_repository(scratch, "org--name", "c0ffee");
  add_repository(scratch, "plain", "0123");
  const std::string folder = snapshot_of(scratch, "org--name", "c0ffee");
  BOOST_TEST(looked_up(scratch, "org/name") == folder);
  BOOST_TEST(looked_up(scratch, "plain") == snapshot_of(scratch, "plain", "0123"));
  // A revision is a reference, or the snapshot's own name.
  for (const char* revision : {"main", "c0ffee"})
    BOOST_TEST(looked_up(scratch, "org/name@" + std::string(revision)) == folder);
  fs::create_directories(scratch / "cache/models--org--name/refs/refs/pr");
  scratch.write("cache/models--org--name/refs/refs/pr/3", "c0ffee");
  scratch.write("cache/models--org--name/refs/v2", "beef");
  fs::create_directories(scratch / "cache/models--org--name/snapshots/beef");
  scratch.write("cache/models--org--name/snapshots/beef/adapter_config.json", "{}");
  BOOST_TEST(looked_up(scratch, "org/name@refs/pr/3") == folder);
  BOOST_TEST(looked_up(scratch, "org/name@v2") == snapshot_of(scratch, "org--name", "beef"));
  BOOST_TEST((adapters_in_hub_cache(scratch / "cache") == std::vector<std::string>{"org/name", "plain"}));
}

BOOST_AUTO_TEST_CASE(what_a_hub_cache_lacks_is_not_known) {
  const Scratch scratch;
  add_repository(scratch, "a", "1");
  fs::create_directories(scratch / "cache/models--empty");
  add_repository(scratch, "no-ref", "1");
  fs::remove(scratch / "cache/models--no-ref/refs/main");
  add_repository(scratch, "gone", "1");
  scratch.write("cache/models--gone/refs/main", "2");
  add_repository(scratch, "model", "1");
  fs::remove(scratch / "cache/models--model/snapshots/1/adapter_config.json");
  scratch.write("cache/models--model/snapshots/1/config.json", "{}");
  add_repository(scratch, "broken", "1");
  fs::remove(scratch / "cache/models--broken/blobs/adapter_config.json-blob");
  scratch.write("cache/models--file", "{}");
  for (const char* id :
       {"nobody", "empty", "no-ref", "gone", "model", "broken", "file", "a@other", "a@refs/pr/3", "a@1/2"})
    BOOST_TEST(mentions(looked_up(scratch, id), {"adapter", id, "not known"}), id);
  BOOST_TEST(looked_up(scratch, "no-ref@1") == snapshot_of(scratch, "no-ref", "1"));
  const std::string said = refusal([&] { adapter_in_hub_cache(scratch / "nowhere", "a"); });
  BOOST_TEST(mentions(said, {"adapter a", "no hub cache"}), said);
  BOOST_TEST((adapters_in_hub_cache(scratch / "cache") == std::vector<std::string>{"a"}));
  BOOST_TEST(adapters_in_hub_cache(scratch / "nowhere").empty());
}

// References are files of the cache; what they hold is never answered.
BOOST_AUTO_TEST_CASE(references_name_snapshots_and_nothing_else) {
  const Scratch scratch;
  add_repository(scratch, "a", "1");
  for (const std::string& text :
       {std::string("../../../../secret"), std::string("/etc"), std::string(".."), std::string(), std::string("1/../1"),
        std::string("1\n1"), std::string(1000, '1'), std::string("1\0", 2)}) {
    scratch.write("cache/models--a/refs/main", text);
    const std::string said = looked_up(scratch, "a");
    BOOST_TEST(mentions(said, {"adapter a", "does not name a snapshot"}), said);
    BOOST_TEST(said.find("secret") == said.npos);
  }
}

BOOST_AUTO_TEST_CASE(links_in_a_hub_cache_may_not_lead_out) {
  const Scratch scratch, elsewhere;
  elsewhere.write("secret", "1");
  elsewhere.write("adapter_config.json", "{}");
  fs::create_directories(scratch / "cache");
  fs::create_directory_symlink(elsewhere.folder(), scratch / "cache/models--repository");
  for (const char* name : {"snapshot", "file", "other-file", "reference", "blob"}) add_repository(scratch, name, "1");
  fs::remove_all(scratch / "cache/models--snapshot/snapshots/1");
  fs::create_directory_symlink(elsewhere.folder(), scratch / "cache/models--snapshot/snapshots/1");
  fs::remove(scratch / "cache/models--file/snapshots/1/adapter_config.json");
  fs::create_symlink(elsewhere / "adapter_config.json", scratch / "cache/models--file/snapshots/1/adapter_config.json");
  fs::create_symlink(elsewhere / "secret", scratch / "cache/models--other-file/snapshots/1/part-7.safetensors");
  fs::remove(scratch / "cache/models--reference/refs/main");
  fs::create_symlink(elsewhere / "secret", scratch / "cache/models--reference/refs/main");
  fs::remove(scratch / "cache/models--blob/blobs/adapter_model.safetensors-blob");
  fs::create_symlink(elsewhere / "secret", scratch / "cache/models--blob/blobs/adapter_model.safetensors-blob");
  for (const char* id : {"repository", "snapshot", "file", "other-file", "reference", "blob"}) {
    const std::string said = looked_up(scratch, id);
    BOOST_TEST(mentions(said, {"adapter", id, "outside the hub cache"}), said);
    BOOST_TEST(said.find(elsewhere.folder().string()) == said.npos, said);
  }
  // The cache itself may be a link, and one repository may link to another.
  add_repository(scratch, "a", "1");
  fs::create_directory_symlink("models--a", scratch / "cache/models--b");
  fs::create_directory_symlink(scratch / "cache", elsewhere / "cache");
  BOOST_TEST(looked_up(scratch, "b") == snapshot_of(scratch, "a", "1"));
  BOOST_TEST(adapter_in_hub_cache(elsewhere / "cache", "a").string() == snapshot_of(scratch, "a", "1"));
}

BOOST_AUTO_TEST_SUITE_END()
