// tokenizer.model: the ids of the library sentencepiece, and of the classes of transformers that read it
// (make_sentencepiece.py). A Unigram model in tokenizer.json: the ids of tokenizers.
#include "tenon/tokenizer/sentencepiece.h"

#include <boost/test/unit_test.hpp>
#include <cmath>

#include "../io/scratch.h"
#include "fixtures.h"
#include "sentencepiece_file.h"
#include "tenon/io/json.h"
#include "tenon/tokenizer/bpe.h"

BOOST_AUTO_TEST_SUITE(tokenizer_sentencepiece)

using namespace tenon;
using tenon::test::mentions;
using tenon::test::proto_bytes;
using tenon::test::proto_number;
using tenon::test::proto_piece;
using tenon::test::refusal;
using tenon::test::small_sentencepiece;
using tenon::test::varint;

namespace {

using Ids = std::vector<TokenId>;
const std::filesystem::path kFolder = TENON_SOURCE_DIR "/tests/tokenizer/sentencepiece";

Json read_json(const std::string& name) { return Json::parse(fixtures::read(kFolder / name)); }

Tokenizer load(const std::string& model, const Json& config = Json::object(), std::optional<int> vocab_size = {}) {
  const fixtures::Folder folder;
  std::ofstream(folder.path() / "tokenizer.model", std::ios::binary) << model;
  if (!config.empty()) std::ofstream(folder.path() / "tokenizer_config.json") << config.dump();
  return Tokenizer::load(folder.path(), vocab_size);
}

Tokenizer load_json(const Json& tokenizer) {
  const fixtures::Folder folder;
  std::ofstream(folder.path() / "tokenizer.json") << tokenizer.dump();
  return Tokenizer::load(folder.path());
}

std::string refused(const std::string& model, const Json& config = Json::object()) {
  return refusal([&] { load(model, config); });
}

// Encodes all texts of a file of cases.
void same_ids(const Tokenizer& tokenizer, const std::string& cases) {
  const Json list = read_json(cases);
  BOOST_TEST(list.size() == 400u);
  for (const Json& each : list)
    BOOST_TEST(tokenizer.encode(each[0].get<std::string>()) == each[1].get<Ids>(), cases << ": " << each[0]);
}

}  // namespace

BOOST_AUTO_TEST_CASE(ids_of_2000_texts_are_those_of_sentencepiece) {
  for (const char* name : {"bpe", "unigram", "symbols", "unigram_symbols", "unused"}) {
    const Tokenizer tokenizer = load(fixtures::read(kFolder / (std::string(name) + ".model")));
    BOOST_TEST((tokenizer.family() == TokenizerFamily::sentencepiece));
    BOOST_TEST(tokenizer.description() ==
               (std::string(name).starts_with("unigram") ? "SentencePiece unigram" : "SentencePiece BPE"));
    same_ids(tokenizer, std::string(name) + ".cases.json");
  }
}

BOOST_AUTO_TEST_CASE(prompts_are_those_of_the_classes_of_transformers) {
  for (const Json& each : read_json("classes.json")) {
    const std::string model = fixtures::read(kFolder / (each["model"].get<std::string>() + ".model"));
    const Tokenizer tokenizer = load(model, each["config"], 640);
    BOOST_TEST(each["cases"].size() > 100u);
    for (const Json& text : each["cases"])
      BOOST_TEST(tokenizer.encode_prompt(text[0].get<std::string>(), true) == text[1].get<Ids>(),
                 each["config"] << ": " << text[0]);
  }
}

BOOST_AUTO_TEST_CASE(special_tokens_and_text_again) {
  const Tokenizer tokenizer = load(small_sentencepiece(), {{"tokenizer_class", "LlamaTokenizer"}});
  BOOST_TEST(tokenizer.encode("ab b") == (Ids{6, 3, 6, 5}));
  BOOST_TEST(tokenizer.encode_prompt("ab") == (Ids{1, 6, 3}));
  BOOST_TEST(tokenizer.encode("<s>") == (Ids{6, 0}));  // ordinary characters: a run of unknown ones
  BOOST_TEST(tokenizer.encode("<s>", true) == Ids{1});
  BOOST_TEST(tokenizer.decode(Ids{6, 3, 6, 5}) == "ab b");
  BOOST_TEST((tokenizer.begin_of_text() == 1));
  BOOST_TEST((tokenizer.end_of_text() == 2));
  BOOST_TEST(tokenizer.is_special(2));
  BOOST_TEST(!tokenizer.is_special(3));
  const std::vector<TextSpan> spans{{0, 3}};
  BOOST_TEST(tokenizer.encode_rendered("<s>ab<s>", spans) == (Ids{1, 6, 3, 0}));
  BOOST_TEST(tokenizer.encode("").empty());
  BOOST_TEST(load(small_sentencepiece(), {}, 20).vocab_size() == 20);
}

BOOST_AUTO_TEST_CASE(byte_tokens_are_bytes) {
  const Tokenizer tokenizer = load(fixtures::read(kFolder / "bpe.model"));
  const std::string text = "na\xC3\xAFve \xE2\x82\xAC \xF0\x9F\x98\x80";
  BOOST_TEST(tokenizer.decode(tokenizer.encode(text)) == text);
}

BOOST_AUTO_TEST_CASE(long_texts_take_linear_time) {
  const std::string text(2'000'000, 'a');
  for (const char* name : {"bpe", "unigram"})
    BOOST_TEST(load(fixtures::read(kFolder / (std::string(name) + ".model"))).encode(text).size() > 0u);
}

BOOST_AUTO_TEST_CASE(damaged_files_are_refused_by_name) {
  const std::string sound = small_sentencepiece();
  const auto cut = [&](std::size_t bytes) { return sound.substr(0, sound.size() - bytes); };
  const std::string blob = proto_bytes(2, std::string("\0\0\0\0abc", 7));
  const std::string trie = std::string("\0\4\0\0", 4) + std::string(1024, '\0') + "no end";
  const struct {
    std::string bytes;
    std::vector<std::string> words;
  } cases[] = {
      {"", {"tokenizer.model", "no pieces"}},
      {"bm90IGEgbW9kZWw= 0\n", {"tokenizer.model"}},
      {cut(1), {"tokenizer.model", "longer than the file"}},
      {std::string(11, '\xFF'), {"tokenizer.model", "10 bytes"}},
      {sound + std::string("\x0B"), {"tokenizer.model", "wire type"}},
      {sound + std::string(1, '\0'), {"tokenizer.model", "wrong number"}},
      {sound + varint(3 << 3), {"tokenizer.model", "ends within"}},
      {sound + proto_number(3, 1), {"tokenizer.model", "field 3 has a wrong type"}},
      {sound + proto_piece("", 0, 1), {"tokenizer.model: pieces[7]", "empty"}},
      {sound + proto_piece("a", 0, 1), {"tokenizer.model: pieces[7]", "in the vocabulary already"}},
      {sound + proto_piece("\xFF", 0, 1), {"tokenizer.model: pieces[7]", "UTF-8"}},
      {sound + proto_piece(std::string("x\0", 2), 0, 1), {"tokenizer.model: pieces[7]", "NUL"}},
      {sound + proto_piece("x", std::nanf(""), 1), {"tokenizer.model: pieces[7]", "not finite"}},
      {sound + proto_piece("x", 0, 9), {"tokenizer.model: pieces[7]", "unknown type"}},
      {sound + proto_piece(std::string(8000, 'x'), 0, 1), {"tokenizer.model: pieces[7]", "8,000 bytes"}},
      {sound + proto_piece("x", 0, 2), {"tokenizer.model: pieces", "several unknown"}},
      {proto_piece("x", 0, 1), {"tokenizer.model: pieces", "no unknown token"}},
      {sound + proto_piece("<0x41>", 0, 6), {"tokenizer.model: pieces", "byte_fallback is false"}},
      {small_sentencepiece("", proto_number(35, 1)), {"tokenizer.model: pieces", "no byte token <0x00>"}},
      {small_sentencepiece("", proto_number(24, 1)), {"trainer_spec.treat_whitespace_as_suffix", "not supported"}},
      {small_sentencepiece("", proto_number(3, 4)), {"trainer_spec.model_type", "4 is not supported"}},
      {small_sentencepiece("", "", proto_bytes(2, "abc")), {"precompiled_charsmap", "too short"}},
      {sound + proto_bytes(5, proto_bytes(2, "abc")), {"denormalizer_spec.precompiled_charsmap", "not supported"}},
      {small_sentencepiece("", "", blob), {"precompiled_charsmap", "wrong size"}},
      {small_sentencepiece("", "", proto_bytes(2, trie)), {"precompiled_charsmap", "NUL"}},
  };
  for (const auto& [bytes, words] : cases)
    BOOST_TEST(mentions(refused(bytes), words), words.back() << ": " << refused(bytes));
}

BOOST_AUTO_TEST_CASE(settings_that_contradict_the_model_are_refused) {
  const std::string sound = small_sentencepiece();
  BOOST_TEST(mentions(refused(sound, {{"tokenizer_class", "GPT2Tokenizer"}}), {"tokenizer_class", "tokenizer.json"}));
  BOOST_TEST(mentions(refused(sound, {{"tokenizer_class", "LlamaTokenizer"}, {"add_prefix_space", false}}),
                      {"add_prefix_space", "add_dummy_prefix"}));
  BOOST_TEST(mentions(refusal([&] { load(sound, {}, 5); }), {"tokenizer.model: pieces", "vocab_size is 5"}));
}

BOOST_AUTO_TEST_CASE(unigram_in_tokenizer_json_has_the_ids_of_tokenizers) {
  const Json sound = read_json("unigram_json.json");
  const Tokenizer tokenizer = load_json(sound);
  BOOST_TEST(tokenizer.description() == "SentencePiece unigram");
  const std::string spelling[] = {"<s>", "</s>", "<unk>"};
  std::size_t compared = 0;
  for (const Json& each : read_json("unigram_json.cases.json")) {
    const auto text = each[0].get<std::string>();
    const bool quotes = std::any_of(std::begin(spelling), std::end(spelling),
                                    [&](const std::string& token) { return text.find(token) != text.npos; });
    BOOST_TEST(tokenizer.encode(text, true) == each[1].get<Ids>(), text);
    if (quotes) continue;  // ordinary characters, where no special tokens are parsed
    BOOST_TEST(tokenizer.encode(text) == each[1].get<Ids>(), text);
    ++compared;
  }
  BOOST_TEST(compared > 300u);
  const auto refuses = [&](const std::vector<std::string>& words, auto change) {
    Json json = sound;
    change(json["model"], json);
    const std::string message = refusal([&] { load_json(json); });
    BOOST_TEST(mentions(message, words), words[0] << ": " << message);
  };
  refuses({"model.unk_id", "null"}, [](Json& model, Json&) { model["unk_id"] = nullptr; });
  refuses({"model.unk_id"}, [](Json& model, Json&) { model["unk_id"] = 100000; });
  refuses({"model.vocab[3]"}, [](Json& model, Json&) { model["vocab"][3] = "x"; });
  refuses({"model.vocab[4]"}, [](Json& model, Json&) { model["vocab"][4] = model["vocab"][3]; });
  refuses({"model.byte_fallback"}, [](Json& model, Json&) { model["byte_fallback"] = true; });
  refuses({"model.merges"}, [](Json& model, Json&) { model["merges"] = Json::array(); });
  refuses({"model.vocab"}, [](Json& model, Json&) { model["vocab"] = Json::object(); });
  refuses({"pre_tokenizer"}, [](Json&, Json& all) {
    all["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}};
    all["decoder"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}};
  });
}

BOOST_AUTO_TEST_SUITE_END()
