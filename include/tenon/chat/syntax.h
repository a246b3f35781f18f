// The syntax tree of a template.
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tenon/chat/render_fault.h"
#include "tenon/chat/value.h"
#include "tenon/core/require.h"

namespace tenon::chat::detail {

// A fault with its place: an offset in the template's text.
struct PlacedFault {
  RenderFault fault;
  std::size_t at;
};

[[noreturn]] inline void fail_at(std::size_t at, std::string what) {
  throw PlacedFault{{Error::Kind::invalid_file, std::move(what)}, at};
}
[[noreturn]] inline void refuse_at(std::size_t at, std::string what) {
  throw PlacedFault{{Error::Kind::unsupported, std::move(what) + " is not supported"}, at};
}

// An expression.
struct Node {
  enum class Op {
    constant,     // value
    name,         // name
    attribute,    // items[0].name
    item,         // items[0][items[1]]
    slice,        // items: start, stop, step, each may be null
    list,         // items
    tuple,        // items
    dict,         // items: keys and values in turn
    negate,       // -items[0]
    plus,         // +items[0]
    negation,     // not items[0]
    conjunction,  // items[0] and items[1]
    disjunction,  // items[0] or items[1]
    arithmetic,   // items[0] `name` items[1]
    concat,       // items joined by ~
    compare,      // items[0] operators[0] items[1] operators[1] ...
    conditional,  // items: test, value, other; the last may be null
    call,         // items[0](arguments: items[1...], named, star, star_star)
    filter,       // items[0] | name(arguments); items[0] is null in a filter block
    test,         // items[0] is name(arguments)
  };

  Op op;
  std::size_t at;  // offset in the template's text
  std::string name = {};
  Value value = {};
  std::vector<const Node*> items = {};
  std::vector<std::pair<std::string, const Node*>> named = {};
  const Node *star = nullptr, *star_star = nullptr;
  std::vector<std::string> operators = {};
};

struct Statement;
using Body = std::vector<const Statement*>;

// A statement. The fields that it uses are listed with its kind.
struct Statement {
  enum class Kind {
    output,      // outputs
    loop,        // for target in value if test: body, otherwise
    condition,   // branches, otherwise
    assignment,  // target = value
    capture,     // target = body, through the filters `value`
    with,        // outputs: targets and values in turn; body
    macro,       // name, parameters, defaults, body
    call,        // value: a call; parameters, defaults and body of its caller
    filter,      // value: filters; body
    generation,  // body
    break_loop,
    continue_loop,
  };
  struct Branch {
    const Node* test;
    Body body;
  };

  Kind kind;
  std::size_t at;
  std::string name = {};
  const Node *target = nullptr, *value = nullptr, *test = nullptr;
  std::vector<const Node*> outputs = {};
  Body body = {}, otherwise = {};
  std::vector<Branch> branches = {};
  std::vector<std::string> parameters = {};
  std::vector<const Node*> defaults = {};  // of the last parameters
  bool takes_varargs = false, takes_kwargs = false, takes_caller = false;
};

// A template: owns the nodes of its tree.
struct SyntaxTree {
  std::string source;
  Body body;
  std::vector<std::unique_ptr<Node>> nodes;
  std::vector<std::unique_ptr<Statement>> statements;
};

}  // namespace tenon::chat::detail
