// config.json of a model folder, and generation_config.json beside it: read strictly, and checked for fields that no
// family supports.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tenon/core/error.h"
#include "tenon/core/fields.h"
#include "tenon/core/file.h"
#include "tenon/core/json.h"
#include "tenon/core/views.h"

namespace tenon {

struct SpecialTokens {
  std::optional<TokenId> bos;
  std::vector<TokenId> eos;          // each of them ends a text; some base models have none
  std::vector<std::string> dropped;  // "config.json: eos_token_id 50256": ids outside the vocabulary, which never come
};

// The ids that a model class of transformers has where config.json is silent.
struct SpecialTokenDefaults {
  std::optional<TokenId> bos = {}, eos = {};
};

// Owns the documents; fields() and generation() look into them and must not outlive it.
class ConfigFile {
 public:
  // Reads <folder>/config.json and, where it is there, <folder>/generation_config.json. Errors: io where the first is
  // missing, invalid_file where one is no JSON object, unsupported where a field of the first would change the outputs
  // and is not done.
  explicit ConfigFile(const std::filesystem::path& folder) : file_("config.json") {
    constexpr std::uint64_t max_bytes = 16u << 20;  // 1 kB is usual; id2label of a classifier can be long
    std::error_code failed;
    if (!std::filesystem::is_directory(folder, failed))
      throw Error(Error::Kind::io, file_, "there is no model folder \"" + file_name_of(folder) + "\" to read it from");
    json_ = read_json_file(folder / file_, max_bytes, {.values = 1'000'000});
    refuse_unsupported();
    if (!std::filesystem::exists(folder / kGenerationFile, failed)) return;
    generation_ = read_json_file(folder / kGenerationFile, max_bytes, {.values = 1'000'000});
    generation();  // refuses what is no object
  }

  Fields fields() const { return Fields(json_, file_); }
  std::string model_type() const { return fields().string("model_type"); }

  // generation_config.json; none where the folder has no such file.
  std::optional<Fields> generation() const {
    return generation_ ? std::optional<Fields>(std::in_place, *generation_, kGenerationFile) : std::nullopt;
  }

  // eos_token of the tokenizer. It ends a text where the files name ids, and none of them is in the vocabulary.
  void set_tokenizer_eos(TokenId id) { tokenizer_eos_ = id; }

  // bos_token_id (an id) and eos_token_id (an id or a list). As transformers' generate has it, generation_config.json
  // alone says where a text ends, if there is such a file: also where it names no eos_token_id. Without the file
  // config.json says it: null is none, and an absent field is the class's default. Ids outside [0, vocab_size) are
  // dropped, for they never come. Error invalid_file where an id is no integer.
  SpecialTokens special_tokens(int vocab_size, const SpecialTokenDefaults& defaults = {}) const {
    SpecialTokens tokens;
    const Fields config = fields();
    const std::optional<Fields> generation = this->generation();
    const auto read = [&](const Fields& file, const char* key, std::optional<TokenId> fallback) {
      return ids(file, key, std::string(key) == "eos_token_id", vocab_size, fallback, tokens.dropped);
    };
    const bool generation_bos = generation && generation->json().contains("bos_token_id");
    std::vector<TokenId> bos = read(config, "bos_token_id", generation_bos ? std::nullopt : defaults.bos);
    if (generation_bos) bos = read(*generation, "bos_token_id", std::nullopt);
    if (!bos.empty()) tokens.bos = bos.front();

    if (generation) read(config, "eos_token_id", std::nullopt);  // for the list of what is dropped
    const std::size_t listed = tokens.dropped.size();
    tokens.eos = read(generation ? *generation : config, "eos_token_id", generation ? std::nullopt : defaults.eos);
    const bool none_left = tokens.eos.empty() && tokens.dropped.size() > listed;
    if (none_left && tokenizer_eos_ && *tokenizer_eos_ < vocab_size) tokens.eos = {*tokenizer_eos_};
    return tokens;
  }

 private:
  static constexpr const char* kGenerationFile = "generation_config.json";

  // The ids of a field that are in the vocabulary; the others go to `dropped`, with where they stand.
  static std::vector<TokenId> ids(const Fields& fields, const std::string& key, bool may_be_list, int vocab_size,
                                  std::optional<TokenId> fallback, std::vector<std::string>& dropped) {
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

  // Fields that every family of transformers inherits and that change the outputs.
  void refuse_unsupported() const {
    const Fields fields = this->fields();
    const auto refuse = [&](const std::string& key, const std::string& what) {
      throw Error(Error::Kind::unsupported, fields.where(key), what);
    };
    if (fields.has("quantization_config"))
      refuse("quantization_config", "quantised checkpoints are not read; use the float checkpoint and a weight policy");
    for (const char* key : {"is_encoder_decoder", "add_cross_attention"})
      if (fields.boolean(key, false)) refuse(key, "true is not supported: only decoders without cross attention are");
    if (fields.has("attention_chunk_size")) refuse("attention_chunk_size", "attention in chunks is not supported");
    if (fields.has("pruned_heads") && !fields.value("pruned_heads").empty())
      refuse("pruned_heads", "pruned heads are not supported");
  }

  std::string file_;
  Json json_;
  std::optional<Json> generation_;
  std::optional<TokenId> tokenizer_eos_;
};

}  // namespace tenon
