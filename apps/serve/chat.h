// The common code of conversations, under the names that the server uses.
#pragma once
#include "conversation/answer_message.h"
#include "conversation/answer_reader.h"
#include "conversation/call_constraint.h"
#include "conversation/chat_template.h"
#include "conversation/tool_choice.h"

namespace serve {

using program::AnswerMessage;
using program::AnswerPart;
using program::AnswerReader;
using program::AnswerStyle;
using program::ChatPrompt;
using program::ChatTemplate;
using program::FunctionTool;
using program::ToolChoice;

}  // namespace serve
