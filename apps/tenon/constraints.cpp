#include "constraints.h"

#include "conversation/call_constraint.h"
#include "output.h"
#include "tenon/constrain/constraints.h"
#include "tenon/io/fields.h"
#include "tenon/io/file.h"

namespace program {
namespace {

constexpr std::uint64_t kMostSourceBytes = 16 << 20;  // of a schema or grammar file

// Errors of `act` name the field that holds the constraint.
template <class Act>
auto of_field(const char* field, Act&& act) {
  try {
    return act();
  } catch (const tenon::constrain::Refused& refused) {
    throw tenon::Error(refused.kind(), field,
                       refused.where().empty() ? refused.reason() : refused.where() + ": " + refused.reason());
  }
}

// Compiles a constraint. Warnings go to stderr.
template <class Compile>
std::shared_ptr<const tenon::Constraint> compiled_field(const char* field, Compile&& compile) {
  const tenon::constrain::Constraints::Pointer made = of_field(field, compile);
  for (const std::string& warning : made->warnings()) say(std::string(field) + ": " + warning);
  return made;
}

}  // namespace

struct RequestConstraints::Compilers : tenon::constrain::Constraints {
  using Constraints::Constraints;
};

RequestConstraints::RequestConstraints(const tenon::Tokenizer* tokenizer, const tenon::ModelConfig& config)
    : tokenizer_(tokenizer), config_(config) {}
RequestConstraints::~RequestConstraints() = default;

void RequestConstraints::need_tokenizer(const char* field) const {
  if (!tokenizer_)
    throw tenon::Error(tenon::Error::Kind::invalid_request, field,
                       "this model has no tokenizer to constrain texts with");
}

CallConstraints& RequestConstraints::call_constraints(ChatTokens tokens) {
  need_tokenizer("tools");
  if (!calls_ || calls_->tokens() != tokens)
    calls_ = std::make_unique<CallConstraints>(std::move(tokens), *tokenizer_, config_);
  return *calls_;
}

RequestConstraints::Compilers& RequestConstraints::compilers(const char* field) {
  need_tokenizer(field);
  if (!compilers_) {
    compilers_ =
        std::make_unique<Compilers>(tenon::constrain::Vocabulary::from(*tokenizer_, config_.vocab, config_.eos));
  }
  return *compilers_;
}

std::shared_ptr<const tenon::Constraint> RequestConstraints::from(const ConstraintText& text) {
  switch (text.kind) {
    case ConstraintText::Kind::none:
      return nullptr;
    case ConstraintText::Kind::schema:
      return schema(text.schema);
    case ConstraintText::Kind::regex:
      return regex(text.text);
    case ConstraintText::Kind::grammar:
      return grammar(text.text);
    case ConstraintText::Kind::choice:
      return choice(text.choices);
  }
  return nullptr;
}

std::shared_ptr<const tenon::Constraint> RequestConstraints::from(const tenon::ConstraintSource& source) {
  constexpr tenon::JsonLimits kLimits{.refusal = tenon::Error::Kind::invalid_request};
  if (source.kind == "schema")
    return schema(tenon::parse_json<tenon::OrderedJson>(source.text, "constraint.text", kLimits));
  if (source.kind == "regex") return regex(source.text);
  if (source.kind == "grammar") return grammar(source.text);
  if (source.kind == "choice") {
    const tenon::Json list = tenon::parse_json(source.text, "constraint.text", kLimits);
    const tenon::Json named{{"text", list}};
    return choice(tenon::Fields(named, "constraint", {}, tenon::Error::Kind::invalid_request).strings("text"));
  }
  if (source.kind == "calls") {
    CallsSource calls = parse_calls(source.text);
    return of_field("constraint.text", [&] { return call_constraints(std::move(calls.tokens)).make(calls.form); });
  }
  throw tenon::Error(tenon::Error::Kind::unsupported, "constraint.kind",
                     "\"" + tenon::printable(source.kind, 60) +
                         "\" is not supported; supported: schema, regex, grammar, choice, calls");
}

std::shared_ptr<const tenon::Constraint> RequestConstraints::schema(const tenon::OrderedJson& schema) {
  return compiled_field("schema", [&] { return compilers("schema").json_schema(schema); });
}
std::shared_ptr<const tenon::Constraint> RequestConstraints::schema_file(const std::string& path) {
  return compiled_field("schema",
                        [&] { return compilers("schema").json_schema(tenon::read_text_file(path, kMostSourceBytes)); });
}
std::shared_ptr<const tenon::Constraint> RequestConstraints::regex(const std::string& pattern) {
  return compiled_field("regex", [&] { return compilers("regex").regex(pattern); });
}
std::shared_ptr<const tenon::Constraint> RequestConstraints::grammar(const std::string& text) {
  return compiled_field("grammar", [&] { return compilers("grammar").grammar(text); });
}
void RequestConstraints::calls(const ChatTemplate& chat, const ToolChoice& choice, const AnswerStyle& style,
                               tenon::Request& request) {
  CallConstraints& constraints = call_constraints(chat_tokens(chat, *tokenizer_, config_));
  of_field("tools", [&] { constrain_calls(constraints, choice, style, request); });
}
std::shared_ptr<const tenon::Constraint> RequestConstraints::grammar_file(const std::string& path) {
  return grammar(tenon::read_text_file(path, kMostSourceBytes));
}
std::shared_ptr<const tenon::Constraint> RequestConstraints::choice(const std::vector<std::string>& texts) {
  return compiled_field("choice", [&] { return compilers("choice").choice(texts); });
}

}  // namespace program
