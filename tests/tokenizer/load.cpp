#include "tenon/tokenizer/load.h"

#include <boost/test/unit_test.hpp>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fixtures.h"
#include "tenon/core/error.h"
#include "tenon/tokenizer/bpe.h"

BOOST_AUTO_TEST_SUITE(tokenizer_load)

namespace {

using Kind = tenon::Error::Kind;
using Ids = std::vector<tenon::TokenId>;

auto names(Kind kind, const std::string& where) {
  return [=](const tenon::Error& error) {
    BOOST_TEST_MESSAGE(error.what());
    return error.kind() == kind && error.where() == where;
  };
}

const std::string kVocabulary = fixtures::vocabulary({"ab"}).dump();

}  // namespace

BOOST_AUTO_TEST_CASE(missing_files_are_named) {
  fixtures::Folder folder;
  BOOST_CHECK_EXCEPTION(tenon::Tokenizer::load(folder.path()), tenon::Error, names(Kind::io, "tokenizer"));
  folder.write("tokenizer.model", "");
  BOOST_CHECK_EXCEPTION(tenon::Tokenizer::load(folder.path()), tenon::Error,
                        names(Kind::invalid_file, "tokenizer.model"));
  std::filesystem::remove(folder.path() / "tokenizer.model");
  folder.write("merges.txt", "a b\n");
  BOOST_CHECK_EXCEPTION(tenon::Tokenizer::load(folder.path()), tenon::Error, names(Kind::io, "vocab.json"));
  folder.write("vocab.json", kVocabulary);
  BOOST_CHECK_NO_THROW(tenon::Tokenizer::load(folder.path()));
  std::filesystem::remove(folder.path() / "merges.txt");
  BOOST_CHECK_EXCEPTION(tenon::Tokenizer::load(folder.path()), tenon::Error, names(Kind::io, "merges.txt"));
}

BOOST_AUTO_TEST_CASE(tokenizer_json_wins_and_its_errors_are_told) {
  fixtures::Folder folder;
  folder.write("vocab.json", kVocabulary).write("merges.txt", "a b\n");
  BOOST_TEST(tenon::Tokenizer::load(folder.path()).encode("ab") == Ids{256});
  folder.write("tokenizer.json", fixtures::read(fixtures::data() / "gpt2" / "tokenizer.json"));
  BOOST_TEST(tenon::Tokenizer::load(folder.path()).vocab_size() == 521);
  folder.write("tokenizer.json", "{}");
  BOOST_CHECK_EXCEPTION(tenon::Tokenizer::load(folder.path()), tenon::Error,
                        names(Kind::invalid_file, "tokenizer.json: version"));
}

BOOST_AUTO_TEST_CASE(sizes_of_the_embedding) {
  const auto folder = fixtures::data() / "gpt2";
  BOOST_TEST(tenon::Tokenizer::load(folder, 600).vocab_size() == 600);
  for (const int size : {0, -5, 1 << 30})
    BOOST_CHECK_EXCEPTION(tenon::Tokenizer::load(folder, size), tenon::Error, names(Kind::unsupported, "vocab_size"));
  const auto without_row = tenon::Tokenizer::load(folder, 520);  // <|endoftext|> has none
  BOOST_TEST(!without_row.end_of_text().has_value());
  BOOST_TEST(without_row.encode("<|endoftext|>", true).size() > 1u);
  BOOST_CHECK_EXCEPTION(tenon::Tokenizer::load(folder, 500), tenon::Error, [](const tenon::Error& error) {
    return error.kind() == Kind::invalid_file && error.where().starts_with("tokenizer.json: model.vocab");
  });
}

BOOST_AUTO_TEST_CASE(the_shared_malformed_folders) {
  const std::filesystem::path root = TENON_SOURCE_DIR "/../shared/malformed/dev";
  if (!std::filesystem::exists(root / "cases.json")) {
    std::cerr << "SKIPPED: " << root << " is not here\n";
    return;
  }
  std::ifstream file(root / "cases.json");
  const auto cases = nlohmann::json::parse(file)["cases"];
  int refused = 0, accepted = 0;
  for (const auto& each : cases) {
    const auto id = each["id"].get<std::string>();
    if (id.starts_with("ok_") && each["load"].contains("model")) {
      const auto folder = root / id / each["load"]["model"].get<std::string>();
      BOOST_CHECK_NO_THROW(tenon::Tokenizer::load(folder, 260));
      ++accepted;
    }
    if (!id.starts_with("tok_")) continue;
    ++refused;
    try {
      tenon::Tokenizer::load(root / id / "model", 260);
      BOOST_ERROR(id + " was accepted");
    } catch (const tenon::Error& error) {
      BOOST_TEST_MESSAGE(id << ": " << error.what());
      std::string message = error.what();
      for (char& c : message) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      for (const auto& group : each["mentions"]) {
        bool said = false;
        for (const auto& word : group) said = said || message.find(word.get<std::string>()) != message.npos;
        BOOST_TEST(said, id << " lacks all of " << group << ": " << message);
      }
    }
  }
  BOOST_TEST(refused == 10);
  BOOST_TEST(accepted == 5);
}

BOOST_AUTO_TEST_SUITE_END()
