// Tokenizers of model folders in the metadata of GGUF files: the file's ids are the folder's.
#include <boost/test/unit_test.hpp>

#include "../io/scratch.h"
#include "fixtures.h"
#include "tenon/io/json.h"
#include "tenon/tokenizer/bpe.h"
#include "tenon/tokenizer/gguf_tokenizer_writer.h"

BOOST_AUTO_TEST_SUITE(tokenizer_gguf_writer)

using namespace tenon;
using tenon::test::mentions;
using tenon::test::refusal;
using tenon::test::Scratch;

namespace {

Json metadata_of(const std::filesystem::path& folder, const std::vector<TokenId>& ends = {},
                 std::optional<int> rows = {}) {
  const Tokenizer tokenizer = Tokenizer::load(folder, rows);
  Json out = detail::gguf_tokenizer_metadata(folder, tokenizer, tokenizer.vocab_size(), std::nullopt, ends);
  out["general.architecture"] = "llama";
  return out;
}

void same_ids(const std::filesystem::path& folder, const std::string& cases) {
  const Tokenizer wanted = Tokenizer::load(folder);
  const Json metadata = metadata_of(folder);
  const Tokenizer found = Tokenizer::from_gguf(Fields(metadata, "model.gguf"));
  BOOST_TEST(found.vocab_size() == wanted.vocab_size());
  std::vector<std::string> texts;
  std::istringstream lines(cases);
  for (std::string line; std::getline(lines, line);) texts.push_back(Json::parse(line)["text"].get<std::string>());
  std::mt19937 random(5);
  for (int i = 0; i < 200; ++i) texts.push_back(fixtures::random_text(random, 1 + random() % 40));
  for (const std::string& text : texts) {
    if (text.find("cafe\xCC\x81!") != text.npos) continue;  // GGUF does not keep that a token is searched normalized
    for (const bool special : {false, true})
      BOOST_TEST(found.encode_prompt(text, special) == wanted.encode_prompt(text, special), text);
    BOOST_TEST(found.decode(found.encode(text)) == wanted.decode(wanted.encode(text)));
  }
  BOOST_TEST((found.pad() == wanted.pad()));
}

// A folder with the tokenizer.json that a SentencePiece model of sentencepiece stands for.
void write_pieces(const Scratch& scratch) {
  const Json file = Json::parse(fixtures::read(TENON_SOURCE_DIR "/tests/tokenizer/gguf_sentencepiece.json"));
  const Fields metadata(file["metadata"], "model.gguf");
  Json tokenizer, config;
  detail::GgufTokenizer(metadata).write(tokenizer, config);
  std::filesystem::create_directories(scratch / "folder");
  scratch.write("folder/tokenizer.json", tokenizer.dump());
  scratch.write("folder/tokenizer_config.json", config.dump());
}

std::string refused(const char* folder) {
  return refusal([&] { metadata_of(fixtures::data() / folder); });
}

}  // namespace

BOOST_AUTO_TEST_CASE(ids_are_kept) {
  for (const char* family :
       {"gpt2", "starcoder", "bloom", "llama3", "qwen2", "tekken", "falcon", "deepseek_coder", "shuffled"})
    BOOST_TEST_CONTEXT(family) {
      same_ids(fixtures::data() / family, fixtures::read(fixtures::data() / family / "cases.jsonl"));
    }
}

BOOST_AUTO_TEST_CASE(pieces_of_sentencepiece_are_kept) {
  const Scratch scratch;
  write_pieces(scratch);
  same_ids(scratch / "folder", "");
  const Json file = Json::parse(fixtures::read(TENON_SOURCE_DIR "/tests/tokenizer/gguf_sentencepiece.json"));
  const Json found = metadata_of(scratch / "folder", {2});
  for (const char* key : {"model", "tokens", "token_type", "bos_token_id", "eos_token_id", "unknown_token_id"}) {
    const std::string whole = "tokenizer.ggml." + std::string(key);
    BOOST_TEST(found.value(whole, Json()) == file["metadata"].value(whole, Json()), key);
  }
  BOOST_TEST(found["tokenizer.ggml.add_space_prefix"] == true);
}

BOOST_AUTO_TEST_CASE(vocab_json_and_merges_of_qwen2_are_kept) {
  fixtures::Folder folder;
  fixtures::write_qwen2_files(folder, {{"tokenizer_class", "Qwen2Tokenizer"}});
  folder.write("merges.txt", fixtures::read(folder.path() / "merges.txt") + " \n\n");  // its class strips rules
  BOOST_TEST(metadata_of(folder.path())["tokenizer.ggml.pre"] == "qwen2");
  same_ids(folder.path(), fixtures::read(fixtures::data() / "qwen2" / "cases.jsonl"));
}

BOOST_AUTO_TEST_CASE(vocab_json_and_merges_are_kept) {
  const std::filesystem::path tales = TENON_SOURCE_DIR "/examples/models/tales";
  same_ids(tales, "");
  const Json metadata = metadata_of(tales, {4095});
  BOOST_TEST(metadata["tokenizer.ggml.model"] == "gpt2");
  BOOST_TEST(metadata["tokenizer.ggml.pre"] == "gpt-2");
  BOOST_TEST(metadata["tokenizer.ggml.eos_token_id"] == 4095);
  BOOST_TEST(metadata["tokenizer.ggml.add_bos_token"] == false);
}

BOOST_AUTO_TEST_CASE(names_kinds_and_roles) {
  const Json llama = metadata_of(fixtures::data() / "llama3", {530, 531});
  BOOST_TEST(llama["tokenizer.ggml.pre"] == "llama-bpe");
  BOOST_TEST(llama["tokenizer.ggml.add_bos_token"] == true);
  BOOST_TEST(llama["tokenizer.ggml.eos_token_id"] == 531);  // the tokenizer's own
  BOOST_TEST(llama["tokenizer.ggml.eot_token_id"] == 530);
  BOOST_TEST(!llama.contains("tokenizer.ggml.eom_token_id"));
  // Rows of the embedding without a token.
  const Json padded = metadata_of(fixtures::data() / "gpt2", {}, 600);
  BOOST_TEST(padded["tokenizer.ggml.tokens"].size() == 600u);
  BOOST_TEST(padded["tokenizer.ggml.tokens"][599] == "[PAD599]");
  BOOST_TEST(padded["tokenizer.ggml.token_type"][599] == 5);
}

BOOST_AUTO_TEST_CASE(chat_templates_are_kept) {
  const Scratch scratch;
  std::filesystem::copy(fixtures::data() / "gpt2", scratch / "folder");
  BOOST_TEST(!metadata_of(scratch / "folder").contains("tokenizer.chat_template"));
  scratch.write("folder/chat_template.jinja", "{{ messages }}");
  BOOST_TEST(metadata_of(scratch / "folder")["tokenizer.chat_template"] == "{{ messages }}");
}

BOOST_AUTO_TEST_CASE(what_gguf_cannot_say_is_refused) {
  BOOST_TEST(mentions(refused("behaviors"), {"tokenizer.json: pre_tokenizer", "no name"}));
  BOOST_TEST(mentions(refused("metaspace"), {"tokenizer.json: normalizer", "no name"}));
  BOOST_TEST(mentions(refused("plain_replace"), {"tokenizer.json", "fuse_unk"}));
  BOOST_TEST(mentions(refused("prefix"), {"tokenizer"}));           // a space in front, tokens that take white space
  BOOST_TEST(mentions(refused("llama2_added"), {"other tokens"}));  // tokens that are searched in normalized text
  BOOST_TEST(mentions(refused("llama2"), {"merge rules"}));         // some splits of tokens are no rules
  BOOST_TEST(mentions(refusal([] {
                        metadata_of(fixtures::data() / "llama3", {530, 531, 529, 0});
                      }),
                      {"config.json: eos_token_id", "3"}));
  BOOST_TEST(mentions(refused("holes_unknown"), {"tokenizer"}));
}

BOOST_AUTO_TEST_SUITE_END()
