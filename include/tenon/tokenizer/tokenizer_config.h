// tokenizer_config.json: which tokens have a role, and what transformers changes of the tokenizer beside it.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/core/error.h"
#include "tenon/core/fields.h"
#include "tenon/core/file.h"
#include "tenon/tokenizer/added_token_list.h"
#include "tenon/tokenizer/spellings.h"
#include "tenon/tokenizer/vocabulary.h"

namespace tenon::detail {

// A class of transformers 4.57: the tokens that its constructor names where the file does not (empty: none).
struct TokenizerClass {
  std::string_view name;
  std::string_view bos, eos, unk, pad;
  bool writes_template = false;  // from add_bos_token and add_eos_token, over the post_processor
};
inline constexpr std::string_view kEndOfText = "<|endoftext|>";
inline constexpr TokenizerClass kTokenizerClasses[] = {
    {"PreTrainedTokenizer", {}, {}, {}, {}},
    {"TokenizersBackend", {}, {}, {}, {}},  // of transformers 5
    {"GPT2Tokenizer", kEndOfText, kEndOfText, kEndOfText, {}},
    {"LlamaTokenizer", "<s>", "</s>", "<unk>", {}, true},
    {"BloomTokenizer", "<s>", "</s>", "<unk>", "<pad>"},
    {"Qwen2Tokenizer", {}, kEndOfText, kEndOfText, kEndOfText},
};

inline const TokenizerClass& tokenizer_class(const Fields& config) {
  std::string name = config.choice("tokenizer_class",
                                   {"PreTrainedTokenizer", "PreTrainedTokenizerFast", "TokenizersBackend",
                                    "GPT2Tokenizer", "GPT2TokenizerFast", "LlamaTokenizer", "LlamaTokenizerFast",
                                    "BloomTokenizer", "BloomTokenizerFast", "Qwen2Tokenizer", "Qwen2TokenizerFast"},
                                   "PreTrainedTokenizerFast");
  if (name.ends_with("Fast")) name.resize(name.size() - 4);
  return *std::find_if(std::begin(kTokenizerClasses), std::end(kTokenizerClasses),
                       [&](const TokenizerClass& each) { return each.name == name; });
}

// A member that names a token: a string, or an object with "content"; absent and null: none.
inline std::optional<std::string> token_name(const Fields& config, const std::string& key) {
  if (!config.has(key)) return std::nullopt;
  return config.value(key).is_object() ? config.object(key).string("content") : config.string(key);
}

// bos, eos, pad, and the special tokens without a role. `names`: of the class, where the file is silent.
inline void read_roles(const Fields& config, const TokenizerClass& names, const Spellings& spellings, Vocabulary& out) {
  const auto special = [&](const std::string& key, const std::string& text) {
    const auto id = spellings.find(text);
    if (!id) config.refuse(key, "names the token \"" + printable(text, 60) + "\", which the vocabulary does not have");
    out.special.push_back({*id, text});
    return *id;
  };
  const auto role = [&](const std::string& key, std::string_view name) -> std::optional<TokenId> {
    if (const auto text = token_name(config, key)) return special(key, *text);
    const std::string text(name);
    if (config.json().contains(key) || name.empty() || !spellings.find(text)) return std::nullopt;
    return special(key, text);
  };
  out.bos = role("bos_token", names.bos);
  out.eos = role("eos_token", names.eos);
  out.pad = role("pad_token", names.pad);
  role("unk_token", names.unk);
  if (!config.has("additional_special_tokens")) return;
  const Json& more = config.value("additional_special_tokens");
  if (!more.is_array()) config.refuse("additional_special_tokens", "must be a list, is " + Fields::describe(more));
  for (std::size_t i = 0; i < more.size(); ++i) {
    const std::string key = "additional_special_tokens[" + std::to_string(i) + "]";
    if (more[i].is_string())
      special(key, more[i].get<std::string>());
    else
      special(key, Fields(more[i], config.file(), key).string("content"));
  }
}

// The token that GPT-2's own files name in no config, only in the code beside them.
inline void default_end_of_text(const Spellings& spellings, Vocabulary& out) {
  const auto id = spellings.find(std::string(kEndOfText));
  if (out.eos || !id) return;
  out.eos = id;
  out.special.push_back({*id, std::string(kEndOfText)});
}

// The keys of "added_tokens_decoder": {"50257": {"content": "<pad>", ...}}, in the order of their ids.
inline std::map<TokenId, std::string> added_token_keys(const Fields& added, int limit) {
  std::map<TokenId, std::string> keys;
  for (const auto& [key, value] : added.json().items()) {
    const bool digits =
        key.size() <= 9 && std::all_of(key.begin(), key.end(), [](char c) { return c >= '0' && c <= '9'; });
    const int id = digits && !key.empty() ? std::stoi(key) : -1;
    if (id < 0 || id >= limit || std::to_string(id) != key)
      added.refuse(key, "must be an id from 0 to " + std::to_string(limit - 1));
    keys.emplace(id, key);
  }
  return keys;
}

// ---- beside vocab.json

// Tokens that vocab.json lacks and transformers keeps here.
inline void read_added_tokens(const Fields& config, Spellings& spellings, std::vector<SpecialToken>& special) {
  if (!config.has("added_tokens_decoder")) return;
  const Fields added = config.object("added_tokens_decoder");
  for (const auto& [id, key] : added_token_keys(added, spellings.limit())) {
    const Fields token = added.object(key);
    const std::string text = token.string("content");
    const auto known = spellings.find(text);
    if (known && *known != id)
      added.refuse(key, "\"" + printable(text, 60) + "\" has the id " + std::to_string(*known) + " in vocab.json");
    if (!known && !token.boolean("special", false))
      throw Error(Error::Kind::unsupported, added.where(key),
                  "\"" + printable(text, 60) +
                      "\" would be cut out of text before byte pairs are merged; only special "
                      "tokens may be added to vocab.json");
    if (!known) spellings.add(added, key, text, id);
    if (token.boolean("special", false)) special.push_back({id, text});
  }
}

// What would change the ids of a text must be known or refused, never ignored.
inline void read_config_beside_vocab(const Fields& config, Spellings& spellings, Vocabulary& out) {
  config.choice("tokenizer_class",
                {"GPT2Tokenizer", "GPT2TokenizerFast", "PreTrainedTokenizerFast", "TokenizersBackend"},
                "GPT2Tokenizer");
  for (const char* key : {"add_prefix_space", "add_bos_token", "add_eos_token"})
    if (config.boolean(key, false))
      throw Error(Error::Kind::unsupported, config.where(key), "true is not supported: text is encoded as it stands");
  read_added_tokens(config, spellings, out.special);
  read_roles(config, {}, spellings, out);
}

// ---- beside tokenizer.json

// As transformers does: those that tokenizer.json lacks are added to it.
inline void read_added_tokens(const Fields& config, int limit, AddedTokenList& list) {
  if (!config.has("added_tokens_decoder")) return;
  list.begin_second_call();
  const Fields added = config.object("added_tokens_decoder");
  for (const auto& [id, key] : added_token_keys(added, limit)) {
    const Fields fields = added.object(key);
    const AddedToken token = list.read(fields, id);
    const AddedToken* const known = list.find(token.text);
    if (!known) {
      list.add(token, added, key);
    } else if (known->id != id || known->special != token.special ||
               (!token.special && known->normalized != token.normalized)) {
      fields.refuse(known->id != id                   ? "content"
                    : known->special != token.special ? "special"
                                                      : "normalized",
                    "contradicts added_tokens in tokenizer.json, which has \"" + printable(token.text, 60) +
                        "\" with the id " + std::to_string(known->id));
    }
  }
}

// add_bos_token and add_eos_token: LlamaTokenizerFast writes its own template from them, the others leave the
// post_processor as it is. In transformers 5 they count for all classes, and so must agree there.
inline void apply_template_flags(const Fields& config, const TokenizerClass& which, Vocabulary& out) {
  const auto flag = [&](const char* key, bool absent) {
    return config.json().contains(key) ? config.boolean(key, false) : absent;
  };
  auto& pipeline = out.pipeline;
  if (which.writes_template) {
    const auto ids = [&](const char* key, bool absent, const char* role, std::optional<TokenId> id) {
      if (!flag(key, absent)) return std::vector<TokenId>{};
      if (!id) config.refuse(role, std::string("is missing, and ") + key + " asks for it");
      return std::vector<TokenId>{*id};
    };
    pipeline.before = ids("add_bos_token", true, "bos_token", out.bos);
    pipeline.after = ids("add_eos_token", false, "eos_token", out.eos);
  } else if (which.name == "TokenizersBackend") {
    const auto agree = [&](const char* key, bool adds) {
      if (flag(key, adds) != adds)
        throw Error(Error::Kind::unsupported, config.where(key), "contradicts the post_processor of tokenizer.json");
    };
    agree("add_bos_token", !pipeline.before.empty());
    agree("add_eos_token", !pipeline.after.empty());
  } else {
    flag("add_bos_token", false), flag("add_eos_token", false);  // must be true or false
  }
}

// Byte-level text is encoded as it stands. The Llama class, given add_prefix_space, would make the tokenizer anew from
// tokenizer.model, which comes to the same where the two agree.
inline void check_prefix_space(const Fields& config, const TokenizerClass& which, const Pipeline& pipeline) {
  const bool prefix = config.boolean("add_prefix_space", false);
  const auto refuse = [&](const char* what) {
    throw Error(Error::Kind::unsupported, config.where("add_prefix_space"), what);
  };
  if (pipeline.family == TokenizerFamily::byte_level) {
    if (prefix) refuse("true is not supported: text is encoded as it stands");
  } else if (which.writes_template && config.has("add_prefix_space") &&
             prefix != (pipeline.metaspace.prepend != Metaspace::Prepend::never)) {
    refuse("contradicts tokenizer.json");
  }
}

inline void read_config_beside_tokenizer_json(const Fields& config, AddedTokenList& added, const Spellings& spellings,
                                              Vocabulary& out) {
  const TokenizerClass& which = tokenizer_class(config);
  if (config.boolean("from_slow", false))
    throw Error(Error::Kind::unsupported, config.where("from_slow"), "true is not supported: tokenizer.json is read");
  check_prefix_space(config, which, out.pipeline);
  read_added_tokens(config, spellings.limit(), added);
  read_roles(config, which, spellings, out);
  apply_template_flags(config, which, out);
}

}  // namespace tenon::detail
