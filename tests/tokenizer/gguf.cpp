// Tokenizers in the metadata of GGUF files. Byte-level ones give the ids of the tokenizer.json that they were made
// from; the SentencePiece one gives those of sentencepiece (make_gguf_fixture.py).
#include <boost/test/unit_test.hpp>
#include <map>

#include "../io/scratch.h"
#include "fixtures.h"
#include "tenon/io/json.h"
#include "tenon/tokenizer/bpe.h"

BOOST_AUTO_TEST_SUITE(tokenizer_gguf)

using namespace tenon;
using tenon::test::mentions;
using tenon::test::refusal;

namespace {

Json read_json(const std::filesystem::path& path) { return Json::parse(fixtures::read(path)); }

// The metadata that the converter writes for a fixture.
Json metadata_of(const std::string& family, const std::string& pre) {
  const Json tokenizer = read_json(fixtures::data() / family / "tokenizer.json");
  const Json config = read_json(fixtures::data() / family / "tokenizer_config.json");
  std::map<int, std::string> by_id;
  std::map<int, int> kinds;
  for (const auto& [token, id] : tokenizer["model"]["vocab"].items()) by_id[id.get<int>()] = token;
  for (const Json& added : tokenizer["added_tokens"]) {
    by_id[added["id"].get<int>()] = added["content"].get<std::string>();
    kinds[added["id"].get<int>()] = added["special"].get<bool>() ? 3 : 4;
  }
  Json out = {{"tokenizer.ggml.model", "gpt2"}, {"tokenizer.ggml.pre", pre}};
  Json &tokens = out["tokenizer.ggml.tokens"], &types = out["tokenizer.ggml.token_type"];
  tokens = types = Json::array();
  for (int id = 0; id <= by_id.rbegin()->first; ++id) {
    tokens.push_back(by_id.contains(id) ? by_id[id] : "[PAD" + std::to_string(id) + "]");
    types.push_back(!by_id.contains(id) ? 5 : kinds.contains(id) ? kinds[id] : 1);
  }
  for (const Json& merge : tokenizer["model"]["merges"])
    out["tokenizer.ggml.merges"].push_back(
        merge.is_string() ? merge.get<std::string>() : merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  for (const auto& [role, key] : {std::pair("bos_token", "bos"), {"eos_token", "eos"}, {"pad_token", "padding"}}) {
    const Json named = config.value(role, Json());
    for (const auto& [id, token] : by_id)
      if (named == token) out["tokenizer.ggml." + std::string(key) + "_token_id"] = static_cast<unsigned>(id);
  }
  return out;
}

Tokenizer read(const Json& metadata) { return Tokenizer::from_gguf(Fields(metadata, "model.gguf")); }

std::string refused(const Json& metadata) {
  return refusal([&] { read(metadata); });
}

struct Family {
  const char *folder, *pre;
  bool begins = false;  // the converter writes add_bos_token
};
constexpr Family kFamilies[] = {
    {"gpt2", "gpt-2"},          {"starcoder", "starcoder"}, {"starcoder", "smollm"},
    {"bloom", "bloom"},         {"llama3", "llama-bpe"},    {"qwen2", "qwen2"},
    {"tekken", "tekken", true}, {"falcon", "falcon"},       {"deepseek_coder", "deepseek-coder", true}};

}  // namespace

BOOST_AUTO_TEST_CASE(ids_are_those_of_tokenizer_json) {
  for (const Family& family : kFamilies) {
    const Tokenizer wanted = Tokenizer::load(fixtures::data() / family.folder);
    Json metadata = metadata_of(family.folder, family.pre);
    if (family.begins) metadata["tokenizer.ggml.add_bos_token"] = true;
    const Tokenizer found = read(metadata);
    std::vector<std::string> texts;
    std::istringstream lines(fixtures::read(fixtures::data() / family.folder / "cases.jsonl"));
    for (std::string line; std::getline(lines, line);) texts.push_back(Json::parse(line)["text"].get<std::string>());
    BOOST_TEST(texts.size() > 100u);
    std::mt19937 random(3);
    for (int i = 0; i < 200; ++i) texts.push_back(fixtures::random_text(random, 1 + random() % 40));
    for (const std::string& text : texts) {
      // GGUF does not keep that an added token is searched in the normalized text.
      if (text.find("caf\xC3\xA9!") != text.npos || text.find("cafe\xCC\x81!") != text.npos) continue;
      BOOST_TEST(found.encode(text) == wanted.encode(text), family.pre << ": " << text);
      BOOST_TEST(found.encode(text, true) == wanted.encode(text, true), family.pre << ": " << text);
      BOOST_TEST(found.encode_prompt(text) == wanted.encode_prompt(text), family.pre << ": " << text);
      BOOST_TEST(found.decode(found.encode(text)) == wanted.decode(wanted.encode(text)));
    }
    BOOST_TEST((found.end_of_text() == wanted.end_of_text()), family.pre);
    BOOST_TEST((found.begin_of_text() == wanted.begin_of_text()), family.pre);
  }
}

// Names whose steps are those of a model above, but for its normalizer or ignore_merges.
BOOST_AUTO_TEST_CASE(other_names_stand_for_the_steps_of_llama_cpp) {
  struct Name {
    const char *folder, *pre;
    Json change;  // of tokenizer.json
  };
  const Json merges = {{"model", {{"ignore_merges", false}}}}, plain = {{"normalizer", nullptr}};
  const Json deepseek = Json::parse(R"json({"normalizer": null, "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
    {"type": "Split", "pattern": {"Regex": "\\p{N}{1,3}"}, "behavior": "Isolated", "invert": false},
    {"type": "Split", "pattern": {"Regex": "[一-龥぀-ゟ゠-ヿ]+"}, "behavior": "Isolated", "invert": false},
    {"type": "Split", "pattern": {"Regex": "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"},
     "behavior": "Isolated", "invert": false},
    {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}]}})json");
  const std::vector<Name> names = {{"llama3", "lfm2", Json::object()},
                                   {"llama3", "falcon3", Json::object()},
                                   {"llama3", "pixtral", Json::object()},
                                   {"llama3", "midm-2.0", Json::object()},
                                   {"llama3", "dbrx", merges},
                                   {"llama3", "smaug-bpe", merges},
                                   {"llama3", "glm4", merges},
                                   {"llama3", "chatglm-bpe", merges},
                                   {"qwen2", "deepseek-r1-qwen", plain},
                                   {"qwen2", "megrez", plain},
                                   {"qwen2", "stablelm2", plain},
                                   {"gpt2", "a.x-4.0", plain},
                                   {"gpt2", "granite-docling", plain},
                                   {"gpt2", "mellum", plain},
                                   {"gpt2", "trillion", plain},
                                   {"starcoder", "minerva-7b", plain},
                                   {"gpt2", "deepseek-v3", deepseek},
                                   {"gpt2", "hunyuan-dense", deepseek}};
  for (const Name& name : names) {
    Json file = Json::parse(fixtures::read(fixtures::data() / name.folder / "tokenizer.json"));
    if (name.change.contains("pre_tokenizer")) file.erase("pre_tokenizer");
    file.merge_patch(name.change);
    const tenon::test::Scratch scratch;
    scratch.write("tokenizer.json", file.dump());
    const Tokenizer wanted = Tokenizer::load(scratch.folder()), found = read(metadata_of(name.folder, name.pre));
    std::mt19937 random(5);
    for (int i = 0; i < 300; ++i) {
      const std::string text = fixtures::random_text(random, 1 + random() % 40);
      BOOST_TEST(found.encode(text) == wanted.encode(text), name.pre << ": " << text);
    }
  }
}

BOOST_AUTO_TEST_CASE(sentencepiece_has_the_ids_of_sentencepiece) {
  const Json file = read_json(TENON_SOURCE_DIR "/tests/tokenizer/gguf_sentencepiece.json");
  const Tokenizer tokenizer = read(file["metadata"]);
  BOOST_TEST((tokenizer.family() == TokenizerFamily::sentencepiece));
  BOOST_TEST(file["cases"].size() > 300u);
  for (const Json& each : file["cases"]) {
    const auto text = each[0].get<std::string>();
    const auto ids = each[1].get<std::vector<TokenId>>();
    BOOST_TEST(tokenizer.encode(text) == ids, text);
    BOOST_TEST(tokenizer.decode(ids) == each[2].get<std::string>(), text);
    std::vector<TokenId> prompt = ids;  // a text begins with bos unless the metadata says otherwise
    prompt.insert(prompt.begin(), 1);
    BOOST_TEST(tokenizer.encode_prompt(text) == prompt);
  }
}

BOOST_AUTO_TEST_CASE(flags_decide_what_surrounds_a_text) {
  Json metadata = metadata_of("llama3", "llama-bpe");
  const TokenId bos = metadata["tokenizer.ggml.bos_token_id"], eos = metadata["tokenizer.ggml.eos_token_id"];
  BOOST_TEST(read(metadata).encode_prompt("") == std::vector<TokenId>{bos});
  metadata["tokenizer.ggml.add_bos_token"] = false;
  BOOST_TEST(read(metadata).encode_prompt("").empty());
  metadata["tokenizer.ggml.add_eos_token"] = true;
  BOOST_TEST(read(metadata).encode_prompt("") == std::vector<TokenId>{eos});
  metadata.erase("tokenizer.ggml.eos_token_id");
  BOOST_TEST(mentions(refused(metadata), {"model.gguf: tokenizer.ggml.add_eos_token", "eos_token_id is missing"}));
}

BOOST_AUTO_TEST_CASE(a_byte_without_a_token_is_dropped) {
  Json metadata = metadata_of("gpt2", "gpt-2");
  for (Json& token : metadata["tokenizer.ggml.tokens"])
    if (token == "\xC4\x80") token = "unlikely";  // U+0100 spells the byte 0
  const Tokenizer tokenizer = read(metadata);
  BOOST_TEST(tokenizer.encode(std::string("a\0b", 3)) == tokenizer.encode("ab"));
}

BOOST_AUTO_TEST_CASE(wrong_metadata_is_refused) {
  const Json sound = metadata_of("gpt2", "gpt-2");
  const Json pieces = read_json(TENON_SOURCE_DIR "/tests/tokenizer/gguf_sentencepiece.json")["metadata"];
  const auto refuses = [](const Json& base, const char* key, const Json& value, const std::vector<std::string>& words) {
    Json metadata = base;
    const std::string name = std::string("tokenizer.ggml.") + key;
    value.is_discarded() ? void(metadata.erase(name)) : void(metadata[name] = value);
    BOOST_TEST(mentions(refused(metadata), words), key << ": " << refused(metadata));
  };
  const Json none(Json::value_t::discarded);
  const std::size_t count = sound["tokenizer.ggml.tokens"].size();
  Json twice = sound["tokenizer.ggml.tokens"], invalid = twice, empty = twice;
  twice[7] = twice[9];
  invalid[7] = "\xFF";
  empty[7] = "";
  refuses(sound, "model", "bert", {"tokenizer.ggml.model", "bert", "gpt2, llama"});
  refuses(sound, "pre", "unheard-of", {"tokenizer.ggml.pre", "unheard-of", "smollm"});
  refuses(sound, "pre", none, {"tokenizer.ggml.pre", "is missing"});
  refuses(sound, "tokens", none, {"tokenizer.ggml.tokens"});
  refuses(sound, "tokens", {1, 2}, {"tokenizer.ggml.tokens", "strings"});
  refuses(sound, "tokens", twice, {"tokenizer.ggml.tokens[9]", "already"});
  refuses(sound, "tokens", invalid, {"tokenizer.ggml.tokens[7]", "UTF-8"});
  refuses(sound, "tokens", empty, {"empty"});
  refuses(sound, "token_type", {1}, {"tokenizer.ggml.token_type", std::to_string(count)});
  refuses(sound, "token_type", Json(count, 9), {"tokenizer.ggml.token_type[0]", "9"});
  refuses(sound, "merges", none, {"tokenizer.ggml.merges"});
  refuses(sound, "merges", {"a"}, {"merge rule"});
  refuses(sound, "merges", {"a unheardof"}, {"unheardof"});
  refuses(sound, "bos_token_id", count, {"tokenizer.ggml.bos_token_id"});
  refuses(pieces, "scores", none, {"tokenizer.ggml.scores", "missing"});
  refuses(pieces, "scores", {1.0}, {"tokenizer.ggml.scores"});
  refuses(pieces, "scores", Json(pieces["tokenizer.ggml.tokens"].size(), std::nan("")), {"scores[0]", "number"});
  refuses(pieces, "remove_extra_whitespaces", true, {"remove_extra_whitespaces"});
  refuses(pieces, "precompiled_charsmap", {1}, {"precompiled_charsmap"});
}

BOOST_AUTO_TEST_SUITE_END()
