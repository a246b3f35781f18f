// How a conversation becomes a prompt, and what its answers look like: the template of a model, or a built-in one.
#pragma once
#include <chrono>
#include <ctime>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "conversation/answer_reader.h"
#include "tenon/chat/model_template.h"
#include "tenon/tokenizer/bpe.h"

namespace program {

// A prompt, for Tokenizer::encode_rendered.
struct ChatPrompt {
  std::string text;
  std::vector<tenon::TextSpan> template_spans;  // what the template wrote, in order; the rest is the messages'
  bool thinking = false;                        // it ends within the assistant's reasoning
};

class ChatTemplate {
 public:
  using Clock = std::function<std::chrono::local_seconds()>;

  // `stops`: texts that end an answer, besides the end of a turn that the template writes.
  ChatTemplate(tenon::chat::ModelTemplate model, Clock clock, std::vector<std::string> stops = {});

  // One of built_in_templates(), with the special tokens of the model in the folder or file. tenon::Error,
  // invalid_request, if none has the name.
  static ChatTemplate named(std::string_view name, const std::filesystem::path& model,
                            const tenon::Tokenizer& tokenizer, Clock clock);

  // As --chat-template says: none; auto, the model's own; a built-in one by name; or else the path of a file with one.
  // None where the model has none. tenon::Error with line and column where the template cannot be read.
  static std::optional<ChatTemplate> chosen(std::string_view word, const std::filesystem::path& model,
                                            const tenon::Tokenizer& tokenizer, Clock clock);

  // The prompt of a conversation. Contents may spell anything, and may be texts or lists of text parts. The template
  // may not show a role or the tools: docs/chat.md says how the model is told them. Throws tenon::Error with line and
  // column where the template refuses the conversation, or is not supported.
  ChatPrompt render(tenon::chat::Conversation conversation) const { return render(std::move(conversation), clock_()); }
  // Likewise, at another time than the clock's.
  ChatPrompt render(tenon::chat::Conversation conversation, std::chrono::local_seconds now) const;

  const tenon::chat::ModelTemplate& model() const { return model_; }  // as the model brings it
  std::chrono::local_seconds now() const { return clock_(); }

  // Tokens that end an answer, and texts where the template closes a turn by no token.
  const tenon::chat::TurnEnd& turn_end() const { return turn_end_; }
  // Whether the template of conversations with or without tools reads a variable of that name.
  bool reads_variable(std::string_view name, bool tools) const;
  // How answers are written in conversations with or without tools. No think style where the template has none.
  AnswerStyle style(bool tools) const;

 private:
  // Traits of a template, found by rendering small conversations.
  struct Traits {
    bool takes_parts = false;  // contents must be lists of parts
    bool shows_system = false, shows_tools = false, shows_tool_turns = false;
    bool knows_developer = false;
    ToolStyle tools;
    ThinkStyle think;
    std::set<std::string, std::less<>> names;  // that its code reads
  };

  Traits traits_of(bool tools) const;
  std::string tried(const tenon::OrderedJson& messages, const tenon::OrderedJson& tools = nullptr) const;
  const Traits& traits(bool tools) const { return tools ? with_tools_ : plain_; }

  static void replace_developer(tenon::OrderedJson& messages);
  static void replace_tool_turns(tenon::OrderedJson& messages, const ToolStyle& style);
  static void tell_tools(tenon::chat::Conversation& conversation, const Traits& traits);

  tenon::chat::ModelTemplate model_;
  Clock clock_;
  tenon::chat::TurnEnd turn_end_;
  Traits plain_, with_tools_;
};

// The time of this machine's clock in its time zone.
std::chrono::local_seconds local_now();
// Likewise, at a moment in seconds since 1970.
std::chrono::local_seconds local_time(std::time_t moment);

}  // namespace program
