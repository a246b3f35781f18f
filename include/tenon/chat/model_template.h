/// The chat template that a model brings: found in its files, parsed, and rendered with the model's special tokens.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/chat/limits.h"
#include "tenon/chat/template.h"
#include "tenon/core/require.h"
#include "tenon/core/views.h"
#include "tenon/io/json_fwd.h"
#include "tenon/tokenizer/bpe.h"
#include "tenon/tokenizer/chat_template_file.h"

namespace tenon::chat {

namespace detail {
struct ModelTexts;
}

/// Ends of an answer besides the end tokens of the model's config: for Options::stop_ids and Options::stop.
struct TurnEnd {
  std::vector<TokenId> ids = {};        ///< without repetition
  std::vector<std::string> texts = {};  ///< only if the template ends a turn without a special token
};

/// The chat templates of a model. Thread-safe, because all functions are const.
class ModelTemplate {
 public:
  /// Finds the templates of a model folder (read_chat_templates) or of a GGUF file (`tokenizer.chat_template` and its
  /// named ones). Empty if the model has none. Errors as for Template::Template, with file and field as `where()`, and
  /// those of reading the files.
  static std::optional<ModelTemplate> find(const std::filesystem::path& model, const Tokenizer& tokenizer,
                                           const Limits& limits = {});

  /// A template that replaces the model's own and uses the model's special tokens. source: the beginning of `where()`
  /// of errors, such as the name of its file.
  static ModelTemplate of_text(std::string_view text, std::string source, const std::filesystem::path& model,
                               const Tokenizer& tokenizer, const Limits& limits = {});

  /// The prompt of a conversation. With tools the template "tool_use" is taken if the model has one. The model's
  /// special tokens are added to the conversation's `special_tokens`, which take precedence. Errors as for
  /// Template::render; invalid_request if no template has the name "default".
  Rendered render(Conversation conversation) const;

  /// The template that render() takes.
  const Template& choose(const OrderedJson& tools) const;

  /// The file and field of the first template: "tokenizer_config.json: chat_template".
  const std::string& source() const noexcept { return source_; }
  /// `bos_token`, `eos_token` and the others of transformers' special_tokens_map, by name.
  const OrderedJson& special_tokens() const noexcept { return special_tokens_; }

  /// Ids: the tokenizer's end of text, and the special token that closes an assistant's turn. Texts: if no special
  /// token closes it, the line with which the template begins the next user's turn. They are read from a rendered
  /// conversation; empty if the template refuses it.
  const TurnEnd& turn_end() const noexcept { return turn_end_; }

 private:
  ModelTemplate(const detail::ModelTexts& texts, const Tokenizer& tokenizer, const Limits& limits);

  std::string source_;
  std::vector<std::pair<std::string, Template>> templates_;  // by name
  std::string names_;                                        // of all templates, for errors
  OrderedJson special_tokens_;
  TurnEnd turn_end_;
};

}  // namespace tenon::chat

#ifndef TENON_COMPILED
#include "tenon/chat/model_template-inl.h"
#endif
