// The fields of a conversation in a request: messages, tools, and what its template is told.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "serve/api/body.h"
#include "serve/api/openai/reasoning_fields.h"
#include "serve/api/request_fields.h"
#include "serve/chat.h"
#include "tenon/chat/template.h"
#include "tenon/io/json.h"

namespace serve {

// Messages as Hugging Face passes them to templates: arguments of calls are objects, contents are never null. `ordered`
// is the list under `key` with its keys as written.
tenon::OrderedJson messages_of(const RequestFields& fields, const std::string& key, const tenon::OrderedJson& ordered,
                               UnknownFields& unknown);

// `messages`, `tools`, `documents`, `chat_template_kwargs`, `add_generation_prompt`, `continue_final_message` and the
// reasoning, whose variables are among the kwargs. `wish`: the latter, where it is not null.
tenon::chat::Conversation conversation_of(const Body& body, const RequestFields& fields, UnknownFields& unknown,
                                          ReasoningWish* wish = nullptr);

// `tools`, `tool_choice` and `parallel_tool_calls`. The conversation's tools are dropped where none may be called.
ToolChoice tool_choice_of(const RequestFields& fields, tenon::chat::Conversation& conversation, UnknownFields& unknown);

// OpenAI's `prediction`: the text that the answer may well be, of its parts joined.
std::optional<std::string> prediction_of(const RequestFields& fields, UnknownFields& unknown);

// Texts of all messages together, in characters.
std::size_t characters_of(const tenon::OrderedJson& messages);

}  // namespace serve
