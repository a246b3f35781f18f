// Constraints of answers that call functions: text, a marker, then calls with arguments that satisfy JSON schemas.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "tenon/constrain/automaton.h"
#include "tenon/constrain/budget.h"
#include "tenon/constrain/schema_options.h"

namespace tenon::constrain {

/// The text of a call of one function: `before`, JSON that satisfies the schema, `after`.
struct CallText {
  std::string name;        ///< of the function, for errors
  std::string before;      ///< literal text, which tells the function from the others
  std::string parameters;  ///< JSON Schema of the arguments
  std::string after;       ///< literal text
};

/// Answers `marker begin call (between call)* end`. With `text`, any text that does not contain the marker may come
/// first, and the calls may be missing.
struct CallsForm {
  std::vector<CallText> functions;  ///< at least one; a call is one of these
  std::string marker;               ///< literal text in front of the calls; not empty
  std::string begin, between, end;  ///< literal texts
  int most = 1;                     ///< calls
  bool text = false;                ///< text may come first, or alone
  bool at_start = false;            ///< with `text`: the marker counts at the start of the answer only
  std::string think_begin = {};     ///< with `text`: a text between these two may come first and contain the marker;
  std::string think_end = {};       ///< empty: no such text
  bool thinking = false;            ///< with `think_end`: the answer starts after think_begin
  /// With `text`: an answer is either calls alone or a text of this form: schema, regex, grammar or choice (a JSON list
  /// of texts). Empty: any text.
  std::string answer_kind = {};
  std::string answer = {};  ///< with `answer_kind`: the schema, regular expression, grammar or list
};

/// Texts of the form. Throws Refused as json_schema(); where() begins with the name of the function: "look: #/type". A
/// form of `answer_kind` is refused if one of its texts begins as a call does: readers could not tell them apart.
std::unique_ptr<Automaton> calls(const CallsForm& form, const SchemaOptions& options = {},
                                 ConstraintLimits limits = {});

/// All members of the form as one text. Forms with equal texts have equal constraints.
std::string name_of(const CallsForm& form);

}  // namespace tenon::constrain

#ifndef TENON_COMPILED
#include "tenon/constrain/calls-inl.h"
#endif
