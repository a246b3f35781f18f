#pragma once
#include <utility>

#include "tenon/constrain/calls.h"
#include "tenon/constrain/compile.h"
#include "tenon/constrain/gbnf.h"
#include "tenon/constrain/grammar.h"
#include "tenon/constrain/refused.h"
#include "tenon/constrain/regex.h"
#include "tenon/constrain/schema.h"
#include "tenon/constrain/text_set.h"
#include "tenon/core/require.h"
#include "tenon/io/json.h"

namespace tenon::constrain {
namespace detail {

// The expression of one call. Each schema is a document of its own, so that its $refs start at it.
inline Expr call_text(Grammar& grammar, const CallText& call, const SchemaOptions& options) {
  Expressions& e = grammar.expressions;
  try {
    compile_schema(grammar, parse_schema(call.parameters), options);
  } catch (const Refused& refused) {
    throw Refused(refused.kind(), call.name + ": " + refused.where(), refused.reason());
  }
  return e.concat({e.literal(call.before), grammar.start, e.literal(call.after)});
}

// Any text without `part`.
inline Expr text_without(Expressions& e, const std::string& part) {
  return e.complement(e.concat({Expressions::kAnything, e.literal(part), Expressions::kAnything}));
}

// Sets the start of the grammar to the form of an answer without calls.
inline void compile_answer(Grammar& grammar, const CallsForm& form, const SchemaOptions& options) {
  Expressions& e = grammar.expressions;
  if (form.answer_kind == "schema")
    compile_schema(grammar, parse_schema(form.answer), options);
  else if (form.answer_kind == "grammar")
    compile_gbnf(grammar, form.answer);
  else if (form.answer_kind == "regex")
    grammar.start = regex(e, form.answer, Spelling::utf8, Match::whole, "");
  else if (form.answer_kind == "choice")
    grammar.start = one_of_texts(e, parse_schema(form.answer).get<std::vector<std::string>>());
  else
    refuse_invalid("answer_kind", "must be schema, regex, grammar or choice");
}

// Refuses a form of answers of which a text begins as a call does.
inline void refuse_like_calls(const CallsForm& form, const SchemaOptions& options, ConstraintLimits limits) {
  auto grammar = std::make_unique<Grammar>(limits);
  compile_answer(*grammar, form, options);
  Automaton answers(std::move(grammar));
  for (const CallText& call : form.functions) {
    Automaton::State state = answers.start();
    for (const char byte : form.marker + form.begin + call.before)
      if (state != Automaton::kDead) state = answers.step(state, static_cast<std::uint8_t>(byte));
    if (state != Automaton::kDead) refuse_unsupported("answer", "may begin as a call of `" + call.name + "` does");
  }
}

}  // namespace detail

TENON_INLINE std::unique_ptr<Automaton> calls(const CallsForm& form, const SchemaOptions& options,
                                              ConstraintLimits limits) {
  if (form.functions.empty()) refuse_invalid("functions", "must list at least one");
  if (form.marker.empty() || form.most < 1) refuse_invalid("marker", "must not be empty, nor must the calls");
  auto grammar = std::make_unique<Grammar>(limits);
  Expressions& e = grammar->expressions;
  std::vector<Expr> each;
  for (const CallText& function : form.functions) each.push_back(detail::call_text(*grammar, function, options));
  const int call = grammar->add_rule();
  grammar->rules[static_cast<std::size_t>(call)] = e.either(std::move(each));
  const Expr more = e.repeat(e.concat(e.literal(form.between), e.call(call)), 0, form.most - 1);
  const Expr group = e.concat({e.literal(form.marker), e.literal(form.begin), e.call(call), more, e.literal(form.end)});
  grammar->start = group;
  if (!form.answer_kind.empty()) {
    if (!form.text) refuse_invalid("answer_kind", "is for answers that need not have calls");
    detail::refuse_like_calls(form, options, limits);
    detail::compile_answer(*grammar, form, options);
    grammar->start = e.either(group, grammar->start);
  } else if (form.text) {
    const Expr free = form.at_start ? e.complement(e.concat(e.literal(form.marker), Expressions::kAnything))
                                    : detail::text_without(e, form.marker);
    const Expr answer = form.at_start ? e.either(free, group) : e.concat(free, e.optional(group));
    grammar->start = answer;
    if (!form.think_end.empty()) {
      const Expr thought =
          e.concat(detail::text_without(e, form.think_end), e.optional(e.concat(e.literal(form.think_end), answer)));
      ByteSet blank;
      for (const char c : {' ', '\t', '\r', '\n'}) blank.add(static_cast<unsigned char>(c));
      grammar->start =
          form.thinking
              ? thought
              : e.either(answer, e.concat({e.repeat(e.bytes(blank), 0), e.literal(form.think_begin), thought}));
    }
  }
  return std::make_unique<Automaton>(std::move(grammar));
}

TENON_INLINE std::string name_of(const CallsForm& form) {
  std::string name;
  const auto add = [&](const std::string& text) { name += std::to_string(text.size()) + ' ' + text; };
  for (const CallText& each : form.functions)
    for (const std::string* text : {&each.name, &each.before, &each.parameters, &each.after}) add(*text);
  for (const std::string* text : {&form.marker, &form.begin, &form.between, &form.end, &form.think_begin,
                                  &form.think_end, &form.answer_kind, &form.answer})
    add(*text);
  add(std::to_string(form.most));
  for (const bool flag : {form.text, form.at_start, form.thinking}) name += flag ? '1' : '0';
  return name;
}

}  // namespace tenon::constrain
