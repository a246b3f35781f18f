#include "conversation/call_constraint.h"

#include <utility>

#include "tenon/constrain/budget.h"
#include "tenon/constrain/calls.h"
#include "tenon/constrain/refused.h"
#include "tenon/constrain/vocabulary.h"
#include "tenon/core/error.h"

namespace program {
namespace {

using tenon::constrain::Constraints;
using tenon::constrain::Refused;

tenon::constrain::CallsForm calls_form(const ToolChoice& choice, const AnswerStyle& style) {
  const ToolStyle& tools = *style.tools;
  tenon::constrain::CallsForm form{.functions = {},
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

void loosen(Constraints& constraints, ToolChoice& choice, const AnswerStyle& style) {
  // One compilation may take ConstraintLimits::time of CPU time. All compilations of a request together take little
  // more.
  const auto until = tenon::constrain::thread_cpu_time() + tenon::constrain::ConstraintLimits{}.time;
  for (FunctionTool& each : choice.functions) {
    ToolChoice alone = choice;
    alone.functions = {each};
    const bool may_be_loose = !each.strict && !choice.is_forced();
    try {
      if (!may_be_loose || tenon::constrain::thread_cpu_time() < until) {
        constraints.calls(calls_form(alone, style));
        continue;
      }
    } catch (const Refused&) {
      if (!may_be_loose) throw;
    }
    each.parameters = R"({"type": "object"})";
  }
}

}  // namespace

tenon::constrain::Vocabulary chat_vocabulary(const ChatTemplate& chat, const tenon::Tokenizer& tokenizer,
                                             const tenon::ModelConfig& config) {
  std::vector<tenon::TokenId> ends = config.eos, spelled;
  ends.insert(ends.end(), chat.turn_end().ids.begin(), chat.turn_end().ids.end());
  for (const bool tools : {false, true}) {
    const AnswerStyle style = chat.style(tools);
    for (const std::string& marker : {style.think.begin, style.think.end, style.tools ? style.tools->marker : ""})
      if (const auto id = tokenizer.special(marker)) spelled.push_back(*id);
  }
  return tenon::constrain::Vocabulary::from(tokenizer, config.vocab, std::move(ends), spelled);
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

void constrain_calls(Constraints& constraints, ToolChoice choice, const AnswerStyle& style, tenon::Request& request) {
  Constraints::Pointer made;
  try {
    made = constraints.calls(calls_form(choice, style));
  } catch (const Refused&) {
    loosen(constraints, choice, style);
    made = constraints.calls(calls_form(choice, style));
  }
  request.constraint = made;
  if (!choice.is_forced()) return;
  try {  // a call that is begun is completed within max_tokens
    request.options.finish_within_budget = made->counts_tokens();
  } catch (const tenon::Error&) {  // the schemas are too complex for that
  }
}

}  // namespace program
