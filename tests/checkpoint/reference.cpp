// The shared reference files, if they exist beside the repository. Sound files are read. Malformed files are refused
// with the words that cases.json requires.
#define BOOST_TEST_MODULE checkpoint_reference
#define BOOST_TEST_NO_MAIN
#include <boost/test/unit_test.hpp>
#include <iostream>

#include "../io/scratch.h"
#include "tenon/checkpoint/config.h"
#include "tenon/checkpoint/safetensors.h"
#include "tenon/core/finite.h"
#include "tenon/io/json.h"

using namespace tenon;
using tenon::test::mentions;
using tenon::test::refusal;

namespace {
const std::filesystem::path kShared = TENON_SOURCE_DIR "/../shared";
}

int main(int argc, char* argv[]) {
  if (!std::filesystem::exists(kShared / "malformed/dev/cases.json") ||
      !std::filesystem::exists(kShared / "golden/gpt2")) {
    std::cout << "skipped: no reference data in ../shared\n";
    return 77;
  }
  return boost::unit_test::unit_test_main([] { return true; }, argc, argv);
}

BOOST_AUTO_TEST_CASE(golden_checkpoints_are_read_whole) {
  for (const auto& folder : std::filesystem::directory_iterator(kShared / "golden")) {
    BOOST_TEST_CONTEXT(folder.path()) {
      const Checkpoint checkpoint = Checkpoint::open(folder.path());
      for (const auto& tensor : checkpoint.tensors()) {
        std::uint64_t elements = 1;
        for (const auto dim : tensor.shape) elements *= dim;
        std::vector<float> values(elements);
        checkpoint.read_all(tensor, values.data());
        BOOST_TEST(all_finite(values), tensor.name);
      }
      checkpoint.verify_unchanged();
      const ConfigFile config(folder.path());
      config.special_tokens(config.fields().positive_int("vocab_size"));
      BOOST_TEST(!config.model_type().empty());
    }
  }
}

// Faults of the layout must be found when the checkpoint is opened. Other faults need knowledge of the model.
BOOST_AUTO_TEST_CASE(malformed_layouts_are_refused) {
  const auto cases = read_json_file(kShared / "malformed/dev/cases.json", 1 << 20);
  for (const auto& each : cases.at("cases")) {
    const auto id = each.at("id").get<std::string>();
    const auto is = [&](std::string_view prefix) { return id.starts_with(prefix); };
    if (!is("st_") && !is("idx_") && !is("fs_") && !is("ok_") && !is("w_") && !is("cfg_missing") &&
        !is("cfg_truncated") && !is("cfg_two_documents"))
      continue;
    const auto folder = kShared / "malformed/dev" / id / each.at("load").at("model").get<std::string>();
    const std::string message = refusal([&] {
      const ConfigFile config(folder);
      config.special_tokens(config.fields().positive_int("vocab_size"));
      const Checkpoint checkpoint = Checkpoint::open(folder);
      if (id != "st_weight_is_bool") return;
      std::vector<float> out(1 << 20);
      for (const auto& tensor : checkpoint.tensors()) checkpoint.read_all(tensor, out.data());
    });
    BOOST_TEST_CONTEXT(id << ": " << message) {
      if (each.at("outcome") != "error") {
        BOOST_TEST(message == "accepted");
        continue;
      }
      BOOST_TEST(message != "accepted");
      for (const auto& group : each.at("mentions"))
        BOOST_TEST(std::any_of(group.begin(), group.end(),
                               [&](const Json& word) { return mentions(message, {word.get<std::string>()}); }),
                   group);
      for (const auto& word : each.at("never")) BOOST_TEST(message.find(word.get<std::string>()) == message.npos);
    }
  }
}
