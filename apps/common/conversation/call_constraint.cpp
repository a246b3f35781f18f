#include "conversation/call_constraint.h"

#include <limits>
#include <utility>

#include "tenon/constrain/budget.h"
#include "tenon/constrain/calls.h"
#include "tenon/constrain/refused.h"
#include "tenon/constrain/vocabulary.h"
#include "tenon/core/error.h"
#include "tenon/io/fields.h"
#include "tenon/io/json.h"

namespace program {
namespace {

using tenon::constrain::CallsForm;
using tenon::constrain::CallText;
using tenon::constrain::Constraints;
using tenon::constrain::Refused;

constexpr tenon::Error::Kind kRefusal = tenon::Error::Kind::invalid_request;
constexpr int kMostTokens = std::numeric_limits<int>::max();

// The members of a form, as its source names them.
struct TextMember {
  const char* name;
  std::string CallsForm::*member;
};
struct FlagMember {
  const char* name;
  bool CallsForm::*member;
};
constexpr TextMember kTexts[] = {{"marker", &CallsForm::marker},           {"begin", &CallsForm::begin},
                                 {"between", &CallsForm::between},         {"end", &CallsForm::end},
                                 {"think_begin", &CallsForm::think_begin}, {"think_end", &CallsForm::think_end}};
constexpr FlagMember kFlags[] = {
    {"text", &CallsForm::text}, {"at_start", &CallsForm::at_start}, {"thinking", &CallsForm::thinking}};

CallsForm calls_form(const ToolChoice& choice, const AnswerStyle& style) {
  const ToolStyle& tools = *style.tools;
  CallsForm form{.functions = {},
                 .marker = tools.marker,
                 .begin = tools.begin,
                 .between = tools.between,
                 .end = tools.end,
                 .most = choice.parallel ? tools.most : 1,
                 .text = !choice.is_forced(),
                 .at_start = tools.at_start,
                 .think_begin = style.think.begin,
                 .think_end = style.think.end,
                 .thinking = style.thinking};
  for (const FunctionTool& each : choice.functions)
    form.functions.push_back({each.name, tools.before(each.name), each.parameters, "}"});
  return form;
}

// Replaces each schema that cannot be compiled alone by {"type": "object"}, unless the function is strict or forced:
// then it throws. One compilation may take ConstraintLimits::time of CPU time. Those here begin within it: what is not
// compiled by then counts as refused, or is left to the compilation of all.
void loosen(CallConstraints& constraints, ToolChoice& choice, const AnswerStyle& style) {
  const auto until = tenon::constrain::thread_cpu_time() + tenon::constrain::ConstraintLimits{}.time;
  for (FunctionTool& each : choice.functions) {
    ToolChoice alone = choice;
    alone.functions = {each};
    const bool may_be_loose = !each.strict && !choice.is_forced();
    try {
      if (tenon::constrain::thread_cpu_time() < until) {
        constraints.make(calls_form(alone, style));
        continue;
      }
    } catch (const Refused&) {
      if (!may_be_loose) throw;
    }
    if (may_be_loose) each.parameters = R"({"type": "object"})";
  }
}

}  // namespace

ChatTokens chat_tokens(const ChatTemplate& chat, const tenon::Tokenizer& tokenizer, const tenon::ModelConfig& config) {
  ChatTokens tokens{.ends = config.eos, .spelled = {}};
  tokens.ends.insert(tokens.ends.end(), chat.turn_end().ids.begin(), chat.turn_end().ids.end());
  for (const bool tools : {false, true}) {
    const AnswerStyle style = chat.style(tools);
    for (const std::string& marker : {style.think.begin, style.think.end, style.tools ? style.tools->marker : ""})
      if (const auto id = tokenizer.special(marker)) tokens.spelled.push_back(*id);
  }
  return tokens;
}

CallConstraints::CallConstraints(ChatTokens tokens, const tenon::Tokenizer& tokenizer, const tenon::ModelConfig& config)
    : tokens_(std::move(tokens)),
      constraints_(tenon::constrain::Vocabulary::from(tokenizer, config.vocab, tokens_.ends, tokens_.spelled)) {}

Constraints::Pointer CallConstraints::make(const CallsForm& form) { return constraints_.calls(form); }

tenon::ConstraintSource CallConstraints::source(const CallsForm& form) const {
  tenon::Json json = {{"ends", tokens_.ends}, {"spelled", tokens_.spelled}, {"most", form.most}};
  for (const TextMember& each : kTexts) json[each.name] = form.*each.member;
  for (const FlagMember& each : kFlags) json[each.name] = form.*each.member;
  if (!form.answer_kind.empty()) json["answer"] = {{"kind", form.answer_kind}, {"text", form.answer}};
  for (const CallText& each : form.functions) {
    json["functions"].push_back(
        {{"name", each.name}, {"before", each.before}, {"parameters", each.parameters}, {"after", each.after}});
  }
  return {"calls", json.dump(-1, ' ', false, tenon::Json::error_handler_t::replace)};
}

CallsSource parse_calls(const std::string& text) {
  const tenon::Json json = tenon::parse_json(text, "constraint.text", {.refusal = kRefusal});
  const tenon::Fields fields(json, "constraint", "text", kRefusal);
  CallsSource out;
  out.tokens = {.ends = fields.integers("ends", 0, kMostTokens), .spelled = fields.integers("spelled", 0, kMostTokens)};
  out.form.most = fields.integer("most", 1, kMostCalls);
  for (const TextMember& each : kTexts) out.form.*each.member = fields.string(each.name);
  for (const FlagMember& each : kFlags) out.form.*each.member = fields.boolean(each.name);
  if (fields.has("answer")) {
    const tenon::Fields answer = fields.object("answer");
    out.form.answer_kind = answer.choice("kind", {"schema", "regex", "grammar", "choice"});
    out.form.answer = answer.string("text");
  }
  const tenon::Json& functions = fields.value("functions");
  if (!functions.is_array() || functions.empty() || functions.size() > kMostTools)
    fields.refuse("functions", "must be a list of 1 to " + std::to_string(kMostTools));
  for (std::size_t i = 0; i < functions.size(); ++i) {
    const tenon::Fields each(functions[i], "constraint", "text.functions[" + std::to_string(i) + "]", kRefusal);
    out.form.functions.push_back(
        {each.string("name"), each.string("before"), each.string("parameters"), each.string("after")});
  }
  return out;
}

AnswerStyle answer_style(const ChatTemplate& chat, const ToolChoice& choice, bool thinking, bool has_form) {
  AnswerStyle style = chat.style(choice.kind != ToolChoice::Kind::none);
  style.thinking = thinking;
  if (has_form || choice.is_forced()) style.think = {}, style.thinking = false;
  return style;
}

void show_markers(const AnswerStyle& style, const tenon::Tokenizer& tokenizer, tenon::Options& options) {
  const auto is_special = [&](const std::string& text) { return tokenizer.special(text).has_value(); };
  if ((style.tools && is_special(style.tools->marker)) || is_special(style.think.begin) || is_special(style.think.end))
    options.skip_special_tokens = false;
}

std::vector<std::string> call_starts(const ToolChoice& choice, const AnswerStyle& style) {
  std::vector<std::string> starts;
  for (const CallText& each : calls_form(choice, style).functions)
    starts.push_back(style.tools->marker + style.tools->begin + each.before);
  return starts;
}

void constrain_calls(CallConstraints& constraints, ToolChoice choice, const AnswerStyle& style,
                     tenon::Request& request) {
  Constraints::Pointer made;
  const auto form_of_calls = [&] {
    CallsForm form = calls_form(choice, style);
    if (!style.starts.empty())
      form.answer_kind = request.constraint_source.kind, form.answer = request.constraint_source.text;
    return form;
  };
  CallsForm form = form_of_calls();
  try {
    made = constraints.make(form);
  } catch (const Refused&) {
    loosen(constraints, choice, style);
    form = form_of_calls();
    made = constraints.make(form);
  }
  request.constraint = made;
  request.constraint_source = constraints.source(form);
  if (!choice.is_forced()) return;
  try {  // a call that is begun is completed within max_tokens
    request.options.finish_within_budget = made->counts_tokens();
  } catch (const tenon::Error&) {  // the schemas are too complex for that
  }
}

}  // namespace program
