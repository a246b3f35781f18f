// config.json of a model folder, and generation_config.json beside it: read strictly, and checked for fields that no
// family supports.
#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tenon/core/views.h"
#include "tenon/io/fields.h"
#include "tenon/io/json_fwd.h"

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
  explicit ConfigFile(const std::filesystem::path& folder);

  Fields fields() const { return Fields(*json_, file_); }
  std::string model_type() const { return fields().string("model_type"); }

  // generation_config.json; none where the folder has no such file.
  std::optional<Fields> generation() const;

  // eos_token of the tokenizer. It ends a text where the files name ids, and none of them is in the vocabulary.
  void set_tokenizer_eos(TokenId id) { tokenizer_eos_ = id; }

  // bos_token_id (an id) and eos_token_id (an id or a list). As transformers' generate has it, generation_config.json
  // alone says where a text ends, if there is such a file: also where it names no eos_token_id. Without the file
  // config.json says it: null is none, and an absent field is the class's default. Ids outside [0, vocab_size) are
  // dropped, for they never come. Error invalid_file where an id is no integer.
  SpecialTokens special_tokens(int vocab_size, const SpecialTokenDefaults& defaults = {}) const;

 private:
  static constexpr const char* kGenerationFile = "generation_config.json";

  // The ids of a field that are in the vocabulary; the others go to `dropped`, with where they stand.
  static std::vector<TokenId> ids(const Fields& fields, const std::string& key, bool may_be_list, int vocab_size,
                                  std::optional<TokenId> fallback, std::vector<std::string>& dropped);

  // Fields that every family of transformers inherits and that change the outputs.
  void refuse_unsupported() const;

  std::string file_;
  std::shared_ptr<const Json> json_;
  std::shared_ptr<const Json> generation_;  // null: the folder has no such file
  std::optional<TokenId> tokenizer_eos_;
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/checkpoint/config-inl.h"
#endif
