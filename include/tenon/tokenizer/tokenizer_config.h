// Reads tokenizer_config.json: the tokens with a role (bos, eos, unk, pad), and the changes that transformers makes to
// a tokenizer because of this file.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "tenon/core/error.h"
#include "tenon/io/fields.h"
#include "tenon/io/file.h"
#include "tenon/io/json.h"
#include "tenon/tokenizer/added_token_list.h"
#include "tenon/tokenizer/spellings.h"
#include "tenon/tokenizer/tokenizer_classes.h"
#include "tenon/tokenizer/vocabulary.h"

namespace tenon::detail {

inline constexpr const char* kTokenizerConfig = "tokenizer_config.json";
inline constexpr const char* kDecoder = "added_tokens_decoder";  // the field
inline constexpr const char* kAddedTokensFile = "added_tokens.json";

// The document; an empty object if the file does not exist.
inline Json read_json_if_exists(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored) ? read_json_file(path, kMaxTokenizerFile) : Json::object();
}

// tokenizer_config.json. If it has no added_tokens_decoder, transformers also reads special_tokens_map.json and
// added_tokens.json (PreTrainedTokenizerBase._from_pretrained).
struct TokenizerConfig {
  Json members;
  std::string file = kTokenizerConfig;  // for errors: the names of all files
};

// The texts of the tokens with a role and of additional_special_tokens.
inline std::vector<std::string> special_texts(const Json& config) {
  std::vector<std::string> out;
  const auto add = [&](const Json& token) {
    const Json& text = token.is_object() && token.contains("content") ? token["content"] : token;
    if (text.is_string()) out.push_back(text.get<std::string>());
  };
  for (const char* key : {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"})
    if (config.contains(key)) add(config[key]);
  const auto more = config.find("additional_special_tokens");
  if (more != config.end() && more->is_array())
    for (const Json& each : *more) add(each);
  return out;
}

// special_tokens_map.json replaces fields.
inline void apply_special_tokens_map(const std::filesystem::path& folder, TokenizerConfig& config) {
  constexpr const char* kName = "special_tokens_map.json";
  constexpr const char* kMore = "additional_special_tokens";
  const Json map = read_json_if_exists(folder / kName);
  const Fields checked(map, kName);  // an error unless it is an object
  if (map.empty()) return;
  config.file += std::string(" with ") + kName;
  for (const auto& [key, value] : map.items()) {
    if (key == kMore && value.is_array() && config.members.contains(kMore) && config.members[kMore].is_array())
      config.members[kMore].insert(config.members[kMore].end(), value.begin(), value.end());
    else
      config.members[key] = value;
  }
}

// added_tokens.json, {"<pad>": 50257, ...}, becomes a member of the form of added_tokens_decoder, without the ids that
// tokenizer.json adds itself.
inline void apply_added_tokens_file(const std::filesystem::path& folder, TokenizerConfig& config) {
  const Json json = read_json_if_exists(folder / kAddedTokensFile);
  const Fields added(json, kAddedTokensFile);
  if (json.empty()) return;
  config.file += std::string(" with ") + kAddedTokensFile;
  const std::vector<std::string> special = special_texts(config.members);
  Json decoder = Json::object();
  for (const auto& [text, id] : json.items()) {
    const bool is_special = std::find(special.begin(), special.end(), text) != special.end();
    const int at = added.check_integer(text, id, 0, std::numeric_limits<int>::max());
    Json& entry = decoder[std::to_string(at)];
    if (!entry.is_null()) added.refuse(text, "has the id " + std::to_string(at) + ", which another token has, too");
    entry = {{"content", text}, {"special", is_special}, {"normalized", !is_special}};
  }
  const Json tokenizer = read_json_if_exists(folder / "tokenizer.json");
  if (tokenizer.is_object() && tokenizer.contains("added_tokens"))
    for (const Json& each : tokenizer["added_tokens"])
      if (each.is_object() && each.contains("id") && each["id"].is_number_integer()) decoder.erase(each["id"].dump());
  config.members[kAddedTokensFile] = std::move(decoder);
}

inline TokenizerConfig read_tokenizer_config(const std::filesystem::path& folder) {
  TokenizerConfig config{.members = read_json_if_exists(folder / kTokenizerConfig)};
  if (!config.members.is_object() || config.members.contains(kDecoder)) return config;
  apply_special_tokens_map(folder, config);
  apply_added_tokens_file(folder, config);
  return config;
}

// The class `name`, with or without the suffix Fast. `config`, `key`: where the name was read.
inline const TokenizerClass& class_named(std::string_view name, const Fields& config, const char* key) {
  std::string known, plain(name);
  if (plain.ends_with("Fast")) plain.resize(plain.size() - 4);
  for (const TokenizerClass& each : kTokenizerClasses) {
    if (each.name == plain) return each;
    known += (known.empty() ? "" : ", ") + std::string(each.name);
  }
  throw Error(Error::Kind::unsupported, config.where(key),
              "\"" + printable(name, 60) + "\" is not supported; supported, with Fast or without: " + known);
}

// A class, and where the field that names or implies it stands. Without a field there is no class.
struct FoundClass {
  const TokenizerClass* which = nullptr;
  std::string where;
  bool implied = false;  // by model_type
};

// Chooses the class as AutoTokenizer does: tokenizer_class of tokenizer_config.json, then tokenizer_class of
// config.json, then its model_type.
inline FoundClass find_class(const Fields& config, const std::filesystem::path& folder) {
  constexpr const char* key = "tokenizer_class";
  if (config.has(key)) return {&class_named(config.string(key), config, key), config.where(key)};
  const Json json = read_json_if_exists(folder / "config.json");
  const Fields model(json, "config.json");
  if (model.has(key)) return {&class_named(model.string(key), model, key), model.where(key)};
  if (!model.has("model_type")) return {};
  const std::string type = model.string("model_type");
  for (const ModelTokenizer& each : kModelTokenizers)
    if (each.model_type == type) return {&class_named(each.name, model, key), model.where("model_type"), true};
  throw Error(Error::Kind::unsupported, model.where("model_type"),
              "\"" + printable(type, 60) + "\" implies no known tokenizer_class, and " + config.file() + " has none");
}

// Without a class of the files it is the one that leaves tokenizer.json unchanged.
inline const TokenizerClass& tokenizer_class(const Fields& config, const std::filesystem::path& folder) {
  const FoundClass found = find_class(config, folder);
  return found.which ? *found.which : class_named("PreTrainedTokenizer", config, "tokenizer_class");
}

// The token that field `key` names: a string, or an object with its flags. Empty if the field is absent or null.
inline std::optional<AddedToken> token_named(const Fields& config, const std::string& key, const AddedTokenList& list) {
  if (!config.has(key)) return std::nullopt;
  if (config.value(key).is_object()) return list.read(config.object(key), 0, /*special=*/true);
  return AddedToken{.text = config.string(key), .special = true};
}

// An object is added again with its own flags: in transformers an AddedToken equals no string.
inline std::optional<TokenId> add_named(AddedToken token, bool is_object, const Fields& config, const std::string& key,
                                        AddedTokenList& list) {
  const auto id = list.add_special(token, config, key);
  const AddedToken* const known = list.find(token.text);
  token.id = known->id;
  if (is_object && !(*known == token)) list.add_again(std::move(token));
  return id;
}

// Reads a field with special tokens without a role: a list, or an object from a name to a token.
inline void read_more_special(const Fields& config, const char* field, AddedTokenList& list,
                              std::vector<SpecialToken>& special) {
  if (!config.has(field)) return;
  const Json& more = config.value(field);
  if (!more.is_array() && !more.is_object())
    config.refuse(field, "must be a list or an object, is " + Fields::describe(more));
  for (const auto& [name, value] : more.items()) {  // the name is the index in a list
    const std::string key = field + (more.is_array() ? "[" + name + "]" : "." + name);
    if (value == "") continue;
    const AddedToken token = value.is_string() ? AddedToken{.text = value.get<std::string>(), .special = true}
                                               : list.read(Fields(value, config.file(), key), 0, /*special=*/true);
    if (const auto id = add_named(token, value.is_object(), config, key, list)) special.push_back({*id, token.text});
  }
}

// CodeLlamaTokenizerFast makes these tokens special if the vocabulary has them (tokenization_code_llama_fast.py).
inline void read_infill_tokens(const Fields& config, const Spellings& spellings, const AddedTokenList& list,
                               std::vector<SpecialToken>& special) {
  constexpr std::string_view tokens[][2] = {{"prefix_token", "\xE2\x96\x81<PRE>"},
                                            {"middle_token", "\xE2\x96\x81<MID>"},
                                            {"suffix_token", "\xE2\x96\x81<SUF>"},
                                            {"eot_token", "\xE2\x96\x81<EOT>"}};
  for (const auto& [name, absent] : tokens) {
    const std::string key(name);
    const std::string text =
        config.json().contains(key) ? token_named(config, key, list).value_or(AddedToken{}).text : std::string(absent);
    if (const auto id = spellings.find(text)) special.push_back({*id, text});
  }
}

// Reads the tokens with a role, and the special tokens without one, in the order in which transformers adds those that
// the vocabulary lacks. `names`: the class, whose tokens are the defaults.
inline void read_roles(const Fields& config, const TokenizerClass& names, const Spellings& spellings,
                       AddedTokenList& added, TokenizerTables& out) {
  const auto role = [&](const char* key, std::string_view name) -> std::optional<TokenId> {
    auto token = token_named(config, key, added);
    if (!token && !config.json().contains(key) && !name.empty())
      token = AddedToken{.text = std::string(name), .special = true};
    if (!token || token->text.empty()) return std::nullopt;
    const bool is_object = config.has(key) && config.value(key).is_object();
    const auto id = add_named(*token, is_object && !added.is_pinned(token->text), config, key, added);
    if (id) out.special.push_back({*id, token->text});
    return id;
  };
  out.bos = role("bos_token", names.bos);
  out.eos = role("eos_token", names.eos);
  role("unk_token", names.unk);
  role("sep_token", {});
  out.pad = role("pad_token", names.pad);
  for (const char* key : {"cls_token", "mask_token"}) role(key, {});
  // The names in transformers 4 and 5.
  for (const char* field : {"additional_special_tokens", "extra_special_tokens", "model_specific_special_tokens"})
    read_more_special(config, field, added, out.special);
  if (names.name == "CodeLlamaTokenizer") read_infill_tokens(config, spellings, added, out.special);
}

// The files of GPT-2 itself do not name their end token; transformers' code does.
inline void default_end_of_text(const Spellings& spellings, TokenizerTables& out) {
  const auto id = spellings.find(std::string(kEndOfText));
  if (out.eos || !id) return;
  out.eos = id;
  out.special.push_back({*id, std::string(kEndOfText)});
}

// The last step, after all special tokens are listed. bytes(id, spelling) returns the bytes of a token.
template <class Bytes>
void finish_vocabulary(const Spellings& spellings, std::optional<int> vocab_size, Bytes&& bytes, TokenizerTables& out) {
  default_end_of_text(spellings, out);
  sort_special_tokens(out);
  out.size = vocab_size.value_or(static_cast<int>(spellings.by_id().size()));
  lay_out_tokens(spellings, bytes, out);
}

// The keys of "added_tokens_decoder", {"50257": {"content": "<pad>", ...}}, in the order of their ids.
inline std::map<TokenId, std::string> added_token_keys(const Fields& added) {
  std::map<TokenId, std::string> keys;
  for (const auto& [key, value] : added.json().items()) {
    const bool digits =
        key.size() <= 9 && std::all_of(key.begin(), key.end(), [](char c) { return c >= '0' && c <= '9'; });
    const int id = digits && !key.empty() ? std::stoi(key) : -1;
    if (id < 0 || std::to_string(id) != key) added.refuse(key, "must be an id");
    keys.emplace(id, key);
  }
  return keys;
}

// Adds the tokens of added_tokens_decoder, or of added_tokens.json, that the vocabulary lacks. The others get the flags
// of this file, as in transformers.
inline void add_missing_tokens(const Fields& config, AddedTokenList& list) {
  const bool has_decoder = config.has(kDecoder);
  if (!has_decoder) list.pin_all();  // tokens of tokenizer.json
  if (!has_decoder && !config.has(kAddedTokensFile)) return;
  list.begin_second_call();
  const Fields added = config.object(has_decoder ? kDecoder : kAddedTokensFile);
  for (const auto& [id, key] : added_token_keys(added)) {
    const Fields fields = added.object(key);
    const AddedToken token = list.read(fields, id);
    if (has_decoder) list.pin(token.text);
    const AddedToken* const known = list.find(token.text);
    if (!known) {
      list.add(token, added, key);
      continue;
    }
    if (known->id != id)
      fields.refuse("content", "contradicts the vocabulary, which has \"" + printable(token.text, 60) +
                                   "\" with the id " + std::to_string(known->id));
    if (!(*known == token)) list.add_again(token);
  }
}

// ---- beside vocab.json

// Whether the class reads tokenizer.model.
inline bool reads_pieces(const TokenizerClass& which) {
  return which.name == "LlamaTokenizer" || which.name == "CodeLlamaTokenizer" || which.name == "GemmaTokenizer";
}

// The class that reads vocab.json and merges.txt. If no file says which, and for the classes that say nothing about
// their steps, the steps are GPT-2's.
inline const TokenizerClass& class_beside_vocab(const Fields& config, const std::filesystem::path& folder) {
  const FoundClass found = find_class(config, folder);
  if (!found.which) return class_named("GPT2Tokenizer", config, "tokenizer_class");
  const TokenizerClass& which = *found.which;
  const bool open = which.name == "PreTrainedTokenizer" || which.name == "TokenizersBackend";
  if (which.name == "GPT2Tokenizer" || which.name == "CodeGenTokenizer" || which.name == "Qwen2Tokenizer" ||
      (open && !found.implied))
    return which;
  throw Error(Error::Kind::unsupported, found.where,
              std::string(which.name) + " does not read vocab.json with merges.txt; it needs tokenizer.json" +
                  (reads_pieces(which) ? " or tokenizer.model" : ""));
}

// Every field that can change the ids of a text is either supported or refused.
inline void read_config_beside_vocab(const Fields& config, const TokenizerClass& which, Spellings& spellings,
                                     AddedTokenList& added, TokenizerTables& out) {
  const bool prefix = config.boolean("add_prefix_space", false);
  if (prefix && which.name == "Qwen2Tokenizer")
    throw Error(Error::Kind::unsupported, config.where("add_prefix_space"), "true is not supported for Qwen2Tokenizer");
  if (prefix) out.pipeline.pre_tokenizer.prefix_space(true);
  const bool begins = config.boolean("add_bos_token", false), ends = config.boolean("add_eos_token", false);
  const bool flags_count = which.name != "Qwen2Tokenizer";  // whose class knows neither
  if (ends && flags_count)
    throw Error(Error::Kind::unsupported, config.where("add_eos_token"), "true is not supported beside vocab.json");
  add_missing_tokens(config, added);
  read_roles(config, which, spellings, added, out);
  if (begins && flags_count) {  // GPT2Converter of transformers; OPT has it
    if (!out.bos) config.refuse("add_bos_token", "is true, but there is no bos_token");
    out.pipeline.before = {*out.bos};
  }
  added.add_roles(out.special);
  added.list_special(out);
}

// ---- beside tokenizer.json

// Applies add_bos_token and add_eos_token. LlamaTokenizerFast builds its template from them; other classes of
// transformers 4 keep the post_processor. In transformers 5 all classes use them: here they must agree with the
// post_processor.
inline void apply_template_flags(const Fields& config, const TokenizerClass& which, TokenizerTables& out) {
  const auto flag = [&](const char* key, bool absent) {
    return config.json().contains(key) ? config.boolean(key, false) : absent;
  };
  auto& pipeline = out.pipeline;
  if (which.writes_template) {
    const auto ids = [&](const char* key, bool absent, const char* role, std::optional<TokenId> id) {
      if (!flag(key, absent)) return std::vector<TokenId>{};
      if (!id) config.refuse(role, std::string("is missing, and ") + key + " needs it");
      return std::vector<TokenId>{*id};
    };
    pipeline.before = ids("add_bos_token", which.begins, "bos_token", out.bos);
    pipeline.after = ids("add_eos_token", false, "eos_token", out.eos);
  } else if (which.name == "TokenizersBackend") {
    const auto agree = [&](const char* key, bool adds) {
      if (flag(key, adds) != adds)
        throw Error(Error::Kind::unsupported, config.where(key), "contradicts the post_processor of tokenizer.json");
    };
    agree("add_bos_token", !pipeline.before.empty());
    agree("add_eos_token", !pipeline.after.empty());
  } else {
    flag("add_bos_token", false), flag("add_eos_token", false);  // only checks that they are booleans
  }
}

// If add_prefix_space is given, LlamaTokenizerFast rebuilds the tokenizer from tokenizer.model (from_slow).
// `legacy` chooses its form: Prepend with Replace, or Metaspace (LlamaConverter in convert_slow_tokenizer.py).
// tokenizer.json is accepted only in that form.
inline void check_rebuilt(const Fields& config, const Pipeline& pipeline) {
  using Prepend = Metaspace::Prepend;
  const bool prefix = config.boolean("add_prefix_space"), legacy = config.boolean("legacy", true);
  const auto refuse = [&](const char* key, const std::string& what) {
    throw Error(Error::Kind::unsupported, config.where(key), what);
  };
  using Kind = NormalizerStep::Kind;
  const bool normalizes = pipeline.normalizer.has(Kind::prepend);
  for (const NormalizerStep& step : pipeline.normalizer.steps())
    if (step.kind != Kind::prepend && !(step.kind == Kind::replace && step.from == " " && step.to == kMetaspace))
      throw Error(Error::Kind::unsupported, config.where("add_prefix_space"),
                  "is not supported beside further steps of the normalizer, which transformers drops");
  const PreTokenizerStep* const step = pipeline.pre_tokenizer.find(PreTokenizerStep::Kind::metaspace);
  const Metaspace found = step ? step->metaspace : Metaspace{};
  const bool prepends = normalizes || found.prepend != Prepend::never;
  if (prefix != prepends || prefix != (pipeline.start != Pipeline::Start::keep))
    refuse("add_prefix_space", "contradicts tokenizer.json");
  if (normalizes != (prefix && legacy) || found.prepend == Prepend::always || found.split)
    refuse("legacy", std::string(legacy ? "true (the default)" : "false") + " with add_prefix_space needs " +
                         (legacy ? "the normalizers Prepend and Replace" : "Metaspace (first or never, no split)") +
                         ", and tokenizer.json has another form");
}

// transformers 4 sets the flag of a ByteLevel outside a Sequence to the value of the class, which is false where no
// file says true. It keeps the flag inside a Sequence. TokenizersBackend (transformers 5) always keeps it.
inline void apply_prefix_space(const Fields& config, const TokenizerClass& which, Pipeline& pipeline) {
  constexpr const char* key = "add_prefix_space";
  const bool prefix = config.boolean(key, false);
  if (pipeline.family == TokenizerFamily::byte_level) {
    if (which.rebuilds && prefix)
      throw Error(Error::Kind::unsupported, config.where(key),
                  "true is not supported for this class: it needs tokenizer.model");
    // alone: no other file says anything about the tokenizer.
    const bool alone = which.name == "PreTrainedTokenizer" && config.json().empty();
    const bool keeps = which.rebuilds || which.name == "TokenizersBackend" || alone;
    if (pipeline.lone_byte_level && !keeps) pipeline.pre_tokenizer.prefix_space(prefix);
  } else if (which.rebuilds && config.has(key)) {
    check_rebuilt(config, pipeline);
  }
}

inline void read_config_beside_tokenizer_json(const Fields& config, const TokenizerClass& which, AddedTokenList& added,
                                              const Spellings& spellings, TokenizerTables& out) {
  if (config.boolean("from_slow", false))
    throw Error(Error::Kind::unsupported, config.where("from_slow"), "true is not supported: tokenizer.json is read");
  apply_prefix_space(config, which, out.pipeline);
  add_missing_tokens(config, added);
  read_roles(config, which, spellings, added, out);
  apply_template_flags(config, which, out);
}

}  // namespace tenon::detail
