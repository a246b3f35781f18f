// config.json of a model folder, and generation_config.json in the same folder. Both are read strictly, and checked
// for fields that no model family supports.
#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tenon/core/views.h"
#include "tenon/io/fields.h"
#include "tenon/io/json_fwd.h"

namespace tenon {

/// Ids with a role in generation.
struct SpecialTokens {
  std::optional<TokenId> bos;  ///< starts a text; empty where the model has none
  std::vector<TokenId> eos;    ///< each of them ends a text; some base models have none
  std::optional<TokenId> pad;  ///< fills up shorter texts of a batch; empty where config.json has none
  /// Ids outside the vocabulary, which are never generated: "config.json: eos_token_id 50256".
  std::vector<std::string> dropped;
};

/// Ids that a model class of transformers uses where config.json has no such field.
struct SpecialTokenDefaults {
  std::optional<TokenId> bos = {}, eos = {}, pad = {};
  std::vector<TokenId> more_eos = {};  ///< that end a text, too
};

/// The config files of a model. fields() and generation() are views into the object and must not outlive it.
class ConfigFile {
 public:
  /// Reads <folder>/config.json and, where they exist, <folder>/generation_config.json and hf_quant_config.json.
  /// Errors: io if config.json is missing; invalid_file if a file is not a JSON object. Error unsupported if
  /// config.json sets a field that changes the outputs and that tenon does not implement.
  explicit ConfigFile(const std::filesystem::path& folder);
  /// The same with the members of config.json in memory. `file` names them in errors.
  ConfigFile(std::shared_ptr<const Json> json, std::string file);

  /// The members of config.json. A model of images and texts has those of its decoder in text_config; older files of
  /// Qwen2-VL and 2.5-VL have them among the others.
  Fields fields() const { return has_text_config() ? whole().object("text_config") : whole(); }
  /// Whether it is a model of images and texts. Such a model runs as its decoder, on texts alone.
  bool reads_images() const;
  /// Whether the head is the embedding: tie_word_embeddings of fields(), else `fallback`. transformers 5 writes the
  /// field of a model of images and texts at the top. If the two differ, the model is tied unless its checkpoint has a
  /// head, where set_has_head said so: transformers 4 and 5 agree on such files.
  bool ties_head(bool fallback) const;
  /// Sets whether the checkpoint has a head.
  void set_has_head(bool has) { has_head_ = has; }
  /// A copy with these switches of fields(). tie_word_embeddings is set at the top, too.
  ConfigFile with(const std::vector<std::pair<std::string, bool>>& switches) const;
  /// Whether fields() are the members of text_config.
  bool has_text_config() const;
  /// "gpt2", "llama", ...: the model family. Error where the field is missing.
  std::string model_type() const { return whole().string("model_type"); }

  /// quantization_config: how another library quantised the weights (quantized.h). Where config.json has none, the
  /// members of hf_quant_config.json, which ModelOpt writes; empty where there is neither.
  std::optional<Fields> quantization() const;

  /// The members of generation_config.json; empty where the file does not exist.
  std::optional<Fields> generation() const;

  /// Members that were not read so far, sorted, each with its file: "config.json: use_cache". After `configure` of the
  /// family these are the fields that are ignored. set_generation_defaults reads generation_config.json.
  /// tokenizer_class, which the tokenizer reads, is not listed. An object that was read in part is replaced by its
  /// members: "config.json: rope_scaling.factor".
  std::vector<std::string> unread() const;

  /// Sets the tokenizer's eos_token. It ends a text only where the files name ids, all of which are outside the
  /// vocabulary.
  void set_tokenizer_eos(TokenId id) { tokenizer_eos_ = id; }

  /// bos_token_id (an id) and eos_token_id (an id or a list), with the precedence of transformers' generate:
  /// - generation_config.json, if it exists, alone decides what ends a text, even where it has no eos_token_id;
  /// - without that file config.json decides: null means none, and an absent field means the default of the class.
  /// bos_token_id of generation_config.json, if present, overrides that of config.json.
  /// - pad_token_id comes from config.json alone.
  /// Ids outside [0, vocab_size) are dropped, because they are never generated. Error invalid_file if an id is no
  /// integer.
  SpecialTokens special_tokens(int vocab_size, const SpecialTokenDefaults& defaults = {}) const;

 private:
  static constexpr const char *kGenerationFile = "generation_config.json", *kModelOptFile = "hf_quant_config.json",
                              *kQuantizationKey = "quantization_config";

  // The ids of a field that are in the vocabulary. The others are appended to `dropped`, each with its file and field.
  static std::vector<TokenId> ids(const Fields& fields, const std::string& key, bool may_be_list, int vocab_size,
                                  std::optional<TokenId> fallback, std::vector<std::string>& dropped);

  // All members of config.json.
  Fields whole() const { return Fields(*json_, file_, {}, Error::Kind::invalid_file, &logs_->config); }

  // Refuses fields that every family of transformers inherits and that change the outputs.
  void refuse_unsupported() const;

  struct Logs {
    FieldLog config, generation, quantization;
  };

  std::string file_;
  std::shared_ptr<Logs> logs_ = std::make_shared<Logs>();
  std::shared_ptr<const Json> json_;
  std::shared_ptr<const Json> generation_;    // null: the file does not exist
  std::shared_ptr<const Json> quantization_;  // the same of hf_quant_config.json; null too where config.json is enough
  std::optional<TokenId> tokenizer_eos_;
  std::optional<bool> has_head_;
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/checkpoint/config-inl.h"
#endif
