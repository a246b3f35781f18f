#include "tenon/tokenizer/tokenizer_json.h"

#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "fixtures.h"
#include "tenon/core/error.h"
#include "tenon/tokenizer/bpe.h"

BOOST_AUTO_TEST_SUITE(tokenizer_tokenizer_json)

namespace {

using Ids = std::vector<tenon::TokenId>;
using Json = nlohmann::json;
using Kind = tenon::Error::Kind;
using tenon::Tokenizer;

Json tokenizer_of(const std::string& family) {
  return Json::parse(fixtures::read(fixtures::data() / family / "tokenizer.json"));
}

// Loads `json` without a tokenizer_config.json.
Tokenizer load(const Json& json, std::optional<int> vocab_size = {}) {
  fixtures::Folder folder;
  folder.write("tokenizer.json", json.dump());
  return Tokenizer::load(folder.path(), vocab_size);
}

void refused(const Json& json, Kind kind, const std::string& where, const std::string& word = "") {
  try {
    load(json);
    BOOST_ERROR("was accepted, should name " + where);
  } catch (const tenon::Error& error) {
    BOOST_TEST((error.kind() == kind), "the kind of: " << error.what());
    BOOST_TEST(error.where() == "tokenizer.json: " + where);
    BOOST_TEST(std::string(error.what()).find(word) != std::string::npos, "no \"" << word << "\" in: " << error.what());
  }
}

// Replaces one value of a sound file (or removes it: "-"). `field`: the field that the error must name, default
// `pointer`.
struct Change {
  const char *family, *pointer, *value;
  Kind kind;
  const char *where, *word = "";
};

void check(const Change& change) {
  BOOST_TEST_CONTEXT(change.family << change.pointer << " = " << change.value) {
    Json json = tokenizer_of(change.family);
    if (std::string_view(change.value) == "-")
      json = json.patch(Json::array({{{"op", "remove"}, {"path", change.pointer}}}));
    else
      json[Json::json_pointer(change.pointer)] = Json::parse(change.value);
    refused(json, change.kind, change.where, change.word);
  }
}

constexpr Kind kInvalid = Kind::invalid_file, kUnsupported = Kind::unsupported;

}  // namespace

// Expected: transformers 4.57.6 on the same files. make_fixtures.py writes data/.
// report: tokenizer_add_prefix_space (prefix)
// report: tokenizer_added_plain_token_llama2 (llama2_added)
// report: tokenizer_pretokenizers (tekken, deepseek_*, falcon, midm, holes, behaviors)
BOOST_AUTO_TEST_CASE(texts_as_the_reference_has_them) {
  for (const std::string family : fixtures::kFamilies) {
    const Tokenizer tokenizer = Tokenizer::load(fixtures::data() / family);
    std::istringstream lines(fixtures::read(fixtures::data() / family / "cases.jsonl"));
    int cases = 0;
    for (std::string line; std::getline(lines, line); ++cases) {
      const Json each = Json::parse(line);
      const auto text = each["text"].get<std::string>();
      const auto ids = each["ids"].get<Ids>();
      BOOST_TEST(tokenizer.encode(text) == ids, family << ": " << each["text"]);
      const Ids prompt = each.value("prompt_ids", ids);
      BOOST_TEST(tokenizer.encode_prompt(text) == prompt, family << ": prompt " << each["text"]);
      const Ids parsed = each.value("parsed_ids", ids);
      BOOST_TEST(tokenizer.encode(text, true) == parsed, family << ": parsed " << each["text"]);
      BOOST_TEST(tokenizer.encode_prompt(text, true) == each.value("parsed_prompt_ids", prompt),
                 family << each["text"]);
      const tenon::TextSpan all{0, text.size()};
      BOOST_TEST(tokenizer.encode_rendered(text, {}) == ids, family << ": by messages " << each["text"]);
      BOOST_TEST(tokenizer.encode_rendered(text, std::span(&all, 1)) == parsed,
                 family << ": rendered " << each["text"]);
      BOOST_TEST(tenon::sanitize_utf8(tokenizer.decode(ids)) == each.value("decoded", text), family << ": " << line);
    }
    BOOST_TEST(cases > 100);
  }
}

BOOST_AUTO_TEST_CASE(byte_level_text_comes_back) {
  std::mt19937 random(15);
  for (const std::string family : {"gpt2", "starcoder", "llama3", "bloom", "shuffled"}) {
    const Tokenizer tokenizer = Tokenizer::load(fixtures::data() / family);
    for (int round = 0; round < 2'000; ++round) {
      const std::string text = fixtures::random_text(random, 1 + fixtures::pick(random, 60));
      BOOST_REQUIRE_EQUAL(tokenizer.decode(tokenizer.encode(text)), text);
    }
  }
}

// Every text without U+2581 survives a round trip, because the decoder removes the prefix.
BOOST_AUTO_TEST_CASE(text_comes_back_from_llama2) {
  std::mt19937 random(16);
  const Tokenizer tokenizer = Tokenizer::load(fixtures::data() / "llama2");
  for (int round = 0; round < 5'000; ++round) {
    const std::string text = fixtures::random_text(random, 1 + fixtures::pick(random, 60));
    if (text.find("\u2581") != text.npos) continue;
    BOOST_REQUIRE_EQUAL(tokenizer.decode(tokenizer.encode(text)), text);
  }
}

BOOST_AUTO_TEST_CASE(special_tokens_are_text_and_others_are_cut_out) {
  const Tokenizer qwen2 = Tokenizer::load(fixtures::data() / "qwen2");
  const auto tool = qwen2.encode("<tool>");
  BOOST_TEST(tool.size() == 1u);
  BOOST_TEST(!qwen2.is_special(tool[0]));
  const auto end = qwen2.end_of_text().value();
  BOOST_TEST(qwen2.is_special(end));
  for (const auto id : qwen2.encode("a<|endoftext|><|x<tool>|>")) BOOST_TEST((id != end && id != tool[0]));
  BOOST_TEST(qwen2.bytes(end) == "<|endoftext|>");
  // A role makes a token special, even if tokenizer.json says it is not.
  fixtures::Folder folder;
  folder.write("tokenizer.json", fixtures::read(fixtures::data() / "qwen2" / "tokenizer.json"));
  folder.write("tokenizer_config.json", R"({"eos_token": "<tool>"})");
  const Tokenizer role = Tokenizer::load(folder.path());
  BOOST_TEST(role.end_of_text().value() == tool[0]);
  BOOST_TEST(role.encode("<tool>").size() > 1u);
}

BOOST_AUTO_TEST_CASE(tokens_around_a_prompt) {
  const Tokenizer llama3 = Tokenizer::load(fixtures::data() / "llama3");
  BOOST_TEST(llama3.encode_prompt("") == Ids{llama3.begin_of_text().value()});
  BOOST_TEST(llama3.encode("").empty());
  BOOST_TEST(llama3.before_prompt().size() == 1u);
  const Tokenizer mistral = Tokenizer::load(fixtures::data() / "mistral");
  BOOST_TEST(mistral.encode_prompt("") == Ids({1, 2}));
  BOOST_TEST(mistral.after_prompt().size() == 1u);
  BOOST_TEST(Tokenizer::load(fixtures::data() / "gpt2").encode_prompt("").empty());

  Json json = tokenizer_of("llama2");
  json["post_processor"]["single"] =
      Json::parse(R"([{"SpecialToken": {"id": "</s>", "type_id": 0}}, {"SpecialToken": {"id": "<s>", "type_id": 0}},
                      {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}])");
  json["post_processor"]["special_tokens"]["</s>"] =
      Json::parse(R"({"id": "</s>", "ids": [2, 0], "tokens": ["</s>", "<unk>"]})");
  BOOST_TEST(load(json).encode_prompt("") == Ids({2, 0, 1, 2, 0}));
}

BOOST_AUTO_TEST_CASE(families_and_their_names) {
  const auto name = [](const char* family) {
    return std::string(Tokenizer::load(fixtures::data() / family).description());
  };
  BOOST_TEST(name("gpt2") == "byte-level BPE (GPT-2)");
  BOOST_TEST(name("starcoder") == "byte-level BPE (StarCoder)");
  BOOST_TEST(name("llama3") == "byte-level BPE (Llama 3)");
  BOOST_TEST(name("qwen2") == "byte-level BPE (Qwen2)");
  BOOST_TEST(name("bloom") == "byte-level BPE (Bloom)");
  BOOST_TEST(name("llama2") == "SentencePiece BPE");
  BOOST_TEST((Tokenizer::load(fixtures::data() / "mistral").family() == tenon::TokenizerFamily::sentencepiece));
}

// ---- refusals

BOOST_AUTO_TEST_CASE(the_whole_file) {
  for (const Change& change : std::initializer_list<Change>{
           {"gpt2", "/version", "-", kInvalid, "version", "missing"},
           {"gpt2", "/version", "\"2.0\"", kUnsupported, "version", "2.0"},
           {"gpt2", "/version", "1", kInvalid, "version"},
           {"gpt2", "/tokens", "[]", kUnsupported, "tokens", "unknown"},
           {"gpt2", "/truncation", "5", kInvalid, "truncation"},
           {"gpt2", "/padding", "[]", kInvalid, "padding"},
           {"gpt2", "/model", "-", kInvalid, "model", "missing"},
           {"gpt2", "/model", "[]", kInvalid, "model", "object"},
       })
    check(change);
  fixtures::Folder folder;
  for (const std::string& text : {std::string(), std::string("{"), tokenizer_of("gpt2").dump().substr(0, 5000)}) {
    folder.write("tokenizer.json", text);
    BOOST_CHECK_EXCEPTION(Tokenizer::load(folder.path()), tenon::Error,
                          [](const tenon::Error& e) { return e.where() == "tokenizer.json"; });
  }
}

BOOST_AUTO_TEST_CASE(models) {
  for (const Change& change : std::initializer_list<Change>{
           {"llama2", "/model/type", "\"WordLevel\"", kUnsupported, "model.type", "WordLevel"},
           {"llama2", "/model/type", "\"WordPiece\"", kUnsupported, "model.type", "WordPiece"},
           {"llama2", "/model/type", "null", kInvalid, "model.type"},
           // No type and no merges: the model is unknown.
           {"gpt2", "/model/merges", "-", kInvalid, "model.type", "missing"},
           {"llama3", "/model/merges", "-", kInvalid, "model.merges", "missing"},
           {"llama3", "/model/extra", "0", kUnsupported, "model.extra", "unknown"},
           {"llama3", "/model/dropout", "0.1", kUnsupported, "model.dropout"},
           {"llama3", "/model/dropout", "2", kInvalid, "model.dropout"},
           {"llama3", "/model/continuing_subword_prefix", "\"##\"", kUnsupported, "model.continuing_subword_prefix"},
           {"llama3", "/model/end_of_word_suffix", "\"</w>\"", kUnsupported, "model.end_of_word_suffix"},
           {"llama3", "/model/ignore_merges", "1", kInvalid, "model.ignore_merges"},
           {"llama3", "/model/fuse_unk", "\"x\"", kInvalid, "model.fuse_unk"},
           {"llama3", "/model/byte_fallback", "0", kInvalid, "model.byte_fallback"},
           {"llama3", "/model/unk_token", "5", kInvalid, "model.unk_token"},
           {"llama2", "/model/unk_token", "5", kInvalid, "model.unk_token"},
           {"metaspace", "/model/unk_token", "null", kUnsupported, "model.unk_token", "vanish"},
           {"metaspace", "/model/unk_token", "\"<x>\"", kInvalid, "model.unk_token", "<x>"},
           // Unknown names are refused even if no text needs the token: the library would fail at the first text that
           // does.
           {"llama2", "/model/unk_token", "\"<x>\"", kInvalid, "model.unk_token", "<x>"},
           {"gpt2", "/model/unk_token", "\"<x>\"", kInvalid, "model.unk_token", "<x>"},
           {"holes", "/model/unk_token", "\"<|endoftext|>\"", kInvalid, "model.unk_token", "<|endoftext|>"},
           {"holes", "/model/byte_fallback", "true", kUnsupported, "model.byte_fallback"},
           {"metaspace", "/model/byte_fallback", "true", kInvalid, "model.byte_fallback", "<0x00>"},
       })
    check(change);
}

BOOST_AUTO_TEST_CASE(vocabularies_and_merges) {
  for (const Change& change : std::initializer_list<Change>{
           {"llama3", "/model/vocab", "[]", kInvalid, "model.vocab", "object"},
           {"llama3", "/model/vocab/xyz", "-1", kInvalid, "model.vocab.xyz", "-1"},
           {"llama3", "/model/vocab/xyz", "1.0", kInvalid, "model.vocab.xyz"},
           {"llama3", "/model/vocab/xyz", "5000000", kInvalid, "model.vocab.xyz", "5000000"},
           {"llama3", "/model/vocab/xyz", "5", kInvalid, "model.vocab.xyz", "duplicate"},
           {"llama3", "/model/vocab/~1", "\"5\"", kInvalid, "model.vocab./"},
           {"llama3", "/model/merges", "{}", kInvalid, "model.merges", "list"},
           {"llama3", "/model/merges/3", "[\"a\"]", kInvalid, "model.merges[3]"},
           {"llama3", "/model/merges/3", "[\"a\", \"b\", \"c\"]", kInvalid, "model.merges[3]"},
           {"llama3", "/model/merges/3", "[\"a\", 5]", kInvalid, "model.merges[3]"},
           {"llama3", "/model/merges/3", "\"a b\"", kInvalid, "model.merges[3]", "form"},
           {"llama3", "/model/merges/3", "[\"zq\", \"a\"]", kInvalid, "model.merges[3]", "zq"},
           {"llama3", "/model/merges/3", "[\"a\", \"zq\"]", kInvalid, "model.merges[3]", "zq"},
           {"llama3", "/model/merges/3", "[\"z\", \"q\"]", kInvalid, "model.merges[3]", "zq"},
           {"llama3", "/model/merges/3", "[\"\", \"a\"]", kInvalid, "model.merges[3]"},
           {"gpt2", "/model/merges/3", "[\"a\", \"b\"]", kInvalid, "model.merges[3]", "form"},
           {"gpt2", "/model/merges/3", "\"a b c\"", kInvalid, "model.merges[3]"},
           {"gpt2", "/model/merges/3", "\"ab\"", kInvalid, "model.merges[3]", "two parts"},
           {"gpt2", "/model/merges/0", "\"#version: 0.2\"", kInvalid, "model.merges[0]", "is no merge rule"},
           {"gpt2", "/model/merges/3", "7", kInvalid, "model.merges[3]"},
           {"gpt2", "/model/merges/0", "7", kInvalid, "model.merges[0]"},
       })
    check(change);
  Json twice = tokenizer_of("llama3");
  twice["model"]["merges"].push_back(twice["model"]["merges"][0]);
  refused(twice, kInvalid, "model.merges[" + std::to_string(twice["model"]["merges"].size() - 1) + "]", "twice");
}

BOOST_AUTO_TEST_CASE(normalizers_and_pre_tokenizers) {
  for (const Change& change : std::initializer_list<Change>{
           {"gpt2", "/normalizer", R"({"type": "Prepend", "prepend": ""})", kUnsupported, "normalizer.prepend"},
           {"gpt2", "/normalizer", R"({"type": "Precompiled", "precompiled_charsmap": "YQ=="})", kInvalid,
            "normalizer.precompiled_charsmap"},
           {"gpt2", "/normalizer", R"({"type": "StripAccents"})", kUnsupported, "normalizer.type", "StripAccents"},
           {"gpt2", "/normalizer", R"({"type": "NFC", "x": 1})", kUnsupported, "normalizer.x"},
           {"gpt2", "/normalizer", R"("NFC")", kInvalid, "normalizer"},
           {"qwen2", "/normalizer",
            R"({"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "BertNormalizer"}]})", kUnsupported,
            "normalizer.normalizers[1].type", "BertNormalizer"},
           {"llama2", "/normalizer/normalizers/1/content", R"("_")", kUnsupported, "pre_tokenizer"},
           {"llama2", "/normalizer/normalizers/1/pattern/String", R"("x")", kUnsupported, "pre_tokenizer"},
           {"llama2", "/normalizer/normalizers/1/pattern/String", R"("")", kInvalid,
            "normalizer.normalizers[1].pattern.String"},
           {"llama2", "/normalizer/normalizers/1", "-", kUnsupported, "pre_tokenizer"},
           {"llama2", "/normalizer/normalizers/1/pattern", R"({"Regex": " *"})", kUnsupported,
            "normalizer.normalizers[1].pattern.Regex"},
           {"llama2", "/normalizer", "null", kUnsupported, "pre_tokenizer"},
           {"mistral", "/pre_tokenizer", "null", kUnsupported, "pre_tokenizer"},
           {"mistral", "/pre_tokenizer/replacement", R"("_")", kUnsupported, "pre_tokenizer.replacement"},
           {"mistral", "/pre_tokenizer/prepend_scheme", R"("last")", kUnsupported, "pre_tokenizer.prepend_scheme"},
           {"mistral", "/pre_tokenizer/add_prefix_space", "false", kInvalid, "pre_tokenizer.add_prefix_space"},
           {"mistral", "/pre_tokenizer/split", "1", kInvalid, "pre_tokenizer.split"},
           {"mistral", "/pre_tokenizer/x", "1", kUnsupported, "pre_tokenizer.x"},
           {"gpt2", "/pre_tokenizer", "null", kUnsupported, "pre_tokenizer"},
           {"gpt2", "/pre_tokenizer/type", R"("BertPreTokenizer")", kUnsupported, "pre_tokenizer.type",
            "BertPreTokenizer"},
           {"gpt2", "/pre_tokenizer/add_prefix_space", "-", kInvalid, "pre_tokenizer.add_prefix_space", "missing"},
           {"gpt2", "/pre_tokenizer/x", "false", kUnsupported, "pre_tokenizer.x"},
           {"starcoder", "/pre_tokenizer/pretokenizers/0/individual_digits", "0", kInvalid,
            "pre_tokenizer.pretokenizers[0].individual_digits"},
           {"starcoder", "/pre_tokenizer/pretokenizers/0/type", R"("Punctuation")", kUnsupported,
            "pre_tokenizer.pretokenizers[0].individual_digits"},
           {"starcoder", "/pre_tokenizer/pretokenizers/0/type", R"("BertPreTokenizer")", kUnsupported,
            "pre_tokenizer.pretokenizers[0].type", "BertPreTokenizer"},
           {"starcoder", "/pre_tokenizer/pretokenizers/0", R"({"type": "Metaspace", "replacement": "\u2581"})",
            kUnsupported, "pre_tokenizer.pretokenizers[1].type", "ByteLevel"},
           {"starcoder", "/pre_tokenizer/pretokenizers/1", "-", kUnsupported, "pre_tokenizer"},
           {"starcoder", "/pre_tokenizer/pretokenizers", "{}", kInvalid, "pre_tokenizer.pretokenizers"},
           {"llama3", "/pre_tokenizer/pretokenizers/0/pattern/Regex", R"("(?<=a+)b")", kUnsupported,
            "pre_tokenizer.pretokenizers[0].pattern.Regex", "(?<=a+)b"},
           {"llama3", "/pre_tokenizer/pretokenizers/0/pattern", R"({"Glob": " "})", kUnsupported,
            "pre_tokenizer.pretokenizers[0].pattern.Glob"},
           {"llama3", "/pre_tokenizer/pretokenizers/0/pattern", R"({"String": ""})", kInvalid,
            "pre_tokenizer.pretokenizers[0].pattern.String"},
           {"llama3", "/pre_tokenizer/pretokenizers/0/pattern", R"({"String": "a", "Regex": "a"})", kInvalid,
            "pre_tokenizer.pretokenizers[0].pattern"},
           {"llama3", "/pre_tokenizer/pretokenizers/0/behavior", R"("Deleted")", kInvalid,
            "pre_tokenizer.pretokenizers[0].behavior", "Deleted"},
           {"llama3", "/pre_tokenizer/pretokenizers/0/invert", "1", kInvalid, "pre_tokenizer.pretokenizers[0].invert"},
       })
    check(change);
}

BOOST_AUTO_TEST_CASE(decoders_and_post_processors) {
  for (const Change& change : std::initializer_list<Change>{
           {"gpt2", "/decoder", "null", kUnsupported, "decoder"},
           {"gpt2", "/decoder/type", R"("WordPiece")", kUnsupported, "decoder.type", "WordPiece"},
           {"gpt2", "/decoder/x", "1", kUnsupported, "decoder.x"},
           {"llama2", "/decoder", R"({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true})",
            kUnsupported, "decoder.type", "ByteLevel"},
           {"llama2", "/decoder/decoders/0/content", R"("_")", kUnsupported, "decoder.decoders[0].content"},
           {"llama2", "/decoder/decoders/0/pattern/String", R"("_")", kUnsupported,
            "decoder.decoders[0].pattern.String"},
           {"llama2", "/decoder/decoders/1", "-", kUnsupported, "decoder.decoders[1].type", "Fuse"},
           {"llama2", "/decoder/decoders/3/start", "2", kInvalid, "decoder.decoders[3].start"},
           {"llama2", "/decoder/decoders/3/stop", "1", kInvalid, "decoder.decoders[3].stop"},
           {"llama2", "/decoder/decoders/3/content", R"("_")", kUnsupported, "decoder.decoders[3].content"},
           {"llama2", "/decoder/decoders", R"([{"type": "Fuse"}])", kUnsupported, "decoder.decoders[0].type"},
           {"llama2", "/decoder/decoders", "[]", kUnsupported, "decoder"},
           {"metaspace", "/decoder/replacement", R"("_")", kUnsupported, "decoder.replacement"},
           {"metaspace", "/added_tokens/3/content", R"("a b")", kUnsupported, "decoder", "a b"},
           {"llama3", "/post_processor/processors/1/type", R"("RobertaProcessing")", kUnsupported,
            "post_processor.processors[1].type", "RobertaProcessing"},
           {"llama3", "/post_processor/processors/0/x", "1", kUnsupported, "post_processor.processors[0].x"},
           {"llama3", "/post_processor/processors/1/x", "1", kUnsupported, "post_processor.processors[1].x"},
           {"llama3", "/post_processor/processors/1/special_tokens", "{}", kInvalid,
            "post_processor.processors[1].special_tokens.<|begin_of_text|>", "missing"},
           {"llama2", "/post_processor/special_tokens/<s>/ids", "[100000]", kInvalid,
            "post_processor.special_tokens.<s>.ids", "100000"},
           {"llama2", "/post_processor/special_tokens/<s>/ids", "1", kInvalid, "post_processor.special_tokens.<s>.ids"},
           {"llama2", "/post_processor/single", "[]", kInvalid, "post_processor.single"},
           {"llama2", "/post_processor/single/1/Sequence/id", R"("B")", kInvalid, "post_processor.single"},
           {"llama2", "/post_processor/single/0", R"({"Sequence": {"id": "A", "type_id": 0}})", kInvalid,
            "post_processor.single"},
           {"llama2", "/post_processor/single/0", R"({"Token": 1})", kUnsupported, "post_processor.single[0].Token"},
       })
    check(change);
  Json many = tokenizer_of("llama2");
  many["post_processor"]["special_tokens"]["<s>"]["ids"] = std::vector<int>(700, 1);
  BOOST_CHECK_NO_THROW(load(many));
  many["post_processor"]["single"].insert(many["post_processor"]["single"].begin(),
                                          many["post_processor"]["single"][0]);
  refused(many, kUnsupported, "post_processor.special_tokens.<s>.ids", "1024");
  Json twice = tokenizer_of("llama2");
  twice["post_processor"] = {{"type", "Sequence"}, {"processors", {twice["post_processor"], twice["post_processor"]}}};
  refused(twice, kUnsupported, "post_processor.processors[1].type", "once");
}

BOOST_AUTO_TEST_CASE(added_tokens) {
  for (const Change& change : std::initializer_list<Change>{
           {"qwen2", "/added_tokens", "{}", kInvalid, "added_tokens", "list"},
           {"qwen2", "/added_tokens/0", "5", kInvalid, "added_tokens[0]"},
           {"qwen2", "/added_tokens/0/x", "5", kUnsupported, "added_tokens[0].x"},
           {"qwen2", "/added_tokens/0/content", R"("")", kInvalid, "added_tokens[0].content"},
           {"qwen2", "/added_tokens/0/id", "-", kInvalid, "added_tokens[0].id"},
           {"qwen2", "/added_tokens/0/special", "-", kInvalid, "added_tokens[0].special", "missing"},
           {"qwen2", "/added_tokens/0/lstrip", "0", kInvalid, "added_tokens[0].lstrip"},
           {"qwen2", "/added_tokens/0/id", "600", kInvalid, "added_tokens[0].id", "600"},
           {"qwen2", "/added_tokens/0/content", R"("A")", kInvalid, "added_tokens[0].id", "in the vocabulary"},
           {"qwen2", "/added_tokens/1/content", R"("<|endoftext|>")", kInvalid, "added_tokens[1].id", "already"},
       })
    check(change);
  // The flags of a special token have no effect here, because it is never cut out of text.
  Json json = tokenizer_of("qwen2");
  const Ids before = load(json).encode("a <|endoftext|> b");
  for (const char* key : {"lstrip", "rstrip", "single_word", "normalized"}) json["added_tokens"][0][key] = true;
  BOOST_TEST(load(json).encode("a <|endoftext|> b") == before);
  json["added_tokens"][0]["content"] = std::string(300, 'x');
  refused(json, kUnsupported, "added_tokens[0].content", "256");
}

// A file with random changes gives a tokenizer or an Error.
BOOST_AUTO_TEST_CASE(files_cut_or_changed_anywhere) {
  std::mt19937 random(17);
  fixtures::Folder folder;
  for (const std::string family : {"qwen2", "llama2", "metaspace"}) {
    const std::string sound = fixtures::read(fixtures::data() / family / "tokenizer.json");
    const std::size_t vocabulary = sound.find("\"vocab\"");  // most of the other members precede it
    int accepted = 0;
    for (int round = 0; round < 600; ++round) {
      std::string text = sound;
      const bool cut = round % 6 == 0, anywhere = round % 3 == 0;
      const std::size_t at = fixtures::pick(random, static_cast<std::uint32_t>(anywhere ? text.size() : vocabulary));
      if (cut)
        text.resize(at);
      else
        text[at] = static_cast<char>(round % 2 == 0 ? fixtures::pick(random, 256) : 32 + fixtures::pick(random, 95));
      folder.write("tokenizer.json", text);
      try {
        const Tokenizer tokenizer = Tokenizer::load(folder.path());
        tokenizer.decode(tokenizer.encode("abc <s> \u00E9 12"));
        ++accepted;
      } catch (const tenon::Error&) {
      }
    }
    BOOST_TEST((0 < accepted && accepted < 600), family << ": " << accepted << " of 600 accepted");
  }
}

// Llama 2 with a <pad> after the rows of its embedding, and variants of it.
BOOST_AUTO_TEST_CASE(special_tokens_behind_the_embedding) {
  Json json = tokenizer_of("llama2");
  const int size = load(json).vocab_size();
  const Ids ids = load(json).encode("a <pad> b");
  Json pad = json["added_tokens"][0];
  pad["content"] = "<pad>", pad["id"] = size;
  json["added_tokens"].push_back(pad);
  BOOST_TEST(load(json).special("<pad>").value() == size);
  const Tokenizer cut = load(json, size);
  BOOST_TEST(cut.vocab_size() == size);
  BOOST_TEST(!cut.special("<pad>").has_value());
  BOOST_TEST(!cut.is_special(size));
  BOOST_TEST(cut.encode("a <pad> b") == ids);
  BOOST_TEST(cut.encode_prompt("a <pad> b").size() == ids.size() + 1);

  const auto where = [&](const Json& changed) -> std::string {
    try {
      load(changed, size);
    } catch (const tenon::Error& error) {
      return error.where();
    }
    return "accepted";
  };
  Json text = json, in_template = json, in_model = json, behind = json;
  text["added_tokens"].back()["special"] = false;  // the token would be found in text
  BOOST_TEST(where(text) == "tokenizer.json: added_tokens[3].id");
  in_template["post_processor"]["special_tokens"]["<s>"]["ids"] = {size};
  BOOST_TEST(where(in_template) == "tokenizer.json: post_processor.special_tokens.<s>.ids");
  in_model["model"]["vocab"]["<pad>"] = size;
  BOOST_TEST(where(in_model) == "tokenizer.json: model.vocab.<pad>");
  pad["content"] = "<pad2>", pad["id"] = size + 2;  // its id would be the next
  behind["added_tokens"].push_back(pad);
  BOOST_TEST(where(behind) == "tokenizer.json: added_tokens[4].id");
}

// More words than entries in the word cache, so that they replace each other.
BOOST_AUTO_TEST_CASE(words_that_share_a_place_in_memory) {
  for (const std::string family : {"gpt2", "metaspace"}) {
    const Tokenizer tokenizer = Tokenizer::load(fixtures::data() / family);
    std::mt19937 random(23);
    std::vector<std::string> words(30'000);
    for (std::string& word : words) {
      word = " ";
      for (std::uint32_t i = 2 + fixtures::pick(random, 6); i > 0; --i)
        word += static_cast<char>('a' + fixtures::pick(random, 26));
    }
    std::string text;
    Ids one_by_one;
    for (int i = 0; i < 90'000; ++i) {
      const std::string& word = words[fixtures::pick(random, 30'000)];
      text += word;
      const Ids ids = tokenizer.encode(word);
      one_by_one.insert(one_by_one.end(), ids.begin(), ids.end());
    }
    BOOST_TEST((tokenizer.encode(text) == one_by_one), family);
  }
}

// No time is checked: quadratic work would take minutes, and the test's limit is seconds.
BOOST_AUTO_TEST_CASE(long_inputs_end) {
  for (const std::string family : fixtures::kFamilies) {
    const Tokenizer tokenizer = Tokenizer::load(fixtures::data() / family);
    for (const std::string unit :
         {"a", " ", "\n", "the ", "\u2581", "\u6CB3", "\U0001F600", "<tool", "ab", "\u0301\u0323"}) {
      std::string text;
      while (text.size() < 300'000) text += unit;
      BOOST_TEST(tokenizer.encode(text).size() <= text.size() + 3);
    }
  }
}

// The expression takes exponential time. The budget of steps is per text, not per part between added tokens.
BOOST_AUTO_TEST_CASE(an_expression_that_takes_too_many_steps) {
  std::string pattern = "b";
  for (int i = 0; i < 28; ++i) pattern = "(?:a|aa)" + pattern;
  Json json = tokenizer_of("qwen2");
  json["pre_tokenizer"]["pretokenizers"][0]["pattern"] = {{"Regex", pattern}};
  const Tokenizer tokenizer = load(json);
  const auto too_many = [](const tenon::Error& error) {
    return error.kind() == Kind::capacity && error.where() == "text" &&
           std::string(error.what()).find("too many steps") != std::string::npos;
  };
  BOOST_CHECK_EXCEPTION(tokenizer.encode(std::string(100, 'a')), tenon::Error, too_many);
  const std::string part = std::string(18, 'a') + "<tool>";
  BOOST_TEST(!tokenizer.encode(part).empty());
  std::string parts;
  while (parts.size() < 1'000'000) parts += part;
  BOOST_CHECK_EXCEPTION(tokenizer.encode(parts), tenon::Error, too_many);
}

// The normalized token would have 2.3 GiB. Its size is refused first.
BOOST_AUTO_TEST_CASE(an_added_token_that_is_too_long_is_not_normalized) {
  Json json = tokenizer_of("gpt2");
  json["normalizer"] = {{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", std::string(8 << 20, 'b')}};
  Json token = json["added_tokens"][0];
  token["content"] = std::string(300, 'a');
  token["normalized"] = true;
  json["added_tokens"].push_back(token);
  const std::string where = "added_tokens[" + std::to_string(json["added_tokens"].size() - 1) + "].content";
  refused(json, kUnsupported, where, "more than 256 bytes");
}

BOOST_AUTO_TEST_SUITE_END()
