/// Chat templates: conversations become prompts by the Jinja text that a model brings.
///
/// The Jinja is the part that chat templates use, with the settings and functions of Hugging Face's transformers. It is
/// interpreted within Limits; no attribute of a host object is reachable. Each byte of a prompt is known to be the
/// template's or a message's, so a message that spells a special token is ordinary text (docs/chat.md).
#pragma once
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/chat/limits.h"
#include "tenon/core/require.h"
#include "tenon/io/json_fwd.h"
#include "tenon/tokenizer/text_span.h"

namespace tenon::chat {

/// The variables of a template. JSON keeps the order of keys, which templates show.
struct Conversation {
  OrderedJson messages = OrderedJson::array();  ///< objects with `role`, `content` and other keys
  OrderedJson tools = nullptr;                  ///< a list of tools as JSON schemas; null: none
  OrderedJson documents = nullptr;              ///< a list of documents for retrieval; null: none
  bool add_generation_prompt = false;           ///< the prompt ends where an answer of the assistant begins
  bool continue_final_message = false;          ///< the prompt ends with the text of the last message
  OrderedJson kwargs = OrderedJson::object();   ///< further variables of the request, by name
  /// Variables of the model, by name, such as `bos_token`. Their text counts as the template's.
  OrderedJson special_tokens = OrderedJson::object();
  /// Local time for `strftime_now`; without it the function is undefined, which templates may test.
  std::optional<std::chrono::local_seconds> now = std::nullopt;
};

/// A rendered prompt.
struct Rendered {
  std::string text;  ///< UTF-8
  /// Bytes that the template wrote, in order; messages wrote the others. For Tokenizer::encode_rendered.
  std::vector<TextSpan> template_spans;
};

namespace detail {
struct SyntaxTree;
}

/// A parsed template. Thread-safe: render() changes nothing.
class Template {
 public:
  /// Parses a template. `name` is the beginning of `where()` of all errors.
  /// Errors name line and column. invalid_file: not Jinja. unsupported: Jinja that is not supported. capacity: a limit.
  explicit Template(std::string_view text, std::string name = "chat_template", const Limits& limits = {});

  /// The prompt of a conversation, equal to apply_chat_template(tokenize=False) of transformers.
  ///
  /// Texts of messages, tools, documents and kwargs are marked as the message's. The exception is `role` of a message
  /// if it is a word of letters, digits and underscores: templates build special tokens from roles.
  ///
  /// Errors name line and column of the template. invalid_request: the template refuses the conversation by
  /// raise_exception, or fails. unsupported: Jinja that is not supported. capacity: a limit. Without a line:
  /// invalid_request if a JSON value is of the wrong kind, or a text is not UTF-8.
  Rendered render(const Conversation& conversation) const;

  /// The text of the template, with \n as line ends.
  const std::string& source() const;

 private:
  std::shared_ptr<const detail::SyntaxTree> tree_;
  std::string name_;
  Limits limits_;
};

}  // namespace tenon::chat

#ifndef TENON_COMPILED
#include "tenon/chat/template-inl.h"
#endif
