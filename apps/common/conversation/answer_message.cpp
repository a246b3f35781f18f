#include "conversation/answer_message.h"

namespace program {

using tenon::OrderedJson;

void AnswerMessage::add(const AnswerPart& part, const std::function<std::string()>& id) {
  switch (part.kind) {
    case AnswerPart::Kind::reasoning:
      reasoning += part.text;
      break;
    case AnswerPart::Kind::text:
      content += part.text;
      break;
    case AnswerPart::Kind::call:
      calls.push_back({id(), part.text, {}});
      break;
    case AnswerPart::Kind::arguments:
      calls[static_cast<std::size_t>(part.call)].arguments += part.text;
      break;
  }
}

OrderedJson AnswerMessage::json() const {
  const bool silent = content.empty() && !calls.empty();
  OrderedJson message = {
      {"role", "assistant"}, {"content", silent ? OrderedJson(nullptr) : OrderedJson(content)}, {"refusal", nullptr}};
  if (!reasoning.empty()) message["reasoning_content"] = reasoning;
  for (const Call& call : calls) {
    message["tool_calls"].push_back(
        OrderedJson{{"id", call.id},
                    {"type", "function"},
                    {"function", OrderedJson{{"name", call.name}, {"arguments", call.arguments}}}});
  }
  return message;
}

}  // namespace program
