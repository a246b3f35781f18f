#include "tenon/tokenizer/tokenizer_config.h"

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "fixtures.h"
#include "tenon/core/error.h"
#include "tenon/tokenizer/bpe.h"

BOOST_AUTO_TEST_SUITE(tokenizer_tokenizer_config)

// The file with a tokenizer.json. gpt2_files.cpp tests it with vocab.json.
namespace {

using Ids = std::vector<tenon::TokenId>;
using Kind = tenon::Error::Kind;
using tenon::Tokenizer;

constexpr Kind kInvalid = Kind::invalid_file, kUnsupported = Kind::unsupported;

// A tokenizer loaded with config.json and, unless it is empty, tokenizer_config.json.
Tokenizer with_model(const std::string& family, const std::string& model, const std::string& config = "") {
  fixtures::Folder folder;
  folder.write("tokenizer.json", fixtures::read(fixtures::data() / family / "tokenizer.json"));
  folder.write("config.json", model);
  if (!config.empty()) folder.write("tokenizer_config.json", config);
  return Tokenizer::load(folder.path());
}

Tokenizer with_config(const std::string& family, const std::string& config) {
  fixtures::Folder folder;
  folder.write("tokenizer.json", fixtures::read(fixtures::data() / family / "tokenizer.json"));
  folder.write("tokenizer_config.json", config);
  return Tokenizer::load(folder.path());
}

void refused(const std::string& family, const std::string& config, Kind kind, const std::string& where) {
  try {
    with_config(family, config);
    BOOST_ERROR(config + " was accepted, should name " + where);
  } catch (const tenon::Error& error) {
    BOOST_TEST((error.kind() == kind), "the kind of: " << error.what());
    BOOST_TEST(error.where() == "tokenizer_config.json" + (where.empty() ? "" : ": " + where));
  }
}

Ids around(const std::string& family, const std::string& config) {
  return with_config(family, config).encode_prompt("");
}

}  // namespace

// Expected: transformers 4.57.6, tokenization_llama_fast.py: update_post_processor.
BOOST_AUTO_TEST_CASE(the_llama_class_writes_its_own_template) {
  const auto llama = [](const std::string& more) { return R"({"tokenizer_class": "LlamaTokenizer")" + more + "}"; };
  BOOST_TEST(around("llama2", llama("")) == Ids({1}));  // add_bos_token is true, bos_token <s>
  BOOST_TEST(around("llama2", llama(R"(, "add_bos_token": false)")) == Ids());
  BOOST_TEST(around("llama2", llama(R"(, "add_bos_token": null)")) == Ids());
  BOOST_TEST(around("llama2", llama(R"(, "add_eos_token": true)")) == Ids({1, 2}));
  BOOST_TEST(around("llama2", llama(R"(, "add_bos_token": false, "add_eos_token": true)")) == Ids({2}));
  BOOST_TEST(around("llama2", llama(R"(, "bos_token": "</s>")")) == Ids({2}));
  BOOST_TEST(around("mistral", llama("")) == Ids({1}));    // tokenizer.json has no template
  BOOST_TEST(around("metaspace", llama("")) == Ids({1}));  // tokenizer.json has another template
  refused("llama2", llama(R"(, "bos_token": null)"), kInvalid, "bos_token");
  refused("llama2", llama(R"(, "eos_token": null, "add_eos_token": true)"), kInvalid, "eos_token");
  BOOST_TEST(around("gpt2", llama("")) == Ids({521}));  // the vocabulary has no <s>, and 521 tokens
  refused("llama2", llama(R"(, "add_bos_token": 1)"), kInvalid, "add_bos_token");
}

BOOST_AUTO_TEST_CASE(other_classes_leave_the_post_processor) {
  const Ids begin = around("llama3", "{}");
  BOOST_TEST(begin.size() == 1u);
  BOOST_TEST(around("llama3", R"({"tokenizer_class": "PreTrainedTokenizerFast", "add_bos_token": false})") == begin);
  BOOST_TEST(around("gpt2", R"({"tokenizer_class": "GPT2TokenizerFast", "add_bos_token": true})") == Ids());
  refused("gpt2", R"({"add_bos_token": "yes"})", kInvalid, "add_bos_token");
  // transformers 5 would build a template from the flags.
  BOOST_TEST(around("llama3", R"({"tokenizer_class": "TokenizersBackend"})") == begin);
  BOOST_TEST(around("llama3", R"({"tokenizer_class": "TokenizersBackend", "add_bos_token": true})") == begin);
  refused("llama3", R"({"tokenizer_class": "TokenizersBackend", "add_bos_token": false})", kUnsupported,
          "add_bos_token");
  refused("llama3", R"({"tokenizer_class": "TokenizersBackend", "add_eos_token": true})", kUnsupported,
          "add_eos_token");
}

// Expected: transformers 4.57.6, the fast classes of these families.
BOOST_AUTO_TEST_CASE(classes_of_other_families_write_their_own_template) {
  const auto neox = [](const std::string& more) { return R"({"tokenizer_class": "GPTNeoXTokenizer")" + more + "}"; };
  const Ids end{*with_config("gpt2", neox("")).end_of_text()};
  BOOST_TEST(around("gpt2", neox("")) == Ids());
  BOOST_TEST(around("gpt2", neox(R"(, "add_bos_token": true)")) == end);
  BOOST_TEST(around("gpt2", neox(R"(, "add_eos_token": true)")) == end);
  BOOST_TEST(around("gemma", R"({"tokenizer_class": "GemmaTokenizerFast", "bos_token": "<s>", "eos_token": "</s>"})") ==
             Ids({1}));
  BOOST_TEST(around("gemma", R"({"tokenizer_class": "GemmaTokenizer"})") == Ids({523}));  // there is no <bos>
  BOOST_TEST(around("llama2", R"({"tokenizer_class": "CohereTokenizer", "bos_token": "<s>", "eos_token": "</s>"})") ==
             Ids({1}));
  BOOST_TEST(around("gpt2", R"({"tokenizer_class": "CodeGenTokenizer"})") == Ids());
  BOOST_TEST(with_model("gpt2", R"({"model_type": "gpt_neo"})").encode_prompt("").empty());
}

// A list in transformers 4, and there and in 5 an object from names to tokens.
BOOST_AUTO_TEST_CASE(extra_special_tokens_are_special) {
  for (const char* extra : {R"(["in"])", R"({"image_token": "in"})", R"({"image_token": {"content": "in"}})"}) {
    const Tokenizer tokenizer = with_config("gpt2", std::string(R"({"extra_special_tokens": )") + extra + "}");
    BOOST_TEST(tokenizer.special("in").has_value(), extra);
  }
  BOOST_TEST(
      with_config("gpt2", R"({"extra_special_tokens": {"image_token": "<image>"}})").special("<image>").value() == 521);
  refused("gpt2", R"({"extra_special_tokens": "x"})", kInvalid, "extra_special_tokens");
}

BOOST_AUTO_TEST_CASE(fields_without_effect_are_listed) {
  const Tokenizer tokenizer =
      with_config("gpt2", R"({"model_max_length": 1024, "clean_up_tokenization_spaces": true, "eos_token": null})");
  const auto ignored = tokenizer.ignored_fields();
  const std::vector<std::string> wanted{"clean_up_tokenization_spaces", "model_max_length"};
  BOOST_TEST(std::vector<std::string>(ignored.begin(), ignored.end()) == wanted, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(classes_that_are_not_known_are_refused) {
  refused("gpt2", R"({"tokenizer_class": "T5Tokenizer"})", kUnsupported, "tokenizer_class");
  BOOST_CHECK_NO_THROW(with_config("gpt2", R"({"tokenizer_class": "PreTrainedTokenizer"})"));
  refused("gpt2", R"({"tokenizer_class": 5})", kInvalid, "tokenizer_class");
  refused("gpt2", "[]", kInvalid, "");
}

// Expected: AutoTokenizer of transformers 4.57.6, tokenization_auto.py.
BOOST_AUTO_TEST_CASE(config_json_names_the_class_where_tokenizer_config_json_does_not) {
  BOOST_TEST(with_model("mistral", R"({"model_type": "llama"})").encode_prompt("") == Ids({1}));
  BOOST_TEST(with_model("mistral", R"({"model_type": "mistral"})", R"({"add_eos_token": true})").encode_prompt("") ==
             Ids({1, 2}));
  BOOST_TEST(
      with_model("mistral", R"({"model_type": "gpt2", "tokenizer_class": "LlamaTokenizer"})").encode_prompt("") ==
      Ids({1}));
  BOOST_TEST(
      with_model("mistral", "[]", R"({"tokenizer_class": "PreTrainedTokenizerFast"})").encode_prompt("").empty());
  BOOST_TEST(with_model("mistral", R"({"model_type": null})").encode_prompt("").empty());
  const Tokenizer bloom = with_model("bloom", R"({"model_type": "bloom"})");
  BOOST_TEST(bloom.pad().value() == bloom.special("<pad>").value());
  BOOST_CHECK_NO_THROW(with_model("qwen2", R"({"model_type": "qwen2"})"));
  BOOST_CHECK_NO_THROW(with_model("starcoder", R"({"model_type": "gpt_bigcode"})"));
  for (const auto& [model, where] :
       {std::pair("[]", "config.json"), std::pair("{", "config.json"),
        std::pair(R"({"model_type": 5})", "config.json: model_type"),
        std::pair(R"({"model_type": "t5"})", "config.json: model_type"),
        std::pair(R"({"tokenizer_class": "T5Tokenizer"})", "config.json: tokenizer_class")}) {
    const auto named = [name = where](const tenon::Error& error) { return error.where() == name; };
    BOOST_CHECK_EXCEPTION(with_model("gpt2", model), tenon::Error, named);
  }
}

// tokenization_code_llama_fast.py: Llama's template, four more special tokens, and no from_slow.
BOOST_AUTO_TEST_CASE(code_llama) {
  BOOST_TEST(around("llama2", R"({"tokenizer_class": "CodeLlamaTokenizer"})") == Ids({1}));
  BOOST_TEST(around("mistral", R"({"tokenizer_class": "CodeLlamaTokenizerFast", "add_eos_token": true})") ==
             Ids({1, 2}));
  BOOST_CHECK_NO_THROW(
      with_config("llama2", R"({"tokenizer_class": "CodeLlamaTokenizer", "add_prefix_space": false})"));
  const auto infill = [](const std::string& more) {
    return with_config("llama2", R"({"tokenizer_class": "CodeLlamaTokenizer", "added_tokens_decoder": {
        ")" + std::to_string(with_config("llama2", "{}").vocab_size()) +
                                     R"(": {"content": "\u2581<PRE>", "normalized": false, "special": false}})" + more +
                                     "}");
  };
  BOOST_TEST(infill("").special("\u2581<PRE>").has_value());
  BOOST_TEST(!infill(R"(, "prefix_token": null)").special("\u2581<PRE>").has_value());
  BOOST_TEST(infill(R"(, "prefix_token": null, "eot_token": "\u2581<PRE>")").special("\u2581<PRE>").has_value());
}

BOOST_AUTO_TEST_CASE(a_space_in_front) {
  // transformers sets the flag of a ByteLevel outside a Sequence. report: tokenizer_add_prefix_space
  const auto space = with_config("gpt2", "{}").encode(" ");
  for (const char* family : {"gpt2", "prefix"}) {
    BOOST_TEST(with_config(family, R"({"add_prefix_space": true})").encode("\n").size() == 2u);
    BOOST_TEST(with_config(family, R"({"add_prefix_space": false})").encode("\n").size() == 1u);
    BOOST_TEST(with_config(family, R"({"tokenizer_class": "GPT2Tokenizer"})").encode("\n").size() == 1u);
  }
  BOOST_TEST(with_config("gpt2", R"({"add_prefix_space": true})").encode("\n")[0] == space[0]);
  BOOST_TEST(with_config("prefix", R"({"tokenizer_class": "TokenizersBackend"})").encode("\n").size() == 2u);
  refused("llama3", R"({"tokenizer_class": "LlamaTokenizer", "add_prefix_space": true})", kUnsupported,
          "add_prefix_space");
  const auto llama = [](const std::string& value, const std::string& legacy = "") {
    return R"({"tokenizer_class": "LlamaTokenizer", "add_prefix_space": )" + value +
           (legacy.empty() ? "" : ", \"legacy\": " + legacy) + "}";
  };
  BOOST_CHECK_NO_THROW(with_config("llama2", llama("true")));
  BOOST_CHECK_NO_THROW(with_config("llama2", llama("true", "true")));
  BOOST_CHECK_NO_THROW(with_config("llama2", llama("true", "null")));
  refused("llama2", llama("true", "false"), kUnsupported, "legacy");
  BOOST_CHECK_NO_THROW(with_config("mistral", llama("true", "false")));
  refused("mistral", llama("true"), kUnsupported, "legacy");
  refused("mistral", llama("true", "true"), kUnsupported, "legacy");
  refused("mistral", llama("true", "1"), kInvalid, "legacy");
  refused("mistral", llama("false", "false"), kUnsupported, "add_prefix_space");
  refused("metaspace", llama("true", "false"), kUnsupported, "legacy");  // before each part, and split
  BOOST_CHECK_NO_THROW(
      with_config("plain_replace", llama("false", "false")));  // a Metaspace that never prepends is equivalent
  BOOST_CHECK_NO_THROW(with_config("mistral", llama("null")));
  BOOST_CHECK_NO_THROW(with_config("plain_replace", llama("false")));
  refused("llama2", llama("false"), kUnsupported, "add_prefix_space");
  refused("plain_replace", llama("true"), kUnsupported, "add_prefix_space");
  refused("llama2", R"({"from_slow": true})", kUnsupported, "from_slow");
}

BOOST_AUTO_TEST_CASE(roles) {
  const Tokenizer named = with_config("llama2", R"({"eos_token": {"content": "</s>"}, "pad_token": "<unk>"})");
  BOOST_TEST(named.end_of_text().value() == 2);
  BOOST_TEST(named.pad().value() == 0);
  BOOST_TEST(!named.begin_of_text().has_value());
  const Tokenizer bloom = with_config("bloom", R"({"tokenizer_class": "BloomTokenizerFast", "pad_token": null})");
  BOOST_TEST(bloom.special("<s>").value() == bloom.begin_of_text().value());
  BOOST_TEST(bloom.special("</s>").value() == bloom.end_of_text().value());
  BOOST_TEST(!bloom.pad().has_value());
}

// Expected: len(), the roles and added_tokens_encoder of transformers 4.57.6.
BOOST_AUTO_TEST_CASE(roles_that_the_vocabulary_lacks_get_the_next_ids) {
  const Tokenizer two = with_config("llama2", R"({"pad_token": "[PAD]", "unk_token": {"content": "[UNK]"}})");
  BOOST_TEST(two.special("[UNK]").value() == 521);  // the unknown token comes first
  BOOST_TEST(two.pad().value() == 522);
  BOOST_TEST(two.vocab_size() == 523);
  BOOST_TEST(with_config("llama2", R"({"eos_token": "<x>"})").end_of_text().value() == 521);
  BOOST_TEST(with_config("llama2", R"({"cls_token": "<x>", "sep_token": "<y>"})").special("<x>").value() == 522);
  const Tokenizer more = with_config("llama2", R"({"additional_special_tokens": ["<s>", "<x>"]})");
  BOOST_TEST(more.special("<x>").value() == 521);
  BOOST_TEST((more.encode_prompt("a <x> b", true) == Ids{1, 352, 340, 521, 340, 375}));
}

BOOST_AUTO_TEST_CASE(flags_of_a_token_with_a_role) {
  const auto bos = [](const std::string& flags) {
    return with_config("gpt2", R"({"bos_token": {"__type": "AddedToken", "content": "<x>")" + flags + "}}");
  };
  BOOST_TEST((bos(R"(, "lstrip": true, "rstrip": true)").encode("a <x> b", true) == Ids{64, 521, 65}));
  BOOST_TEST((bos("").encode("a <x> b", true) == Ids{64, 220, 521, 307}));
  refused("gpt2", R"({"bos_token": ")" + std::string(300, 'a') + "\"}", kUnsupported, "bos_token");
}

// An object counts beside another addition of its token, unless the token has a role in a file with its flags.
BOOST_AUTO_TEST_CASE(flags_of_a_token_that_is_added_twice) {
  const std::string mask = R"({"__type": "AddedToken", "content": "<m>", "lstrip": true, "rstrip": true})";
  const std::string role = R"("mask_token": )" + mask, more = R"("additional_special_tokens": [)" + mask + "]";
  const auto ids = [&](const std::string& config, bool in_tokenizer_json, const std::string& added = "") {
    fixtures::Folder folder;
    auto json = nlohmann::json::parse(fixtures::read(fixtures::data() / "gpt2" / "tokenizer.json"));
    auto entry = json["added_tokens"][0];
    entry.update({{"id", 521}, {"content", "<m>"}});
    if (in_tokenizer_json) json["added_tokens"].push_back(entry);
    folder.write("tokenizer.json", json.dump());
    folder.write("tokenizer_config.json", "{" + config + "}");
    if (!added.empty()) folder.write("added_tokens.json", added);
    return Tokenizer::load(folder.path()).encode("a <m> b", true);
  };
  const Ids strips{64, 521, 65}, plain{64, 220, 521, 307};
  const std::string decoder = R"("added_tokens_decoder": {"521": {"content": "<m>", "special": true}}, )";
  BOOST_TEST(ids(role, false, R"({"<m>": 521})") == strips);
  BOOST_TEST(ids(more, false, R"({"<m>": 521})") == strips);
  BOOST_TEST(ids(R"("mask_token": "<m>")", false, R"({"<m>": 521})") == plain);
  BOOST_TEST(ids(more, true) == strips);
  BOOST_TEST(ids(role, true) == plain);
  BOOST_TEST(ids(decoder + more, true) == strips);
  BOOST_TEST(ids(decoder + role, true) == plain);
  BOOST_TEST(ids(R"("added_tokens_decoder": {}, )" + role, true) == strips);
}

// In transformers it is the default of pad_token.
BOOST_AUTO_TEST_CASE(the_pad_token_of_padding) {
  fixtures::Folder folder;
  auto json = nlohmann::json::parse(fixtures::read(fixtures::data() / "gpt2" / "tokenizer.json"));
  json["padding"] = {{"strategy", "BatchLongest"}, {"pad_token", "[PAD]"}};
  folder.write("tokenizer.json", json.dump());
  folder.write("tokenizer_config.json", R"({"additional_special_tokens": ["", "<a>"]})");
  const Tokenizer tokenizer = Tokenizer::load(folder.path());
  BOOST_TEST(tokenizer.pad().value() == 521);
  BOOST_TEST(tokenizer.special("<a>").value() == 522);
  folder.write("tokenizer_config.json", R"({"pad_token": null})");
  BOOST_TEST(!Tokenizer::load(folder.path()).pad().has_value());
}

// Files of transformers before 4.34.
BOOST_AUTO_TEST_CASE(old_files_beside_a_config_without_added_tokens_decoder) {
  const auto with_files = [](const std::string& config, const std::string& map, const std::string& added) {
    fixtures::Folder folder;
    folder.write("tokenizer.json", fixtures::read(fixtures::data() / "gpt2" / "tokenizer.json"));
    folder.write("tokenizer_config.json", config);
    if (!map.empty()) folder.write("special_tokens_map.json", map);
    if (!added.empty()) folder.write("added_tokens.json", added);
    return Tokenizer::load(folder.path());
  };
  const std::string text = "a <x> b<more>c";
  const Tokenizer both = with_files(R"({"bos_token": "<|endoftext|>", "eos_token": "<y>"})", R"({"eos_token": "<x>"})",
                                    R"({"<x>": 521, "<more>": 522})");
  BOOST_TEST(both.end_of_text().value() == 521);
  BOOST_TEST(both.is_special(521));
  BOOST_TEST(!both.is_special(522));
  BOOST_TEST((both.encode(text, true) == Ids{64, 220, 521, 307, 522, 66}));
  const std::string pad = R"({"content": "<pad>", "lstrip": true, "rstrip": true, "normalized": false})";
  const Tokenizer map = with_files("{}", R"({"bos_token": "<x>", "pad_token": )" + pad + "}", "");
  BOOST_TEST(map.begin_of_text().value() == 521);
  BOOST_TEST((map.encode("a <pad> b", true) == Ids{64, 522, 65}));
  // A decoder in the config counts alone.
  const std::string decoder = R"({"added_tokens_decoder": {"520": {"content": "<|endoftext|>", "special": true}}})";
  BOOST_TEST(with_files(decoder, R"({"eos_token": "<x>"})", R"({"<x>": 521})").vocab_size() == 521);
  // Tokens that tokenizer.json adds itself keep their flags.
  BOOST_TEST(with_files("{}", "", R"({"<|endoftext|>": 520})").is_special(520));
  const auto refused_by = [&](const std::string& added, const std::string& where) {
    BOOST_CHECK_EXCEPTION(with_files("{}", "", added), tenon::Error, [&](const tenon::Error& error) {
      BOOST_TEST(error.where() == where);
      return error.kind() == kInvalid;
    });
  };
  refused_by(R"({"<more>": 700})", "tokenizer_config.json with added_tokens.json: added_tokens.json.700");
  refused_by(R"({"<more>": "5"})", "added_tokens.json: <more>");
  refused_by(R"({"<b>": 521, "<a>": 521})", "added_tokens.json: <b>");
  refused_by("[]", "added_tokens.json");
  BOOST_CHECK_THROW(with_files("{}", "[]", ""), tenon::Error);
}

BOOST_AUTO_TEST_CASE(added_tokens_that_tokenizer_json_lacks) {
  const auto added = [](const std::string& entry) { return R"({"added_tokens_decoder": {)" + entry + "}}"; };
  const Tokenizer plain = with_config("qwen2", "{}");
  const std::string next = std::to_string(plain.vocab_size());
  const Tokenizer more = with_config("qwen2", added('"' + next + R"(": {"content": "<more>", "special": false})"));
  BOOST_TEST(more.encode("a<more>").back() == plain.vocab_size());
  BOOST_TEST(more.vocab_size() == plain.vocab_size() + 1);
  refused("qwen2", added(R"("900": {"content": "<more>", "special": true})"), kInvalid, "added_tokens_decoder.900");
  refused("qwen2", added(R"("x": {"content": "<more>"})"), kInvalid, "added_tokens_decoder.x");
  const Tokenizer strips = with_config("qwen2", added('"' + next + R"(": {"content": "<more>", "lstrip": true})"));
  BOOST_TEST((strips.encode("a \n<more>") == Ids{strips.encode("a")[0], plain.vocab_size()}));

  const std::string tool = std::to_string(plain.encode("<tool>")[0]);
  BOOST_CHECK_NO_THROW(with_config("qwen2", added('"' + tool + R"(": {"content": "<tool>", "normalized": false})")));
  const Tokenizer either =
      with_config("qwen2", added('"' + tool + R"(": {"content": "<tool>", "special": true, "normalized": false})"));
  BOOST_TEST(either.special("<tool>").has_value());
  BOOST_TEST(either.encode("<tool>").size() > 1u);
  const std::string end = std::to_string(plain.special("<|endoftext|>").value());
  BOOST_TEST(with_config("qwen2", added('"' + end + R"(": {"content": "<|endoftext|>", "normalized": false})"))
                 .encode("<|endoftext|>") == plain.encode("<|endoftext|>"));
  // The flags of the second addition count: here the token takes the white space before it.
  const Tokenizer again = with_config("qwen2", added('"' + tool + R"(": {"content": "<tool>", "lstrip": true})"));
  BOOST_TEST(again.encode(" <tool>").size() == 1u);
  refused("qwen2", added(R"("5": {"content": "<tool>"})"), kInvalid, "added_tokens_decoder.5.content");
}

BOOST_AUTO_TEST_SUITE_END()
