// The common form of all constraints: rules over bytes.
#pragma once
#include <string>
#include <vector>

#include "tenon/constrain/budget.h"
#include "tenon/constrain/expression.h"

namespace tenon::constrain {

/// Rules, and the arena and budget of their expressions.
struct Grammar {
  explicit Grammar(ConstraintLimits limits = {}) : budget(limits), expressions(budget) {}

  Budget budget;            ///< limits everything made for this constraint
  Expressions expressions;  ///< arena of all bodies
  /// Bodies by number, as in Expressions::call; they may call one another.
  std::vector<Expr> rules;
  Expr start = Expressions::kNever;  ///< matches the whole text
  /// Parts of the schema that are not enforced and need not be: "format 'slug' is not enforced (#/properties/b)".
  std::vector<std::string> warnings;

  /// Adds a rule whose body is set later, so that it may call itself. Returns its number.
  int add_rule() {
    rules.push_back(Expressions::kNever);
    return static_cast<int>(rules.size()) - 1;
  }
};

}  // namespace tenon::constrain
