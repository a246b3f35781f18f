// What every constraint is compiled to: rules over bytes.
#pragma once
#include <string>
#include <vector>

#include "tenon/constrain/budget.h"
#include "tenon/constrain/expression.h"

namespace tenon::constrain {

struct Grammar {
  explicit Grammar(ConstraintLimits limits = {}) : budget(limits), expressions(budget) {}

  Budget budget;
  Expressions expressions;
  std::vector<Expr> rules;           // by number, as Expressions::call takes it; they may call one another
  Expr start = Expressions::kNever;  // what a whole text must match
  std::vector<std::string>
      warnings;  // what is not enforced, and need not be: "format 'slug' is not enforced (#/properties/b)"

  // A rule whose body comes later, so that it may call itself.
  int add_rule() {
    rules.push_back(Expressions::kNever);
    return static_cast<int>(rules.size()) - 1;
  }
};

}  // namespace tenon::constrain
