// config.json of a model folder: read strictly, and checked for what no family supports.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tenon/core/error.h"
#include "tenon/core/fields.h"
#include "tenon/core/file.h"
#include "tenon/core/json.h"
#include "tenon/core/views.h"

namespace tenon {

struct SpecialTokens {
  std::optional<TokenId> bos;
  std::vector<TokenId> eos;  // any of them ends a text; often one, none in some base models
};

// Owns the document; fields() looks into it and must not outlive it.
class ConfigFile {
 public:
  // Reads <folder>/config.json. Errors: io where it is missing, invalid_file where it is no JSON object, unsupported
  // where a field asks for what would change the outputs and is not done.
  explicit ConfigFile(const std::filesystem::path& folder) : file_("config.json") {
    constexpr std::uint64_t max_bytes = 16u << 20;  // 1 kB is usual; id2label of a classifier can be long
    std::error_code failed;
    if (!std::filesystem::is_directory(folder, failed))
      throw Error(Error::Kind::io, file_, "there is no model folder \"" + file_name_of(folder) + "\" to read it from");
    json_ = read_json_file(folder / file_, max_bytes, {.values = 1'000'000});
    refuse_unsupported();
  }

  Fields fields() const { return Fields(json_, file_); }
  std::string model_type() const { return fields().string("model_type"); }

  // bos_token_id (an id) and eos_token_id (an id or a list); each may be absent or null. Error where an id is not in
  // [0, vocab_size).
  SpecialTokens special_tokens(int vocab_size) const {
    const Fields fields = this->fields();
    const auto id = [&](const std::string& key, const Json& value) {
      return static_cast<TokenId>(fields.check_integer(key, value, 0, vocab_size - 1));
    };
    SpecialTokens tokens;
    if (fields.has("bos_token_id")) tokens.bos = id("bos_token_id", fields.value("bos_token_id"));
    if (!fields.has("eos_token_id")) return tokens;
    const Json& eos = fields.value("eos_token_id");
    if (!eos.is_array()) return tokens.eos = {id("eos_token_id", eos)}, tokens;
    for (const Json& each : eos) tokens.eos.push_back(id("eos_token_id", each));
    return tokens;
  }

 private:
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
};

}  // namespace tenon
