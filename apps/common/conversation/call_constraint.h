// Constraints of answers that may, or must, call functions.
#pragma once
#include "conversation/chat_template.h"
#include "conversation/tool_choice.h"
#include "tenon/constrain/constraints.h"
#include "tenon/core/request.h"
#include "tenon/model/config.h"
#include "tenon/tokenizer/bpe.h"

namespace program {

// The vocabulary of answers to conversations: with the tokens that end a turn, and markers that are special tokens.
tenon::constrain::Vocabulary chat_vocabulary(const ChatTemplate& chat, const tenon::Tokenizer& tokenizer,
                                             const tenon::ModelConfig& config);

// How the answer is read. thinking: the prompt ends within the reasoning. has_form: the answer satisfies a form. A
// form, and calls that must come, begin with the first token, so there is no reasoning before them.
AnswerStyle answer_style(const ChatTemplate& chat, const ToolChoice& choice, bool thinking, bool has_form);

// Markers are read from the text: those that are special tokens must be in it. A constraint of calls allows no other
// special token.
void show_markers(const AnswerStyle& style, const tenon::Tokenizer& tokenizer, tenon::Options& options);

// Sets the constraint of the request. A function whose schema cannot be enforced may have any arguments, unless it is
// strict or must be called. A forced call that is begun is completed within the length, if the schemas allow to count.
// Errors: tenon::constrain::Refused.
void constrain_calls(tenon::constrain::Constraints& constraints, ToolChoice choice, const AnswerStyle& style,
                     tenon::Request& request);

}  // namespace program
