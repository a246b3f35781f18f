// Constraints of requests, compiled for the tokenizer of their model.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "conversation/chat_template.h"
#include "conversation/tool_choice.h"
#include "request_line.h"
#include "tenon/core/constraint.h"
#include "tenon/core/request.h"
#include "tenon/io/json.h"
#include "tenon/model/config.h"
#include "tenon/tokenizer/bpe.h"

namespace program {

class CallConstraints;
struct ChatTokens;

// Compilers, made when the first constraint is needed, since most inputs have none. Errors name the field: schema,
// regex, grammar, choice or tools.
class RequestConstraints {
 public:
  RequestConstraints(const tenon::Tokenizer* tokenizer, const tenon::ModelConfig& config);
  ~RequestConstraints();

  std::shared_ptr<const tenon::Constraint> from(const ConstraintText& text);  // null: none
  // Made again from a receipt. Field: constraint, where no constraint is of that kind.
  std::shared_ptr<const tenon::Constraint> from(const tenon::ConstraintSource& source);
  std::shared_ptr<const tenon::Constraint> schema(const tenon::OrderedJson& schema);
  std::shared_ptr<const tenon::Constraint> schema_file(const std::string& path);
  std::shared_ptr<const tenon::Constraint> regex(const std::string& pattern);
  std::shared_ptr<const tenon::Constraint> grammar(const std::string& text);
  std::shared_ptr<const tenon::Constraint> grammar_file(const std::string& path);
  std::shared_ptr<const tenon::Constraint> choice(const std::vector<std::string>& texts);
  // Constrains the answer to a conversation by the functions that it may call, which are not none. Field: tools.
  void calls(const ChatTemplate& chat, const ToolChoice& choice, const AnswerStyle& style, tenon::Request& request);

 private:
  struct Compilers;
  void need_tokenizer(const char* field) const;
  Compilers& compilers(const char* field);
  CallConstraints& call_constraints(ChatTokens tokens);

  const tenon::Tokenizer* const tokenizer_;  // null: the model has none
  const tenon::ModelConfig& config_;
  std::unique_ptr<Compilers> compilers_;
  std::unique_ptr<CallConstraints> calls_;  // of the last vocabulary of conversations
};

}  // namespace program
