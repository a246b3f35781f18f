// The metadata of a GGUF file for the tokenizer of a model folder: the inverse of gguf_tokenizer.h.
#pragma once
#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "tenon/core/error.h"
#include "tenon/io/fields.h"
#include "tenon/io/file.h"
#include "tenon/io/json.h"
#include "tenon/tokenizer/bpe.h"
#include "tenon/tokenizer/chat_template_file.h"
#include "tenon/tokenizer/gguf_tokenizer.h"
#include "tenon/tokenizer/gpt2_files.h"
#include "tenon/tokenizer/json_node.h"
#include "tenon/tokenizer/tokenizer_config.h"

namespace tenon::detail {

// tokenizer.json, or a document of its form made from vocab.json and merges.txt.
inline Json tokenizer_document(const std::filesystem::path& folder) {
  std::error_code ignored;
  if (std::filesystem::exists(folder / "tokenizer.json", ignored))
    return read_json_file(folder / "tokenizer.json", kMaxTokenizerFile);
  const TokenizerConfig config = read_tokenizer_config(folder);
  const bool qwen2 = class_beside_vocab(Fields(config.members, config.file), folder).name == "Qwen2Tokenizer";
  Json merges = Json::array();
  for_each_merge(read_text_file(folder / "merges.txt", kMaxTokenizerFile), qwen2,
                 [&](std::string_view line, int) { merges.push_back(std::string(line)); });
  Json document = {{"model",
                    {{"type", "BPE"},
                     {"vocab", read_json_file(folder / "vocab.json", kMaxTokenizerFile)},
                     {"merges", std::move(merges)}}}};
  for (const char* key : {kDecoder, kAddedTokensFile}) {
    if (!config.members.contains(key)) continue;
    for (const auto& [id, token] : config.members[key].items()) {
      Json& added = document["added_tokens"].emplace_back(token);
      added["id"] = std::stoi(id);      // the tokenizer has been loaded, which checks it
      added.emplace("special", false);  // unless it is there
    }
  }
  Json steps = Json::array();
  if (qwen2)
    steps.push_back(
        {{"type", "Split"}, {"pattern", {{"Regex", kQwen2Pattern}}}, {"behavior", "Isolated"}, {"invert", false}});
  steps.push_back({{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", !qwen2}});
  document["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", std::move(steps)}};
  if (qwen2) document["normalizer"] = {{"type", "NFC"}};
  return document;
}

// Writes the keys tokenizer.*. A setting that GGUF lacks is refused by name, or found by comparing both tokenizers.
class GgufTokenizerWriter {
 public:
  // The references must outlive the object. rows: rows of the embedding.
  GgufTokenizerWriter(const Json& document, const Tokenizer& tokenizer, int rows)
      : top_(document, "tokenizer.json", {}), model_(top_.object("model")), tokenizer_(tokenizer), rows_(rows) {}

  // ends: the ids that end a text; bos: the id that begins one, if the post-processor names none.
  Json write(std::optional<TokenId> bos, const std::vector<TokenId>& ends) {
    read_tokens();
    Json out = Json::object();
    if (tokenizer_.family() == TokenizerFamily::byte_level)
      write_byte_level(out);
    else
      write_sentencepiece(out);
    out["tokenizer.ggml.tokens"] = tokens_;
    out["tokenizer.ggml.token_type"] = kinds_;
    write_roles(bos, ends, out);
    check(out);
    return out;
  }

 private:
  using Kind = GgufTokenizer::Kind;

  // Text of every id, and its kind.
  void read_tokens() {
    tokens_.resize(static_cast<std::size_t>(rows_));
    kinds_.assign(tokens_.size(), Kind::unused);
    const bool fallback = model_->boolean("byte_fallback", false);
    const auto put = [&](const std::string& text, int id, int kind) {
      tokens_[static_cast<std::size_t>(id)] = text;
      kinds_[static_cast<std::size_t>(id)] = kind;
    };
    const Fields vocabulary = model_.object("vocab").fields();
    for (const auto& [text, id] : vocabulary.json().items()) {
      const bool byte = fallback && text.size() == 6 && text.starts_with("<0x") && text.ends_with('>');
      put(text, vocabulary.check_integer(text, id, 0, rows_ - 1), byte ? Kind::byte : Kind::normal);
    }
    if (top_->has("added_tokens"))
      for (const JsonNode& each : top_.objects("added_tokens"))
        put(each->string("content"), each->integer("id", 0, rows_ - 1),
            each->boolean("special") ? Kind::control : Kind::user_defined);
    for (const SpecialToken& each : tokenizer_.special_tokens()) put(each.text, each.id, Kind::control);
    if (const std::string unknown = model_->string("unk_token", "");
        !unknown.empty() && tokenizer_.family() == TokenizerFamily::sentencepiece)
      put(unknown, vocabulary.integer(unknown, 0, rows_ - 1), Kind::unknown);
    for (std::size_t i = 0; i < tokens_.size(); ++i)
      if (kinds_[i] == Kind::unused) tokens_[i] = "[PAD" + std::to_string(i) + "]";
  }

  // The rules as pairs, whichever form the file has.
  std::vector<std::pair<std::string, std::string>> merges() const {
    std::vector<std::pair<std::string, std::string>> out;
    for (const Json& rule : model_->value("merges")) {
      if (rule.is_string())
        out.push_back(split_merge(rule.get_ref<const std::string&>(), model_->where("merges")));
      else
        out.emplace_back(rule.at(0).get<std::string>(), rule.at(1).get<std::string>());
    }
    return out;
  }

  // The steps before byte-level BPE, in the terms of kGgufPreTokenizers.
  struct Steps {
    std::string pattern;  // empty: that of ByteLevel
    bool digits = false, nfc = false, byte_level = false;
  };

  Steps steps() const {
    Steps out;
    for (const JsonNode& step : top_.steps("normalizer", "normalizers")) {
      if (step.type() != "NFC") no_name("normalizer");
      out.nfc = true;
    }
    bool pattern = false;
    for (const JsonNode& step : top_.steps("pre_tokenizer", "pretokenizers")) {
      const std::string type = step.type();
      if (type == "Digits" && step->boolean("individual_digits") && !pattern) {
        out.digits = true;
      } else if (type == "Split" && !pattern && step.object("pattern")->has("Regex")) {
        const std::string behavior = step->string("behavior");
        const bool invert = step->boolean("invert");
        if (!(behavior == "Isolated" && !invert) && !(behavior == "Removed" && invert)) no_name("pre_tokenizer");
        const std::string regex = step.object("pattern")->string("Regex");
        out.pattern = regex == kGpt2Pattern ? "" : regex;
        pattern = true;
      } else if (type == "ByteLevel" && step->boolean("use_regex", true) != pattern) {
        out.byte_level = true;
      } else {
        no_name("pre_tokenizer");
      }
    }
    if (!out.byte_level) no_name("pre_tokenizer");
    return out;
  }

  // Whether the file has these steps, members without effect aside.
  bool has_steps(std::string_view steps) const {
    const auto without = [](Json step) {
      step.erase("trim_offsets");
      return step;
    };
    const Json wanted = Json::parse(steps);
    const auto found = top_.steps("pre_tokenizer", "pretokenizers");
    const auto same = [&](const JsonNode& node, const Json& step) { return without(node->json()) == without(step); };
    return !top_->has("normalizer") && std::equal(found.begin(), found.end(), wanted.begin(), wanted.end(), same);
  }

  [[noreturn]] void no_name(const char* key) const {
    throw Error(Error::Kind::unsupported, top_->where(key), "has steps for which GGUF has no name");
  }

  // The first name for the file's steps.
  const GgufPreTokenizer& named_steps() const {
    const bool whole = model_->boolean("ignore_merges", false);
    for (const GgufPreTokenizer& each : kGgufPreTokenizers)
      if (!each.steps.empty() && !whole && has_steps(each.steps)) return each;
    const Steps found = steps();
    for (const GgufPreTokenizer& each : kGgufPreTokenizers)
      if (each.steps.empty() && each.pattern == found.pattern && each.digits == found.digits && each.nfc == found.nfc &&
          each.whole_words == whole)
        return each;
    no_name("pre_tokenizer");
  }

  void write_byte_level(Json& out) const {
    out["tokenizer.ggml.model"] = "gpt2";
    out["tokenizer.ggml.pre"] = named_steps().name;
    Json& rules = out["tokenizer.ggml.merges"] = Json::array();
    for (const auto& [left, right] : merges()) rules.push_back(left + " " + right);
  }

  // The normalizer of SentencePiece: Replace, after Prepend or not.
  bool prepends() const {
    const auto steps = top_.steps("normalizer", "normalizers");
    const auto is = [](const JsonNode& step, const char* type, const char* key, std::string_view value) {
      return step.type() == type && step->string(key) == value;
    };
    if (steps.empty() || steps.size() > 2 || !is(steps.back(), "Replace", "content", kMetaspace) ||
        (steps.size() == 2 && !is(steps.front(), "Prepend", "prepend", kMetaspace)))
      no_name("normalizer");
    // Gemma's: no spaces are left to split at.
    for (const JsonNode& step : top_.steps("pre_tokenizer", "pretokenizers"))
      if (step.type() != "Split" || step.object("pattern")->string("String", "") != " ") no_name("pre_tokenizer");
    return steps.size() == 2;
  }

  // A token that a rule makes has a score: the first rule's rank, negative. Equal rules follow (see check()).
  void write_sentencepiece(Json& out) const {
    out["tokenizer.ggml.model"] = "llama";
    out["tokenizer.ggml.pre"] = "default";
    out["tokenizer.ggml.add_space_prefix"] = prepends();
    if (!model_->boolean("fuse_unk", false) || model_->boolean("ignore_merges", false))
      throw Error(Error::Kind::unsupported, model_->where("fuse_unk"), "GGUF needs true, and ignore_merges false");
    std::vector<double> scores(tokens_.size(), 0.0);
    const Fields vocabulary = model_.object("vocab").fields();
    double rank = 0;
    for (const auto& [left, right] : merges()) {
      const auto id = static_cast<std::size_t>(vocabulary.integer(left + right, 0, rows_ - 1));
      if (scores[id] == 0) scores[id] = -++rank;
    }
    out["tokenizer.ggml.scores"] = scores;
  }

  void write_roles(std::optional<TokenId> bos, const std::vector<TokenId>& ends, Json& out) const {
    const auto before = tokenizer_.before_prompt(), after = tokenizer_.after_prompt();
    const auto most_one = [&](std::span<const TokenId> ids) {
      if (ids.size() > 1)
        throw Error(Error::Kind::unsupported, top_->where("post_processor"), "GGUF has one token beside a text");
    };
    most_one(before);
    most_one(after);
    const auto id = [&](const std::string& role, std::optional<TokenId> token) {
      if (token) out["tokenizer.ggml." + role + "_token_id"] = static_cast<unsigned>(*token);
    };
    const auto begin = !before.empty() ? before.front() : tokenizer_.begin_of_text() ? tokenizer_.begin_of_text() : bos;
    id("bos", begin);
    out["tokenizer.ggml.add_bos_token"] = !before.empty();
    out["tokenizer.ggml.add_eos_token"] = !after.empty();
    // The tokenizer's end first, then the others.
    std::vector<TokenId> all = ends;
    const auto usual = !after.empty() ? std::optional(after.front()) : tokenizer_.end_of_text();
    const auto at = usual ? std::find(all.begin(), all.end(), *usual) : all.end();
    if (at != all.end()) std::rotate(all.begin(), at, at + 1);
    constexpr const char* roles[] = {"eos", "eot", "eom"};
    if (all.size() > std::size(roles))
      throw Error(Error::Kind::unsupported, "config.json: eos_token_id", "GGUF has at most 3 tokens that end a text");
    for (std::size_t i = 0; i < all.size(); ++i) id(roles[i], all[i]);
    if (!after.empty() && (all.empty() || all.front() != after.front()))
      throw Error(Error::Kind::unsupported, top_->where("post_processor"), "GGUF has the token that ends a text there");
    id("padding", tokenizer_.pad());
    if (const auto unknown = std::find(kinds_.begin(), kinds_.end(), Kind::unknown); unknown != kinds_.end())
      id("unknown", static_cast<TokenId>(unknown - kinds_.begin()));
  }

  // Both tokenizers must give the same tokens for texts with words, digits, spaces, letters of other scripts and each
  // added token.
  void check(const Json& metadata) const {
    const Tokenizer read = Tokenizer::from_gguf(Fields(metadata, "GGUF"), rows_);
    const auto refuse = [](const std::string& what) {
      throw Error(Error::Kind::unsupported, "tokenizer", what + " in a GGUF file");
    };
    std::vector<std::string> texts = {"", "The quick brown fox's 12345 I'LL don't\n\n  two   spaces\t3.14e-10",
                                      " caf\xC3\xA9 e\xCC\x81 \xE6\xB2\xB3\xE6\xB0\xB4 \xED\x95\x9C\xEA\xB5\xAD",
                                      "\xF0\x9F\x9A\x80\xC2\xA0\xE2\x80\xA6 \xD9\xA3\xC2\xBD ==!? __init__(self)\r\n"};
    for (TokenId id = 0; id < rows_; ++id) {
      if (read.bytes(id) != tokenizer_.bytes(id) || read.is_special(id) != tokenizer_.is_special(id))
        refuse("token " + std::to_string(id) + " would be another");
      const int kind = kinds_[static_cast<std::size_t>(id)];
      if (kind == Kind::control || kind == Kind::user_defined)
        texts.push_back("a " + tokens_[static_cast<std::size_t>(id)] + " b" + tokens_[static_cast<std::size_t>(id)]);
    }
    for (const std::string& text : texts)
      for (const bool special : {false, true})
        if (read.encode_prompt(text, special) != tokenizer_.encode_prompt(text, special))
          refuse("\"" + printable(text, 60) + "\" would have other tokens");
    if (tokenizer_.family() == TokenizerFamily::sentencepiece) check_rules(metadata, refuse);
  }

  // The scores must give the same rules in the same order.
  template <class Refuse>
  void check_rules(const Json& metadata, Refuse&& refuse) const {
    Json document, config;
    const Fields fields(metadata, "GGUF");
    GgufTokenizer(fields).write(document, config);
    const auto wanted = merges();
    const Json& found = document["model"]["merges"];
    bool same = found.size() == wanted.size();
    for (std::size_t i = 0; same && i < wanted.size(); ++i)
      same = found[i] == Json::array({wanted[i].first, wanted[i].second});
    if (!same) refuse("the merge rules would have another order");
  }

  JsonNode top_, model_;
  const Tokenizer& tokenizer_;
  int rows_;
  std::vector<std::string> tokens_;
  std::vector<int> kinds_;
};

// The keys tokenizer.* of a folder that has a tokenizer, with its chat template. Errors: those of reading the files;
// unsupported if GGUF cannot say what the tokenizer does.
inline Json gguf_tokenizer_metadata(const std::filesystem::path& folder, const Tokenizer& tokenizer, int rows,
                                    std::optional<TokenId> bos, const std::vector<TokenId>& ends) {
  const Json document = tokenizer_document(folder);
  Json out = GgufTokenizerWriter(document, tokenizer, rows).write(bos, ends);
  if (std::string chat = read_chat_template(folder); !chat.empty()) out["tokenizer.chat_template"] = std::move(chat);
  return out;
}

}  // namespace tenon::detail
