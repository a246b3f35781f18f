// The tokenizer in the metadata of a GGUF file, as the tokenizer.json that it was made from.
//
// The metadata has tokens, kinds, merges or scores, and the name of a pre-tokenizer. kGgufPreTokenizers has the steps
// of tokenizer.json for each name.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tenon/core/error.h"
#include "tenon/io/fields.h"
#include "tenon/io/json.h"
#include "tenon/tokenizer/metaspace.h"
#include "tenon/tokenizer/pre_tokenizer_json.h"
#include "tenon/tokenizer/spellings.h"
#include "tenon/tokenizer/tokenizer_json.h"
#include "tenon/tokenizer/unicode.h"

namespace tenon::detail {

// The steps of tokenizer.json for a name in tokenizer.ggml.pre.
struct GgufPreTokenizer {
  std::string_view name;
  std::string_view architecture;  // uses these steps if its file lacks tokenizer.ggml.pre; empty: none does
  std::string_view pattern;       // of a Split before ByteLevel; empty: ByteLevel's own
  bool digits = false;            // each digit is a piece
  bool nfc = false;
  bool whole_words = false;     // ignore_merges
  bool begins = false;          // a text begins with bos, unless tokenizer.ggml.add_bos_token says otherwise
  std::string_view steps = {};  // JSON: all steps, in place of pattern and digits
};

inline constexpr std::string_view kFalconSteps = R"([{"type": "Punctuation", "behavior": "Contiguous"},
  {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
  {"type": "Digits", "individual_digits": false},
  {"type": "Split", "pattern": {"Regex": "[0-9][0-9][0-9]"}, "behavior": "Isolated", "invert": false}])";
inline constexpr std::string_view kDeepSeekCoderSteps =
    R"([{"type": "Split", "pattern": {"Regex": "[\r\n]"}, "behavior": "Isolated", "invert": false},
  {"type": "Split", "pattern": {"Regex": "\\s?\\p{L}+"}, "behavior": "Isolated", "invert": false},
  {"type": "Split", "pattern": {"Regex": "\\s?\\p{P}+"}, "behavior": "Isolated", "invert": false},
  {"type": "Split", "pattern": {"Regex": "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"}, "behavior": "Isolated",
   "invert": false},
  {"type": "Digits", "individual_digits": true},
  {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}])";

inline constexpr std::string_view kDeepSeek3Steps =
    R"([{"type": "Split", "pattern": {"Regex": "\\p{N}{1,3}"}, "behavior": "Isolated", "invert": false},
  {"type": "Split", "pattern": {"Regex": "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"}, "behavior": "Isolated",
   "invert": false},
  {"type": "Split", "pattern": {"Regex":
   "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"},
   "behavior": "Isolated", "invert": false},
  {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}])";

inline constexpr std::string_view kGpt4oPattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kSeedCoderPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kTekkenPattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)"
    R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Names: convert_hf_to_gguf.py and llama-vocab.cpp of llama.cpp. Steps: tokenizer.json of the models of that name.
inline constexpr GgufPreTokenizer kGgufPreTokenizers[] = {
    {"gpt-2", "gpt2", {}},
    {"phi-2", {}, {}},
    {"olmo", {}, {}, false, true},
    {"mpt", {}, {}, false, true},
    {"smollm", {}, {}, true},
    {"starcoder", "starcoder", {}, true},
    {"refact", {}, {}, true},
    {"command-r", {}, {}, true, true},
    {"llama-bpe", {}, kLlama3Pattern, false, false, true, true},
    {"llama3", {}, kLlama3Pattern, false, false, true, true},
    {"llama-v3", {}, kLlama3Pattern, false, false, true, true},
    {"qwen2", {}, kQwen2Pattern, false, true},
    {"gpt-4o", {}, kGpt4oPattern},
    {"tekken", {}, kTekkenPattern, false, false, true},
    {"bloom", "bloom", kBloomPattern},
    {"falcon", {}, {}, false, false, false, false, kFalconSteps},
    {"deepseek-coder", {}, {}, false, false, false, false, kDeepSeekCoderSteps},
    // Steps as llama.cpp has them, without a normalizer.
    {"lfm2", {}, kLlama3Pattern, false, false, true, true},
    {"falcon3", {}, kLlama3Pattern, false, false, true, true},
    {"pixtral", {}, kLlama3Pattern, false, false, true, true},
    {"midm-2.0", {}, kLlama3Pattern, false, false, true, true},
    {"dbrx", {}, kLlama3Pattern},
    {"smaug-bpe", {}, kLlama3Pattern},
    {"glm4", {}, kLlama3Pattern},
    {"chatglm-bpe", {}, kLlama3Pattern},
    {"deepseek-r1-qwen", {}, kQwen2Pattern},
    {"megrez", {}, kQwen2Pattern},
    {"stablelm2", {}, kQwen2Pattern},
    {"seed-coder", {}, kSeedCoderPattern},
    {"deepseek-v3", {}, {}, false, false, false, false, kDeepSeek3Steps},
    {"hunyuan-dense", {}, {}, false, false, false, false, kDeepSeek3Steps},
    {"a.x-4.0", {}, {}},
    {"granite-docling", {}, {}},
    {"mellum", {}, {}},
    {"trillion", {}, {}},
    {"minerva-7b", {}, {}, true},
};

// Writes tokenizer.json and tokenizer_config.json from the metadata.
class GgufTokenizer {
 public:
  // tokenizer.ggml.token_type.
  enum Kind : int { normal = 1, unknown, control, user_defined, unused, byte };

  // `metadata` must outlive the object.
  explicit GgufTokenizer(const Fields& metadata) : metadata_(metadata) {
    tokens_ = strings(kTokens);
    if (tokens_.size() > static_cast<std::size_t>(kMaxVocabulary))
      metadata.refuse(kTokens, "has more than " + std::to_string(kMaxVocabulary) + " tokens");
    read_kinds();
    for (std::size_t i = 0; i < tokens_.size(); ++i) add_token(static_cast<int>(i));
  }

  // Writes both documents. Call it once.
  void write(Json& tokenizer, Json& config) {
    config = {{"tokenizer_class", "PreTrainedTokenizer"}};
    for (const auto& [key, role] :
         {std::pair("bos", "bos_token"), {"eos", "eos_token"}, {"padding", "pad_token"}, {"unknown", "unk_token"}})
      if (const auto id = role_of(key)) config[role] = tokens_[static_cast<std::size_t>(*id)];
    tokenizer = {{"version", "1.0"}, {"added_tokens", added_tokens()}};
    const std::string model = metadata_.choice("tokenizer.ggml.model", {"gpt2", "llama"});
    model == "gpt2" ? write_byte_level(tokenizer) : write_sentencepiece(tokenizer);
  }

 private:
  static constexpr const char* kTokens = "tokenizer.ggml.tokens";
  static constexpr const char* kKinds = "tokenizer.ggml.token_type";
  static constexpr const char* kMerges = "tokenizer.ggml.merges";
  static constexpr const char* kScores = "tokenizer.ggml.scores";

  std::vector<std::string> strings(const char* key) const {
    std::vector<std::string> out = metadata_.strings(key);
    for (std::size_t i = 0; i < out.size(); ++i)
      if (find_invalid_utf8(out[i]) != out[i].npos) metadata_.refuse(element(key, i), "is not valid UTF-8");
    return out;
  }

  static std::string element(const char* key, std::size_t i) { return key + ("[" + std::to_string(i) + "]"); }

  // The list of the key, with one number per token. Null if the key is absent.
  const Json* numbers(const char* key) const {
    if (!metadata_.has(key)) return nullptr;
    const Json& list = metadata_.value(key);
    const auto number = [](const Json& each) { return each.is_number(); };
    if (!list.is_array() || list.size() != tokens_.size() || !std::all_of(list.begin(), list.end(), number))
      metadata_.refuse(key, "must be a list of " + std::to_string(tokens_.size()) + " numbers, one for each token");
    return &list;
  }

  void read_kinds() {
    kinds_.assign(tokens_.size(), normal);
    const Json* const list = numbers(kKinds);
    for (std::size_t i = 0; list && i < kinds_.size(); ++i)
      kinds_[i] = metadata_.check_integer(element(kKinds, i), (*list)[i], 0, byte);
    for (const char* key : {"bos", "eos", "padding", "unknown"})
      if (const auto id = role_of(key); id && !list) kinds_[static_cast<std::size_t>(*id)] = control;
  }

  void add_token(int id) {
    const std::string& token = tokens_[static_cast<std::size_t>(id)];
    if (kinds_[static_cast<std::size_t>(id)] == unused) return;  // a row of the embedding without a token
    if (!vocabulary_.emplace(token, id).second)
      metadata_.refuse(element(kTokens, static_cast<std::size_t>(id)),
                       "\"" + printable(token, 60) + "\" is in the vocabulary already");
  }

  // The token with a role: "bos" for tokenizer.ggml.bos_token_id.
  std::optional<int> role_of(std::string_view role) const {
    const std::string key = "tokenizer.ggml." + std::string(role) + "_token_id";
    if (!metadata_.has(key)) return std::nullopt;
    return metadata_.integer(key, 0, static_cast<int>(tokens_.size()) - 1);
  }

  Json added_tokens() const {
    Json out = Json::array();
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      const int kind = kinds_[i];
      if (kind != control && kind != unknown && kind != user_defined) continue;
      out.push_back({{"id", i},
                     {"content", tokens_[i]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", kind != user_defined}});
    }
    return out;
  }

  Json vocabulary() const {
    Json out = Json::object();
    for (const auto& [token, id] : vocabulary_) out.emplace(token, id);
    return out;
  }

  // The tokens around a text.
  Json post_processor(bool begins) const {
    Json single = Json::array(), special = Json::object();
    const auto add = [&](const char* flag, const char* role, bool absent) {
      const std::string key = "tokenizer.ggml.add_" + std::string(role) + "_token";
      const auto id = role_of(role);
      if (!metadata_.boolean(key, absent && id)) return;
      if (!id) metadata_.refuse(key, std::string("is true, but ") + flag + " is missing");
      const std::string& token = tokens_[static_cast<std::size_t>(*id)];
      single.push_back({{"SpecialToken", {{"id", token}, {"type_id", 0}}}});
      special[token] = {{"id", token}, {"ids", {*id}}, {"tokens", {token}}};
    };
    add("tokenizer.ggml.bos_token_id", "bos", begins);
    single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
    add("tokenizer.ggml.eos_token_id", "eos", false);
    if (special.empty()) return nullptr;
    return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", Json::array()}, {"special_tokens", special}};
  }

  const GgufPreTokenizer& pre_tokenizer() const {
    constexpr const char* key = "tokenizer.ggml.pre";
    const std::string architecture = metadata_.string("general.architecture", "");
    const std::string name = metadata_.string(key, "");
    std::string list;
    for (const GgufPreTokenizer& each : kGgufPreTokenizers) {
      if (name.empty() ? !each.architecture.empty() && each.architecture == architecture : each.name == name)
        return each;
      list += (list.empty() ? "" : ", ") + std::string(each.name);
    }
    const std::string found = name.empty() ? "is missing" : "\"" + printable(name, 60) + "\" is not supported";
    throw Error(Error::Kind::unsupported, metadata_.where(key), found + "; supported: " + list);
  }

  void write_byte_level(Json& out) const {
    const GgufPreTokenizer& pre = pre_tokenizer();
    const auto byte_level = [](bool pattern) -> Json {
      return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", pattern}};
    };
    Json steps = pre.steps.empty() ? Json::array() : Json::parse(pre.steps);
    if (pre.digits) steps.push_back({{"type", "Digits"}, {"individual_digits", true}});
    if (!pre.pattern.empty())
      steps.push_back(
          {{"type", "Split"}, {"pattern", {{"Regex", pre.pattern}}}, {"behavior", "Isolated"}, {"invert", false}});
    if (pre.steps.empty()) steps.push_back(byte_level(pre.pattern.empty()));
    out["normalizer"] = pre.nfc ? Json{{"type", "NFC"}} : Json();
    out["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", std::move(steps)}};
    out["post_processor"] = post_processor(pre.begins);
    out["decoder"] = byte_level(true);
    out["model"] = {
        {"type", "BPE"}, {"ignore_merges", pre.whole_words}, {"vocab", vocabulary()}, {"merges", strings(kMerges)}};
  }

  void write_sentencepiece(Json& out) const {
    constexpr const char* prefix_key = "tokenizer.ggml.add_space_prefix";
    constexpr const char* spaces = "tokenizer.ggml.remove_extra_whitespaces";
    constexpr const char* charsmap = "tokenizer.ggml.precompiled_charsmap";
    if (metadata_.boolean(spaces, false))
      throw Error(Error::Kind::unsupported, metadata_.where(spaces), "true is not supported");
    if (metadata_.has(charsmap)) throw Error(Error::Kind::unsupported, metadata_.where(charsmap), "is not supported");
    const bool prefix = metadata_.boolean(prefix_key, true);
    const Json pattern = {{"String", " "}}, spaced = {{"String", kMetaspace}};
    Json before = Json::array(), after = Json::array();
    if (prefix) before.push_back({{"type", "Prepend"}, {"prepend", kMetaspace}});
    before.push_back({{"type", "Replace"}, {"pattern", pattern}, {"content", kMetaspace}});
    after.push_back({{"type", "Replace"}, {"pattern", spaced}, {"content", " "}});
    after.push_back({{"type", "ByteFallback"}});
    after.push_back({{"type", "Fuse"}});
    if (prefix) after.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
    out["normalizer"] = {{"type", "Sequence"}, {"normalizers", std::move(before)}};
    out["pre_tokenizer"] = nullptr;
    out["post_processor"] = post_processor(true);
    out["decoder"] = {{"type", "Sequence"}, {"decoders", std::move(after)}};
    Json model = {{"type", "BPE"},
                  {"fuse_unk", true},
                  {"byte_fallback", has_bytes()},
                  {"vocab", vocabulary()},
                  {"merges", merges_of_scores()}};
    if (const auto id = role_of("unknown")) model["unk_token"] = tokens_[static_cast<std::size_t>(*id)];
    out["model"] = std::move(model);
  }

  bool has_bytes() const {
    for (int value = 0; value < 256; ++value)
      if (!vocabulary_.contains(byte_fallback_spelling(value))) return false;
    return true;
  }

  // Merge rules from scores. SentencePiece merges the pair whose token has the highest score, so every split of a token
  // into two tokens is a rule. The order is that of generate_merges (transformers 4.57, convert_slow_tokenizer.py):
  // highest score first, then the longest left part.
  Json merges_of_scores() const {
    const Json* const scores = numbers(kScores);
    if (!scores) metadata_.refuse(kScores, "is missing; a SentencePiece tokenizer needs it");
    struct Rule {
      std::string_view left, right;
      double score;
      std::size_t characters;  // of the left part
      std::size_t rest;        // characters of the right part
    };
    std::vector<Rule> rules;
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      const std::string& token = tokens_[i];
      if (kinds_[i] == unused) continue;
      constexpr std::size_t longest = 1024;  // bytes; the time grows with the square
      if (token.size() > longest)
        throw Error(Error::Kind::unsupported, metadata_.where(element(kTokens, i)),
                    "has " + std::to_string(token.size()) + " bytes, the limit is " + std::to_string(longest));
      const auto starts = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; };
      const auto all = static_cast<std::size_t>(std::count_if(token.begin(), token.end(), starts));
      const double score = (*scores)[i].get<double>();
      if (std::isnan(score)) metadata_.refuse(element(kScores, i), "is not a number");
      std::size_t characters = 0;
      for (std::size_t at = 1; at < token.size(); ++at) {
        if (!starts(token[at])) continue;
        ++characters;
        const auto left = vocabulary_.find(token.substr(0, at)), right = vocabulary_.find(token.substr(at));
        if (left == vocabulary_.end() || right == vocabulary_.end()) continue;
        rules.push_back({left->first, right->first, score, characters, all - characters});
      }
    }
    std::stable_sort(rules.begin(), rules.end(), [](const Rule& a, const Rule& b) {
      return std::tie(a.score, a.characters, a.rest) > std::tie(b.score, b.characters, b.rest);
    });
    Json out = Json::array();
    for (const Rule& rule : rules) out.push_back(Json::array({rule.left, rule.right}));
    return out;
  }

  const Fields& metadata_;
  std::vector<std::string> tokens_;
  std::vector<int> kinds_;
  std::unordered_map<std::string, int> vocabulary_;
};

// Reads the tokenizer in the metadata of a GGUF file. Errors name file and key.
inline TokenizerTables read_gguf_tokenizer(const Fields& metadata, std::optional<int> vocab_size) {
  Json tokenizer, config_json;
  GgufTokenizer(metadata).write(tokenizer, config_json);
  const Fields config(config_json, metadata.file() + " (as tokenizer_config.json)");
  const JsonNode top(tokenizer, metadata.file() + " (as tokenizer.json)", {});
  return read_tokenizer(top, config, class_named("PreTrainedTokenizer", config, "tokenizer_class"), vocab_size);
}

}  // namespace tenon::detail
