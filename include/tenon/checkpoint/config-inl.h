#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>

#include "tenon/checkpoint/config.h"
#include "tenon/checkpoint/quantized.h"
#include "tenon/core/error.h"
#include "tenon/core/require.h"
#include "tenon/io/file.h"
#include "tenon/io/json.h"

namespace tenon {

TENON_INLINE ConfigFile::ConfigFile(const std::filesystem::path& folder) : file_("config.json") {
  constexpr std::uint64_t max_bytes = 16u << 20;  // usually 1 kB; a classifier's id2label can be long
  std::error_code failed;
  if (!std::filesystem::is_directory(folder, failed))
    throw Error(Error::Kind::io, file_, "there is no model folder \"" + file_name_of(folder) + "\" to read it from");
  json_ = std::make_shared<const Json>(read_json_file(folder / file_, max_bytes, {.values = 1'000'000}));
  if (!whole().has(kQuantizationKey) && std::filesystem::exists(folder / kModelOptFile, failed)) {
    Json json = read_json_file(folder / kModelOptFile, max_bytes, {.values = 1'000'000});
    if (json.is_object() && !json.contains("quant_method")) json["quant_method"] = "modelopt";
    quantization_ = std::make_shared<const Json>(std::move(json));
  }
  refuse_unsupported();
  if (!std::filesystem::exists(folder / kGenerationFile, failed)) return;
  generation_ =
      std::make_shared<const Json>(read_json_file(folder / kGenerationFile, max_bytes, {.values = 1'000'000}));
  generation();  // error where the file is not an object
}

TENON_INLINE ConfigFile::ConfigFile(std::shared_ptr<const Json> json, std::string file)
    : file_(std::move(file)), json_(std::move(json)) {
  refuse_unsupported();
}

TENON_INLINE bool ConfigFile::reads_images() const {
  const Json type = json_->is_object() ? json_->value("model_type", Json()) : Json();
  constexpr std::string_view known[] = {"gemma3",   "mistral3", "qwen2_vl", "qwen2_5_vl",
                                        "qwen3_vl", "smolvlm",  "idefics3"};
  return type.is_string() &&
         std::find(std::begin(known), std::end(known), type.get_ref<const std::string&>()) != std::end(known);
}

TENON_INLINE bool ConfigFile::has_text_config() const {
  const bool may_be_flat = json_->is_object() && json_->value("model_type", Json()).is_string() &&
                           (*json_)["model_type"].get_ref<const std::string&>().starts_with("qwen2_");
  return reads_images() && (!may_be_flat || whole().has("text_config"));
}

TENON_INLINE bool ConfigFile::ties_head(bool fallback) const {
  constexpr const char* key = "tie_word_embeddings";
  const bool tied = fields().flag(key, fallback);
  if (!has_text_config() || !whole().has(key) || whole().boolean(key) == tied) return tied;
  return has_head_ ? !*has_head_ : tied;
}

TENON_INLINE ConfigFile ConfigFile::with(const std::vector<std::pair<std::string, bool>>& switches) const {
  Json json = *json_;
  for (const auto& [key, value] : switches) {
    if (has_text_config()) json["text_config"][key] = value;
    if (!has_text_config() || key == "tie_word_embeddings") json[key] = value;
  }
  return ConfigFile(std::make_shared<const Json>(std::move(json)), file_);
}

TENON_INLINE std::optional<Fields> ConfigFile::quantization() const {
  if (quantization_)
    return std::optional<Fields>(std::in_place, *quantization_, kModelOptFile, "", Error::Kind::invalid_file,
                                 &logs_->quantization);
  return whole().has(kQuantizationKey) ? std::optional<Fields>(whole().object(kQuantizationKey)) : std::nullopt;
}

TENON_INLINE std::optional<Fields> ConfigFile::generation() const {
  if (!generation_) return std::nullopt;
  return std::optional<Fields>(std::in_place, *generation_, kGenerationFile, "", Error::Kind::invalid_file,
                               &logs_->generation);
}

TENON_INLINE std::vector<std::string> ConfigFile::unread() const {
  std::vector<std::string> out;
  const auto list = [&](const FieldLog& log, const Json& json, const std::string& file) {
    for (const std::string& name : log.unread_paths(json))
      if (name != "tokenizer_class") out.push_back(file + ": " + printable(name, 120));
  };
  list(logs_->config, *json_, file_);
  if (generation_) list(logs_->generation, *generation_, kGenerationFile);
  if (quantization_) list(logs_->quantization, *quantization_, kModelOptFile);
  return out;
}

TENON_INLINE SpecialTokens ConfigFile::special_tokens(int vocab_size, const SpecialTokenDefaults& defaults) const {
  SpecialTokens tokens;
  const std::optional<Fields> generation = this->generation();
  const auto config = [&](const char* key) { return whole().has(key) ? whole() : fields(); };
  const auto read = [&](const Fields& file, const char* key, std::optional<TokenId> fallback) {
    return ids(file, key, std::string(key) == "eos_token_id", vocab_size, fallback, tokens.dropped);
  };
  const bool generation_bos = generation && generation->json().contains("bos_token_id");
  std::vector<TokenId> bos = read(config("bos_token_id"), "bos_token_id", generation_bos ? std::nullopt : defaults.bos);
  if (generation_bos) bos = read(*generation, "bos_token_id", std::nullopt);
  if (!bos.empty()) tokens.bos = bos.front();

  std::vector<std::string> ignored;  // a pad outside the vocabulary equals no token of a prompt
  const std::vector<TokenId> pad =
      ids(config("pad_token_id"), "pad_token_id", false, vocab_size, defaults.pad, ignored);
  if (!pad.empty()) tokens.pad = pad.front();

  const Fields ends = config("eos_token_id");
  if (generation) read(ends, "eos_token_id", std::nullopt);  // only to list dropped ids
  const std::size_t listed = tokens.dropped.size();
  tokens.eos = read(generation ? *generation : ends, "eos_token_id", generation ? std::nullopt : defaults.eos);
  if (!generation && !ends.json().contains("eos_token_id"))
    for (const TokenId id : defaults.more_eos)
      if (id < vocab_size) tokens.eos.push_back(id);
  const bool none_left = tokens.eos.empty() && tokens.dropped.size() > listed;
  if (none_left && tokenizer_eos_ && *tokenizer_eos_ < vocab_size) tokens.eos = {*tokenizer_eos_};
  return tokens;
}

TENON_INLINE std::vector<TokenId> ConfigFile::ids(const Fields& fields, const std::string& key, bool may_be_list,
                                                  int vocab_size, std::optional<TokenId> fallback,
                                                  std::vector<std::string>& dropped) {
  std::vector<TokenId> kept;
  const auto add = [&](const Json& id, const char* note) {
    if (!id.is_number_integer())
      fields.refuse(key, "must be the id of a token, an integer, is " + Fields::describe(id));
    const bool known = id.is_number_unsigned() && id.get<std::uint64_t>() < static_cast<std::uint64_t>(vocab_size);
    if (known)
      kept.push_back(id.get<TokenId>());
    else
      dropped.push_back(fields.where(key) + " " + id.dump() + note);
  };
  if (!fields.json().contains(key)) {
    if (fallback) add(Json(static_cast<std::uint64_t>(*fallback)), ", the default of its class");
    return kept;
  }
  const Json& value = fields.value(key);
  if (value.is_null()) return kept;
  if (!may_be_list || !value.is_array()) return add(value, ""), kept;
  for (const Json& each : value) add(each, "");
  return kept;
}

TENON_INLINE void ConfigFile::refuse_unsupported() const {
  const Fields fields = this->fields();
  const auto refuse = [&](const std::string& key, const std::string& what) {
    throw Error(Error::Kind::unsupported, fields.where(key), what);
  };
  if (reads_images() && whole().has("architectures"))
    for (const std::string& name : whole().strings("architectures"))
      if (!name.ends_with("ForConditionalGeneration") && !name.ends_with("ForCausalLM"))
        throw Error(Error::Kind::unsupported, whole().where("architectures"),
                    "\"" + printable(name, 60) + "\" is not supported");
  if (const auto quantization = this->quantization()) quantization_method(*quantization);  // error where not known
  for (const char* key : {"is_encoder_decoder", "add_cross_attention"})
    if (fields.boolean(key, false)) refuse(key, "true is not supported: only decoders without cross attention are");
  if (fields.has("attention_chunk_size")) refuse("attention_chunk_size", "attention in chunks is not supported");
  if (fields.has("pruned_heads") && !fields.value("pruned_heads").empty())
    refuse("pruned_heads", "pruned heads are not supported");
}

}  // namespace tenon
