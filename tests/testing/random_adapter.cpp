// Random adapters are files as PEFT writes them, of one site, and their folder is removed.
#include "tenon/testing/random_adapter.h"

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <string>

#include "tenon/checkpoint/safetensors.h"

BOOST_AUTO_TEST_SUITE(testing_random_adapter)

using namespace tenon;

namespace {

AdapterSites sites() {
  AdapterSites all{1, {}};
  all.sites.push_back({{.path = "h.0.attn.c_attn", .inputs = 8, .outputs = 24}, 0, Site::qkv, 0, {{0, 0, 24}}});
  all.sites.push_back({{.path = "h.0.attn.c_proj", .inputs = 8, .outputs = 8}, 0, Site::attn_out, 0, {{0, 0, 8}}});
  return all;
}

}  // namespace

BOOST_AUTO_TEST_CASE(an_adapter_has_the_factors_of_the_site_and_no_others) {
  const testing::RandomAdapters adapters(sites(), Site::qkv);
  const Checkpoint file =
      Checkpoint::open_file(std::filesystem::path(adapters.folder(3, 4)) / "adapter_model.safetensors");
  BOOST_TEST(file.find("base_model.model.h.0.attn.c_attn.lora_A.weight") != nullptr);
  BOOST_TEST(file.find("base_model.model.h.0.attn.c_attn.lora_B.weight") != nullptr);
  BOOST_TEST(file.find("base_model.model.h.0.attn.c_proj.lora_A.weight") == nullptr);
  BOOST_TEST(adapters.bytes(4) == 4.0 * 4 * (8 + 24));
}

BOOST_AUTO_TEST_CASE(two_sets_share_no_folder_and_folders_go_with_their_set) {
  std::string first, second;
  {
    const testing::RandomAdapters qkv(sites(), Site::qkv), out(sites(), Site::attn_out);
    first = qkv.folder(0, 2), second = out.folder(0, 2);
    BOOST_TEST(first != second);
    BOOST_TEST(qkv.folder(0, 2) == first);
    BOOST_TEST(std::filesystem::exists(first));
  }
  BOOST_TEST(!std::filesystem::exists(first));
  BOOST_TEST(!std::filesystem::exists(second));
}

BOOST_AUTO_TEST_SUITE_END()
