// Constraints of answers that may, or must, call functions.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "conversation/chat_template.h"
#include "conversation/tool_choice.h"
#include "tenon/constrain/calls.h"
#include "tenon/constrain/constraints.h"
#include "tenon/core/request.h"
#include "tenon/model/config.h"
#include "tenon/tokenizer/bpe.h"

namespace program {

// The tokens by which the vocabulary of answers to conversations differs from the model's own.
struct ChatTokens {
  std::vector<tenon::TokenId> ends;     // end an answer
  std::vector<tenon::TokenId> spelled;  // special tokens that are markers: they count as the text of their spelling

  friend bool operator==(const ChatTokens&, const ChatTokens&) = default;
};
ChatTokens chat_tokens(const ChatTemplate& chat, const tenon::Tokenizer& tokenizer, const tenon::ModelConfig& config);

// Compiles constraints of calls for one vocabulary.
class CallConstraints {
 public:
  CallConstraints(ChatTokens tokens, const tenon::Tokenizer& tokenizer, const tenon::ModelConfig& config);

  // The constraint of a form, and its text for a receipt. Errors: tenon::constrain::Refused.
  std::shared_ptr<const tenon::constrain::CompiledConstraint> make(const tenon::constrain::CallsForm& form);
  tenon::ConstraintSource source(const tenon::constrain::CallsForm& form) const;

  const ChatTokens& tokens() const { return tokens_; }

 private:
  const ChatTokens tokens_;
  tenon::constrain::Constraints constraints_;
};

// The contents of a text of CallConstraints::source. parse_calls: tenon::Error invalid_request, with the field, for any
// other text.
struct CallsSource {
  ChatTokens tokens;
  tenon::constrain::CallsForm form;
};
CallsSource parse_calls(const std::string& text);

// How the answer is read. thinking: the prompt ends within the reasoning. has_form: the answer satisfies a form. A
// form, and calls that must come, begin with the first token, so there is no reasoning before them.
AnswerStyle answer_style(const ChatTemplate& chat, const ToolChoice& choice, bool thinking, bool has_form);

// Markers are read from the text: those that are special tokens must be in it. A constraint of calls allows no other
// special token.
void show_markers(const AnswerStyle& style, const tenon::Tokenizer& tokenizer, tenon::Options& options);

// AnswerStyle::starts of answers that are either calls of the functions or a text of a form.
std::vector<std::string> call_starts(const ToolChoice& choice, const AnswerStyle& style);

// Sets the constraint of the request, and its source. If the style has `starts`, the request has the constraint of an
// answer without calls, and its source: the new constraint allows calls alone or a text of that one. A function whose
// schema cannot be enforced may have any arguments, unless it is strict or must be called. A forced call that is begun
// is completed within the length, if the schemas allow to count. Errors: tenon::constrain::Refused.
void constrain_calls(CallConstraints& constraints, ToolChoice choice, const AnswerStyle& style,
                     tenon::Request& request);

}  // namespace program
