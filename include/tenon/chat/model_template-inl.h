#pragma once
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <system_error>
#include <utility>

#include "tenon/chat/model_template.h"
#include "tenon/checkpoint/gguf_parts.h"
#include "tenon/core/error.h"
#include "tenon/core/require.h"
#include "tenon/io/fields.h"
#include "tenon/io/file.h"
#include "tenon/io/json.h"
#include "tenon/tokenizer/unicode.h"

namespace tenon::chat {
namespace detail {

// Names of transformers' SpecialTokensMixin, and keys of GGUF's metadata (tokenizer.ggml.*_token_id). The second
// spelling of the separator is that of gguf-py.
struct TokenRole {
  const char *name, *key;
};
inline constexpr TokenRole kTokenRoles[] = {
    {"bos_token", "bos"},       {"eos_token", "eos"},     {"unk_token", "unknown"}, {"sep_token", "separator"},
    {"sep_token", "seperator"}, {"pad_token", "padding"}, {"cls_token", "cls"},     {"mask_token", "mask"}};

// The text of a token: a string, or an object with "content". Null if it is neither, or not UTF-8.
inline OrderedJson token_text(const Json& token) {
  const Json* text = &token;
  if (token.is_object() && token.contains("content")) text = &token["content"];
  if (!text->is_string()) return nullptr;
  auto bytes = text->get<std::string>();
  return find_invalid_utf8(bytes) == bytes.npos ? OrderedJson(std::move(bytes)) : OrderedJson(nullptr);
}

inline void add_tokens(const Json& from, OrderedJson& to) {
  for (const TokenRole& role : kTokenRoles)
    if (from.contains(role.name)) to[role.name] = token_text(from[role.name]);
  constexpr const char *more = "additional_special_tokens", *named = "extra_special_tokens";
  if (from.contains(more) && from[more].is_array()) {
    to[more] = OrderedJson::array();
    for (const Json& each : from[more])
      if (OrderedJson text = token_text(each); text.is_string()) to[more].push_back(std::move(text));
  }
  if (from.contains(named) && from[named].is_object())  // of a class, such as image_token
    for (const auto& [name, token] : from[named].items()) to[name] = token_text(token);
}

inline Json read_object(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return Json::object();
  Json json = read_json_file(path, kMaxChatTemplateFile);
  return json.is_object() ? json : Json::object();
}

// special_tokens_map.json counts only beside an old tokenizer_config.json without added_tokens_decoder, and then it
// wins (PreTrainedTokenizerBase._from_pretrained).
inline OrderedJson folder_tokens(const std::filesystem::path& folder) {
  OrderedJson out = OrderedJson::object();
  const Json config = read_object(folder / "tokenizer_config.json");
  add_tokens(config, out);
  if (!config.contains("added_tokens_decoder")) add_tokens(read_object(folder / "special_tokens_map.json"), out);
  return out;
}

inline OrderedJson gguf_tokens(const Json& metadata) {
  OrderedJson out = OrderedJson::object();
  const auto tokens = metadata.find("tokenizer.ggml.tokens");
  if (tokens == metadata.end() || !tokens->is_array()) return out;
  for (const TokenRole& role : kTokenRoles) {
    const auto id = metadata.find("tokenizer.ggml." + std::string(role.key) + "_token_id");
    if (id == metadata.end() || !id->is_number_unsigned()) continue;
    if (const auto at = id->get<std::uint64_t>(); at < tokens->size()) out[role.name] = token_text((*tokens)[at]);
  }
  return out;
}

inline std::vector<ChatTemplateText> gguf_templates(const Json& metadata, const std::string& file) {
  const std::string key = "tokenizer.chat_template";
  std::vector<ChatTemplateText> out;
  for (const auto& [name, value] : metadata.items()) {
    if (!value.is_string() || (name != key && !name.starts_with(key + "."))) continue;
    out.push_back({name == key ? "default" : name.substr(key.size() + 1), file + ": " + name, value});
  }
  return out;
}

// Prompts of a model, as its files describe them.
struct ModelTexts {
  std::vector<ChatTemplateText> templates;
  OrderedJson tokens;  // by name; null: the model has none of that role
};

inline ModelTexts read_model_texts(const std::filesystem::path& model) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(model, ignored)) return {read_chat_templates(model), folder_tokens(model)};
  const GgufFiles opened = open_gguf(model);
  const Json& metadata = *opened.header.metadata;
  return {gguf_templates(metadata, opened.files.front().name()), gguf_tokens(metadata)};
}

// The variables of transformers' special_tokens_map. A role that the files leave to the class of the tokenizer is the
// tokenizer's own.
inline OrderedJson special_token_variables(OrderedJson tokens, const Tokenizer& tokenizer) {
  const auto add = [&](const char* name, std::optional<TokenId> id) {
    if (!id || tokens.contains(name)) return;
    for (const SpecialToken& token : tokenizer.special_tokens())
      if (token.id == *id) tokens[name] = token.text;
  };
  add("bos_token", tokenizer.begin_of_text());
  add("eos_token", tokenizer.end_of_text());
  add("pad_token", tokenizer.pad());
  OrderedJson out = OrderedJson::object();
  for (const auto& [name, token] : tokens.items())
    if (!token.is_null() && token != "") out[name] = token;
  return out;
}

// The special token that a text has first, if any; of several at one place, the longest.
inline std::optional<TokenId> first_special(std::string_view text, const Tokenizer& tokenizer) {
  std::size_t at = std::string_view::npos, length = 0;
  std::optional<TokenId> id;
  for (const SpecialToken& token : tokenizer.special_tokens()) {
    const std::size_t found = token.text.empty() ? text.npos : text.find(token.text);
    if (found == text.npos || found > at || (found == at && token.text.size() <= length)) continue;
    at = found, length = token.text.size(), id = token.id;
  }
  return id;
}

inline constexpr std::string_view kProbeQuestion = "probequestion", kProbeAnswer = "probeanswer",
                                  kProbeNext = "probenext";

// Text that the template writes after an answer of the assistant. next: a message of the user follows it. Empty if the
// template refuses the conversation.
inline std::string text_after_answer(const ModelTemplate& model, bool next) {
  Conversation conversation{
      .now = std::chrono::local_seconds(std::chrono::local_days(std::chrono::year(2024) / std::chrono::January / 1))};
  const auto add = [&](const char* role, std::string_view text) {
    conversation.messages.push_back({{"role", role}, {"content", std::string(text)}});
  };
  add("user", kProbeQuestion);
  add("assistant", kProbeAnswer);
  if (next) add("user", kProbeNext);
  try {
    const std::string text = model.render(std::move(conversation)).text;
    const std::size_t answer = text.rfind(kProbeAnswer);
    if (answer == text.npos) return {};
    const std::string rest = text.substr(answer + kProbeAnswer.size());
    return next ? rest.substr(0, rest.find(kProbeNext)) : rest;
  } catch (const Error&) {
    return {};
  }
}

// The first line that is not blank, with one newline before it if there is any.
inline std::string opening_line(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kBlank);
  if (begin == text.npos) return {};
  const std::string_view line = text.substr(begin, text.find('\n', begin) - begin);
  const bool newline = text.substr(0, begin).find('\n') != text.npos;
  return (newline ? "\n" : "") + std::string(line.substr(0, line.find_last_not_of(kBlank) + 1));
}

inline TurnEnd find_turn_end(const ModelTemplate& model, const Tokenizer& tokenizer) {
  TurnEnd out;
  if (const auto eos = tokenizer.end_of_text()) out.ids.push_back(*eos);
  // The last turn first: gpt-oss closes it by its own token, and earlier ones by one that also closes its reasoning.
  auto closing = first_special(text_after_answer(model, /*next=*/false), tokenizer);
  const std::string between = closing ? std::string() : text_after_answer(model, /*next=*/true);
  if (!closing) closing = first_special(between, tokenizer);
  if (closing && std::find(out.ids.begin(), out.ids.end(), *closing) == out.ids.end()) out.ids.push_back(*closing);
  if (std::string line = opening_line(between); !closing && !line.empty()) out.texts.push_back(std::move(line));
  return out;
}

}  // namespace detail

TENON_INLINE ModelTemplate::ModelTemplate(const detail::ModelTexts& texts, const Tokenizer& tokenizer,
                                          const Limits& limits)
    : special_tokens_(detail::special_token_variables(texts.tokens, tokenizer)) {
  source_ = texts.templates.front().source;
  for (const ChatTemplateText& each : texts.templates) {
    names_ += (names_.empty() ? "" : ", ") + printable(each.name, 60);
    if (each.name == "default") source_ = each.source;
    // Other names are uses that nothing here asks for. They need not be Jinja that is supported.
    if (each.name == "default" || each.name == "tool_use")
      templates_.emplace_back(each.name, Template(each.text, each.source, limits));
  }
  turn_end_ = detail::find_turn_end(*this, tokenizer);
}

TENON_INLINE std::optional<ModelTemplate> ModelTemplate::find(const std::filesystem::path& model,
                                                              const Tokenizer& tokenizer, const Limits& limits) {
  const detail::ModelTexts texts = detail::read_model_texts(model);
  if (texts.templates.empty()) return std::nullopt;
  return ModelTemplate(texts, tokenizer, limits);
}

TENON_INLINE ModelTemplate ModelTemplate::of_text(std::string_view text, std::string source,
                                                  const std::filesystem::path& model, const Tokenizer& tokenizer,
                                                  const Limits& limits) {
  detail::ModelTexts texts = detail::read_model_texts(model);
  texts.templates = {{"default", std::move(source), std::string(text)}};
  return ModelTemplate(texts, tokenizer, limits);
}

TENON_INLINE const Template& ModelTemplate::choose(const OrderedJson& tools) const {
  const auto named = [&](const char* name) {
    return std::find_if(templates_.begin(), templates_.end(), [&](const auto& each) { return each.first == name; });
  };
  auto found = tools.is_null() ? templates_.end() : named("tool_use");
  if (found == templates_.end()) found = named("default");
  if (found == templates_.end())
    throw Error(Error::Kind::invalid_request, source_,
                "none of the model's chat templates has the name default; it has: " + names_);
  return found->second;
}

TENON_INLINE Rendered ModelTemplate::render(Conversation conversation) const {
  OrderedJson tokens = special_tokens_;
  if (conversation.special_tokens.is_object()) {  // Template::render refuses all else
    tokens.update(conversation.special_tokens);
    conversation.special_tokens = std::move(tokens);
  }
  return choose(conversation.tools).render(conversation);
}

}  // namespace tenon::chat
