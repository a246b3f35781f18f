// Conversations as prompts of a model, for tenon run and tenon chat.
#pragma once
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "conversation/chat_template.h"
#include "conversation/tool_choice.h"
#include "options.h"
#include "tenon/chat/model_template.h"
#include "tenon/core/request.h"
#include "tenon/model/config.h"
#include "tenon/tokenizer/bpe.h"

namespace program {

// The name of a model for people: of its folder or file.
std::string model_name(const ModelOptions& options);

// The chat template of a model folder or GGUF file. template_file: Jinja in place of the model's own; empty: its own.
// Error invalid_request, field `messages`, if the model has no tokenizer (null) or no template.
tenon::chat::ModelTemplate find_chat_template(const std::filesystem::path& model, const std::string& template_file,
                                              const tenon::Tokenizer* tokenizer);

// Conversations become requests. The template is found with the first one, since most inputs of `tenon run` have none.
// All conversations see the clock of the object's start.
class Conversations {
 public:
  // The tokenizer, which may be null, and the config must outlive the object.
  Conversations(std::function<tenon::chat::ModelTemplate()> find, const tenon::Tokenizer* tokenizer,
                const tenon::ModelConfig& config);

  // Sets the request's tokens, and adds what ends the assistant's turn to its stops, unless it ignores end tokens.
  // Returns whether the prompt ends within a block of reasoning, which the template has opened by <think>. Errors:
  // those of `find` and of ModelTemplate::render; invalid_request, field `messages`, if the prompt is empty or too
  // long.
  bool render(tenon::chat::Conversation conversation, tenon::Request& request);

  // As tenon-serve: the conversation is adapted to the template (docs/chat.md), and the request's text shows the
  // markers of calls and of reasoning. Returns how the answer is read. Errors as render().
  // now: the time that the template sees, in seconds since 1970; none: that of the object's start.
  AnswerStyle render_chat(tenon::chat::Conversation conversation, const ToolChoice& choice, tenon::Request& request,
                          std::optional<std::int64_t> now = {});

  // Finds the template with the first call.
  const ChatTemplate& chat_template();

 private:
  void set_prompt(const ChatPrompt& prompt, tenon::Request& request);

  const std::function<tenon::chat::ModelTemplate()> find_;
  const tenon::Tokenizer* const tokenizer_;  // null: the model has none
  const tenon::ModelConfig& config_;
  std::optional<ChatTemplate> template_;
  std::exception_ptr failure_;  // of `find_`, which is called once
};

}  // namespace program
