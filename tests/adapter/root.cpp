// adapter_below: ids from untrusted clients lead to folders below the root or are refused.
#include <boost/test/unit_test.hpp>

#include <filesystem>
#include <string>

#include "../io/scratch.h"
#include "tenon/adapter/root.h"

BOOST_AUTO_TEST_SUITE(adapter_root)

using namespace tenon;
using namespace tenon::test;

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

BOOST_AUTO_TEST_SUITE_END()
