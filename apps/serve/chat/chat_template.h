// How a conversation becomes a prompt: the forms that are built in. Templates of models are recognised, never run.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "serve/chat/chat_message.h"
#include "tenon/tokenizer/bpe.h"
#include "tenon/tokenizer/chat_template_file.h"

namespace serve {

struct ChatForm;

// A chat prompt, for Tokenizer::encode_rendered.
struct RenderedChat {
  std::string text;
  std::vector<tenon::TextSpan> template_spans;  // what the template wrote, in order; the rest is the messages'
};

//   chatml   <|im_start|>user\n...<|im_end|>\n        any order of system, user and assistant
//   llama2   <s>[INST] <<SYS>>\n...\n<</SYS>>\n\n... [/INST] ... </s>     one system message first, then alternating
//   llama3   <|start_header_id|>user<|end_header_id|>\n\n...<|eot_id|>    any order
//   mistral  <s>[INST] ... [/INST]...</s>             no system message; alternating
//   zephyr   <|user|>\n...</s>\n                      any order
//   plain    User: ...\nAssistant:                    any order; for models that know no form
class ChatTemplate {
 public:
  // One of these words. tenon::Error, invalid_request, where it is none of them.
  static ChatTemplate named(std::string_view name);

  // The form of a model's own template, where that is known to the letter (but for white space without a meaning); a
  // variant may add a system message of its own, or take one where the form by name does not.
  static std::optional<ChatTemplate> recognise(const std::string& jinja);

  // As --chat-template says: none, auto (recognised or none) or a form by name.
  static std::optional<ChatTemplate> chosen(std::string_view word, const std::string& jinja);

  // The prompt, up to where the assistant's answer begins. bos_text and eos_text are those of the tokenizer, empty
  // where it has none; the prompt has its own begin of text, so the tokenizer must add none. Contents may spell
  // anything. Error, invalid_request, field messages, where the form takes no such order or role.
  RenderedChat render(std::span<const ChatMessage> messages, std::string_view bos_text,
                      std::string_view eos_text) const;

  // Texts that end an answer besides the tokenizer's end of text. Most are one special token of the tokenizer.
  std::vector<std::string> stops() const;

  std::string_view name() const;

 private:
  explicit ChatTemplate(const ChatForm& form) : form_(&form) {}

  const ChatForm* form_;  // of a table that lasts
};

// What a chat request gets without a template.
inline constexpr const char* kNoChatTemplate =
    "this model has no chat template that this server knows; the server's --chat-template names one";

using tenon::read_chat_template;

}  // namespace serve
