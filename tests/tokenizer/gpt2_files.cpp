#include "tenon/tokenizer/gpt2_files.h"

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "fixtures.h"
#include "tenon/core/error.h"
#include "tenon/tokenizer/bpe.h"

BOOST_AUTO_TEST_SUITE(tokenizer_gpt2_files)

namespace {

using Kind = tenon::Error::Kind;
using tenon::Tokenizer;

const std::string kVocabulary = fixtures::vocabulary({"ab", "abc", "<end>"}).dump();
constexpr const char* kMerges = "#version: 0.2\na b\nab c\n";

// Loads a folder with one wrong file, and checks which file and field the error names.
struct Case {
  fixtures::Folder folder;
  std::optional<int> vocab_size = 300;

  Case() { folder.write("vocab.json", kVocabulary).write("merges.txt", kMerges); }

  void refused(Kind kind, const std::vector<std::string>& words) const {
    try {
      Tokenizer::load(folder.path(), vocab_size);
      BOOST_ERROR("was accepted, should name " + words.back());
    } catch (const tenon::Error& error) {
      const std::string message = error.what();
      BOOST_TEST((error.kind() == kind), "the kind of: " << message);
      for (const std::string& word : words)
        BOOST_TEST(message.find(word) != message.npos, "no \"" << word << "\" in: " << message);
      BOOST_TEST(message.find(folder.path().string()) == message.npos, "a host's path in: " << message);
    }
  }
  void accepted() const { BOOST_CHECK_NO_THROW(Tokenizer::load(folder.path(), vocab_size)); }
};

// The message of an error; "" where there is none.
template <class Act>
std::string refusal(Act act) {
  try {
    act();
    return "";
  } catch (const tenon::Error& error) {
    return error.what();
  }
}

void refuse_vocab(const std::string& text, const std::vector<std::string>& words, Kind kind = Kind::invalid_file) {
  Case c;
  c.folder.write("vocab.json", text);
  auto all = words;
  all.insert(all.begin(), "vocab.json");
  c.refused(kind, all);
}

// Adds one member to a sound vocab.json.
void refuse_member(const std::string& member, const std::vector<std::string>& words) {
  refuse_vocab(kVocabulary.substr(0, kVocabulary.size() - 1) + "," + member + "}", words);
}

void refuse_merges(const std::string& text, const std::vector<std::string>& words) {
  Case c;
  c.folder.write("merges.txt", text);
  auto all = words;
  all.insert(all.begin(), "merges.txt");
  c.refused(Kind::invalid_file, all);
}

void refuse_config(const std::string& text, const std::vector<std::string>& words, Kind kind = Kind::invalid_file) {
  Case c;
  c.folder.write("tokenizer_config.json", text);
  auto all = words;
  all.insert(all.begin(), "tokenizer_config.json");
  c.refused(kind, all);
}

}  // namespace

BOOST_AUTO_TEST_CASE(sound_folders) {
  Case().accepted();
  Case c;
  c.vocab_size.reset();
  c.folder.write("merges.txt", "");
  c.accepted();
  c.folder.write("merges.txt", "a b");  // no newline at the end
  c.accepted();
  c.folder.write("merges.txt", "#version: 0.2\r\na b\r\nab c\r\n");
  BOOST_TEST(Tokenizer::load(c.folder.path()).encode("abc") == std::vector<tenon::TokenId>{257});
  // Caches of model hubs contain links.
  std::filesystem::rename(c.folder.path() / "vocab.json", c.folder.path() / "blob");
  std::filesystem::create_symlink("blob", c.folder.path() / "vocab.json");
  c.accepted();
}

BOOST_AUTO_TEST_CASE(vocab_json_that_is_no_table_of_ids) {
  refuse_vocab("", {"JSON"});
  refuse_vocab(kVocabulary.substr(0, kVocabulary.size() / 2), {"JSON"});
  refuse_vocab(kVocabulary + "{}", {"JSON"});
  refuse_vocab(R"(["a", "b"])", {"object"});
  refuse_vocab("12", {"object"});
  refuse_vocab("{}", {"byte 0"});
  refuse_member(R"("x y": "258")", {"x y", "integer"});
  refuse_member(R"("x y": 270.0)", {"x y", "integer"});
  refuse_member(R"("x y": true)", {"x y", "integer"});
  refuse_member(R"("x y": null)", {"x y", "integer"});
  refuse_member(R"("x y": {"id": 259})", {"x y", "integer"});
  refuse_vocab(R"({"a": )" + std::string(100'000, '[') + std::string(100'000, ']') + "}", {"64"});
}

BOOST_AUTO_TEST_CASE(ids_that_cannot_be) {
  refuse_member(R"("xy": -1)", {"xy", "-1"});
  refuse_member(R"("xy": 300)", {"xy", "300"});
  refuse_member(R"("xy": 2147483648)", {"xy", "2147483648"});
  refuse_member(R"("xy": 18446744073709551615)", {"xy", "18446744073709551615"});
  refuse_member(R"("xy": 1e400)", {"JSON"});
  refuse_member(R"("xy": 258)", {"xy", "duplicate", "258", "<end>"});
  refuse_member(R"("ab": 270)", {"duplicate", "ab"});
  refuse_member(R"("\u0061b": 270)", {"duplicate", "ab"});
  refuse_member(R"("": 270)", {"empty"});
  Case unbounded;  // without vocab_size: still no table of 2^31 entries
  unbounded.vocab_size.reset();
  unbounded.folder.write("vocab.json", fixtures::vocabulary({"ab", "abc"}).dump().insert(1, R"("xy": 2147483647,)"));
  unbounded.refused(Kind::invalid_file, {"vocab.json", "xy"});
  for (const int size : {0, -5, 1 << 30}) {
    Case c;
    c.vocab_size = size;
    c.refused(Kind::unsupported, {"vocab_size"});
  }
}

BOOST_AUTO_TEST_CASE(a_byte_without_a_token_is_named) {
  auto json = fixtures::vocabulary({"ab", "abc"});
  json.erase("~");
  refuse_vocab(json.dump(), {"byte 126", "~"});
  json["~"] = 126;
  json.erase(tenon::detail::spell_byte(0xC3));
  refuse_vocab(json.dump(), {"byte 195"});
}

BOOST_AUTO_TEST_CASE(a_byte_that_utf8_never_has_needs_no_token) {
  auto json = fixtures::vocabulary({"ab", "abc"});
  for (const int byte : {0xC0, 0xC1, 0xF5, 0xFF})
    json.erase(tenon::detail::spell_byte(static_cast<unsigned char>(byte)));
  Case c;
  c.folder.write("vocab.json", json.dump());
  c.accepted();
}

BOOST_AUTO_TEST_CASE(merge_rules_are_two_known_parts_of_a_known_whole) {
  refuse_merges("#version: 0.2\na b\na b c\n", {"line 3", "a b c"});
  refuse_merges("a b\nabc\n", {"line 2", "abc"});
  refuse_merges("a b\n\nab c\n", {"line 2"});
  refuse_merges("a  b\n", {"line 1"});
  refuse_merges(" a b\n", {"line 1"});
  refuse_merges("a b \n", {"line 1"});
  refuse_merges("a b\n#version: 0.2\n", {"line 2", "#version"});
  refuse_merges("a b\nz q\n", {"line 2", "zq"});
  refuse_merges("a b\nzq a\n", {"line 2", "zq"});
  refuse_merges("a b\na zq\n", {"line 2", "zq"});
  refuse_merges("a b\nab c\na b\n", {"line 3", "twice"});
  refuse_merges(std::string("a b\na\0 b\n", 9), {"line 2"});
  refuse_merges("\xFF \xFE\n", {"line 1", "\\xff"});
}

BOOST_AUTO_TEST_CASE(files_that_are_no_files) {
  Case c;
  std::filesystem::remove(c.folder.path() / "merges.txt");
  std::filesystem::create_directory(c.folder.path() / "merges.txt");
  c.refused(Kind::invalid_file, {"merges.txt", "folder"});
}

BOOST_AUTO_TEST_CASE(special_tokens_by_name_or_content) {
  Case c;
  c.folder.write("tokenizer_config.json",
                 R"({"bos_token": null, "eos_token": {"content": "<end>", "lstrip": false}, "pad_token": "<pad>",
                     "additional_special_tokens": ["<a b>", {"content": "<end>"}],
                     "added_tokens_decoder": {"258": {"content": "<end>", "special": true},
                                              "290": {"content": "<pad>", "special": true},
                                              "291": {"content": "<a b>", "special": true}},
                     "model_max_length": 1000000000000000019884624838656})");
  const Tokenizer tokenizer = Tokenizer::load(c.folder.path(), 300);
  BOOST_TEST(tokenizer.end_of_text().value() == 258);
  BOOST_TEST(tokenizer.pad().value() == 290);
  BOOST_TEST(!tokenizer.begin_of_text().has_value());
  BOOST_TEST(tokenizer.special_tokens().size() == 4u);  // <|endoftext|>, unknown by default, is the fourth
  BOOST_TEST(tokenizer.bytes(291) == "<a b>");
  BOOST_TEST(tokenizer.special("<a b>").value() == 291);
  BOOST_TEST(tokenizer.is_special(290));
}

BOOST_AUTO_TEST_CASE(a_config_that_names_no_tokens) {
  refuse_config(R"({"unk_token": 5})", {"unk_token"});
  refuse_config(R"({"eos_token": 50256})", {"eos_token", "50256"});
  refuse_config(R"({"eos_token": {"contents": "<end>"}})", {"eos_token", "content"});
  refuse_config(R"({"additional_special_tokens": "<end>"})", {"additional_special_tokens", "list"});
  refuse_config(R"({"additional_special_tokens": [5]})", {"additional_special_tokens[0]"});
  refuse_config("[]", {"object"});
  refuse_config("{", {"JSON"});
}

BOOST_AUTO_TEST_CASE(added_tokens_must_fit) {
  const auto added = [](const std::string& entry) { return R"({"added_tokens_decoder": {)" + entry + "}}"; };
  refuse_config(added(R"("-1": {"content": "<p>", "special": true})"), {"added_tokens_decoder.-1"});
  refuse_config(added(R"("+1": {"content": "<p>", "special": true})"), {"added_tokens_decoder.+1"});
  refuse_config(added(R"("0290": {"content": "<p>", "special": true})"), {"added_tokens_decoder.0290"});
  refuse_config(added(R"("99999999999999999999": {"content": "<p>", "special": true})"), {"added_tokens_decoder.9"});
  refuse_config(added(R"("": {"content": "<p>", "special": true})"), {"added_tokens_decoder"});
  refuse_config(added(R"("65": {"content": "<p>", "special": true})"), {"added_tokens_decoder.65", "duplicate"});
  refuse_config(added(R"("259": {"content": "<end>", "special": true})"), {"added_tokens_decoder.259", "258"});
  refuse_config(added(R"("290": {"content": "", "special": true})"), {"added_tokens_decoder.290", "empty"});
  refuse_config(R"({"added_tokens_decoder": []})", {"added_tokens_decoder", "object"});
}

// Special tokens that the vocabulary lacks are left out: the model has no row for them, and no text needs them.
BOOST_AUTO_TEST_CASE(special_tokens_that_the_model_cannot_take_are_left_out) {
  Case c;
  c.folder.write("tokenizer_config.json",
                 R"({"pad_token": "<p>", "unk_token": "<nowhere>", "additional_special_tokens": ["<p>"],
                     "added_tokens_decoder": {"300": {"content": "<p>", "special": true}}})");
  const Tokenizer tokenizer = Tokenizer::load(c.folder.path(), 300);
  BOOST_TEST(!tokenizer.pad().has_value());
  BOOST_TEST(!tokenizer.special("<p>").has_value());
  BOOST_TEST(tokenizer.vocab_size() == 300);
  c.folder.write("tokenizer_config.json",
                 R"({"eos_token": "<p>", "added_tokens_decoder": {"300": {"content": "<p>", "special": true}}})");
  BOOST_TEST(!Tokenizer::load(c.folder.path(), 300).end_of_text().has_value());
}

BOOST_AUTO_TEST_CASE(fields_that_would_change_ids_are_refused) {
  refuse_config(R"({"tokenizer_class": "LlamaTokenizer"})", {"tokenizer_class", "LlamaTokenizer"}, Kind::unsupported);
  refuse_config(R"({"tokenizer_class": "T5Tokenizer"})", {"tokenizer_class", "T5Tokenizer"}, Kind::unsupported);
  refuse_config(R"({"tokenizer_class": "Qwen2Tokenizer", "add_prefix_space": true})", {"add_prefix_space", "Qwen2"},
                Kind::unsupported);
  refuse_config(R"({"add_eos_token": true})", {"add_eos_token"}, Kind::unsupported);
  refuse_config(R"({"add_bos_token": true, "bos_token": null})", {"add_bos_token", "no bos_token"}, Kind::invalid_file);
  refuse_config(R"({"add_prefix_space": 1})", {"add_prefix_space"});
}

// OPT's files say so (GPT2Converter of transformers).
BOOST_AUTO_TEST_CASE(add_bos_token_puts_a_token_before_prompts) {
  Case c;
  c.folder.write("tokenizer_config.json", R"({"add_bos_token": true, "bos_token": "<end>"})");
  const Tokenizer tokenizer = Tokenizer::load(c.folder.path());
  BOOST_TEST(tokenizer.encode_prompt("ab") == (std::vector<tenon::TokenId>{*tokenizer.special("<end>"), 256}));
  BOOST_TEST(tokenizer.encode("ab") == std::vector<tenon::TokenId>{256});
}

// The same vocabulary as tokenizer.json, of which make_fixtures.py compared the ids with transformers'. Qwen2's class
// is named in either file, or is that of the model_type.
BOOST_AUTO_TEST_CASE(qwen2_reads_the_files_in_its_own_way) {
  const std::filesystem::path source = fixtures::data() / "qwen2";
  const Tokenizer expected = Tokenizer::load(source);
  nlohmann::json flags = {{"add_bos_token", true}, {"add_eos_token", true}};  // without effect, as in the class
  const auto make = [&](const char* of_tokenizer, const char* of_model, const char* type) {
    fixtures::Folder folder;
    nlohmann::json config = flags, model = nlohmann::json::object();
    if (of_tokenizer) config["tokenizer_class"] = of_tokenizer;
    if (of_model) model["tokenizer_class"] = of_model;
    if (type) model["model_type"] = type;
    fixtures::write_qwen2_files(folder, config);
    folder.write("config.json", model.dump());
    return Tokenizer::load(folder.path());
  };
  const auto text_of_ids = [&](const std::string& text) { return expected.decode(expected.encode(text)); };
  const auto differing = [&](const Tokenizer& tokenizer) {
    int texts = 0;
    std::ifstream file(source / "cases.jsonl");
    for (std::string line; std::getline(file, line);) {
      const auto text = nlohmann::json::parse(line)["text"].get<std::string>();
      const auto same = [&](bool parse_special) {
        return tokenizer.encode(text, parse_special) == expected.encode(text, parse_special);
      };
      texts += !same(false) || !same(true) || tokenizer.decode(tokenizer.encode(text)) != text_of_ids(text);
    }
    return texts;
  };
  for (const char* name : {"Qwen2Tokenizer", "Qwen2TokenizerFast"}) {
    BOOST_TEST(differing(make(name, nullptr, nullptr)) == 0);
    BOOST_TEST(differing(make(name, nullptr, "gpt2")) == 0);
    BOOST_TEST(differing(make(nullptr, name, "gpt2")) == 0);
  }
  for (const char* type : {"qwen2", "qwen3", "qwen3_moe"}) BOOST_TEST(differing(make(nullptr, nullptr, type)) == 0);
  flags = nlohmann::json::object();  // in other classes they count
  BOOST_TEST(differing(make("GPT2Tokenizer", nullptr, "qwen2")) > 0);
  BOOST_CHECK_EXCEPTION(make(nullptr, nullptr, "llama"), tenon::Error, [](const tenon::Error& error) {
    return error.where() == "config.json: model_type" && error.kind() == Kind::unsupported;
  });
}

// Without a class of its own the model_type implies one, and it may be one that cannot read these files.
BOOST_AUTO_TEST_CASE(model_types_imply_classes) {
  const auto with_model = [](const std::string& model) {
    Case c;
    c.folder.write("config.json", model);
    return refusal([&] { Tokenizer::load(c.folder.path(), c.vocab_size); });
  };
  for (const char* type : {"gpt2", "opt", "starcoder2", "phi", "qwen2"})
    BOOST_TEST(with_model(std::string(R"({"model_type": ")") + type + "\"}") == "", type);
  for (const char* type : {"llama", "falcon", "bloom", "gpt_neox", "no_such_type"})
    BOOST_TEST(with_model(std::string(R"({"model_type": ")") + type + "\"}").find("config.json: model_type") == 0,
               type);
  BOOST_TEST(with_model(R"({"model_type": "falcon", "tokenizer_class": "PreTrainedTokenizerFast"})") == "");
}

BOOST_AUTO_TEST_CASE(qwen2_strips_merge_rules) {
  Case c;
  c.folder.write("tokenizer_config.json", R"({"tokenizer_class": "Qwen2Tokenizer"})");
  c.folder.write("merges.txt", "#version: 0.2\n\n  a b \nab c\t\n\n");
  BOOST_TEST(Tokenizer::load(c.folder.path()).encode("abc") == std::vector<tenon::TokenId>{257});
  c.folder.write("tokenizer_config.json", "{}");
  c.refused(Kind::invalid_file, {"merges.txt: line 2"});
}

// Files with random changes give a tokenizer or an Error.
BOOST_AUTO_TEST_CASE(files_cut_or_changed_anywhere) {
  std::mt19937 random(9);
  const std::vector<std::pair<std::string, std::string>> files = {
      {"vocab.json", kVocabulary},
      {"merges.txt", kMerges},
      {"tokenizer_config.json",
       R"({"eos_token": {"content": "<end>"}, "added_tokens_decoder": {"290": {"content": "<p>", "special": true}}})"}};
  Case c;
  for (const auto& [name, sound] : files) {
    int accepted = 0;
    for (int round = 0; round < 600; ++round) {
      std::string text = sound;
      const std::size_t at = fixtures::pick(random, static_cast<std::uint32_t>(text.size()));
      if (round % 3 == 0)
        text.resize(at);
      else
        text[at] = static_cast<char>(fixtures::pick(random, 256));
      c.folder.write(name, text);
      std::optional<Tokenizer> tokenizer;
      try {
        tokenizer.emplace(Tokenizer::load(c.folder.path(), 300));
      } catch (const tenon::Error&) {
        continue;
      }
      BOOST_REQUIRE_EQUAL(tokenizer->decode(tokenizer->encode("abc <end> \u00E9")), "abc <end> \u00E9");
      ++accepted;
    }
    BOOST_TEST((0 < accepted && accepted < 600), name << ": " << accepted << " of 600 accepted");
    c.folder.write(name, sound);
  }
}

BOOST_AUTO_TEST_SUITE_END()
