// Writes the texts of SchemaShapes.
#pragma once
#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tenon/constrain/budget.h"
#include "tenon/constrain/refused.h"
#include "tenon/constrain/schema_list.h"
#include "tenon/constrain/schema_shape.h"
#include "tenon/constrain/schema_text.h"
#include "tenon/constrain/schema_union.h"

namespace tenon::constrain::schema {

/// Writes the texts of a set of subschemas. Sets that occur several times or refer to themselves become rules.
class SchemaWriter {
 public:
  SchemaWriter(Context& context, Unions& unions)
      : c_(context),
        e_(context.e()),
        unions_(unions),
        marks_(e_, context.options.whitespace, context.sources.draft() == SchemaDraft::four) {}

  /// The expression of all texts; kNever where no value satisfies the set.
  Expr write(Meet root) {
    explore(root);
    return text(root);
  }

 private:
  // A shape, with the texts that need no other shape: those of scalars and of listed values.
  struct Branch {
    const SchemaShape* shape;
    bool list = false, object = false;  // may be a list or an object that is not listed
    std::string unique_at = {};         // list: where uniqueItems stands
    Expr plain = Expressions::kNever;
  };
  struct Node {
    std::vector<Branch> branches;
    std::size_t uses = 0;
    bool finite = false;  // some text of it is finite
    bool open = false;    // being written
    int rule = -1;
    std::optional<Expr> text;
  };

  auto lists() {
    return ListText(
        c_, marks_, [this](Meet meet) { return text(meet); }, [this](Meet meet) { return finite(meet); });
  }

  // ---------------------------------------------------------------- reachable and finite sets
  void explore(Meet root) {
    std::vector<Meet> found = {root};
    nodes_[root].uses = 1;
    for (std::size_t i = 0; i < found.size(); ++i) {
      c_.grammar.budget.check();
      Node& node = nodes_[found[i]];
      for (const SchemaShape& shape : unions_.of(found[i])) node.branches.push_back(branch(shape));
      for (const Branch& b : node.branches) {
        for (const Meet next : parts(b)) {
          if (nodes_[next].uses++ == 0) found.push_back(next);
        }
      }
    }
    for (bool more = true, back = true; more; back = !back) {  // a node can depend on nodes after it and before it
      more = false;
      for (std::size_t i = 0; i < found.size(); ++i) {
        Node& node = nodes_[found[back ? found.size() - 1 - i : i]];
        if (node.finite) continue;
        c_.grammar.budget.check();
        node.finite = std::any_of(node.branches.begin(), node.branches.end(), [&](const Branch& b) { return ends(b); });
        more |= node.finite;
      }
    }
  }

  std::vector<Meet> parts(const Branch& b) {
    std::vector<Meet> all;
    if (b.list) {
      const ArrayShape& a = b.shape->array;
      all = a.prefix;
      all.push_back(a.rest);
      for (std::size_t i = 0, n = a.contains ? all.size() : 0; i < n; ++i) {
        all.push_back(c_.sources.join(all[i], a.contains->value));
        const std::optional<Meet> other =
            a.contains->count.most == kUnbounded ? std::nullopt : c_.sources.negation(a.contains->value);
        if (other) all.push_back(c_.sources.join(all[i], *other));
      }
    }
    if (b.object) {
      for (const Property& p : b.shape->object.properties) all.push_back(p.value);
      for (const KeyClass& c : b.shape->object.classes) all.push_back(c.value);
    }
    return all;
  }
  bool ends(const Branch& b) {
    if (b.plain != Expressions::kNever) return true;
    if (b.list && lists().ends(b.shape->array)) return true;
    const auto& properties = b.shape->object.properties;
    return b.object && std::all_of(properties.begin(), properties.end(),
                                   [&](const Property& p) { return !p.required || finite(p.value); });
  }
  bool finite(Meet meet) const { return nodes_.at(meet).finite; }
  // ---------------------------------------------------------------- one shape
  Branch branch(const SchemaShape& s) {
    unsigned types = s.types;
    if (!s.typed && s.mentioned != 0 && c_.options.additional_properties == SchemaOptions::AdditionalProperties::closed)
      types &= s.mentioned;
    Branch b{.shape = &s};
    std::vector<Expr> texts;
    const std::pair<unsigned, Json> words[] = {{kNull, nullptr}, {kFalse, false}, {kTrue, true}};
    for (const auto& [type, word] : words) {
      if ((types & type) && (s.unproved.empty() || unions_.has(word, s))) texts.push_back(e_.literal(word.dump()));
    }
    const auto list = [&](unsigned type) {
      for (const Json& value : unions_.listed(s, type)) texts.push_back(value_text(e_, marks_, value));
    };
    if (types & kNumber) {
      if (s.number.values) {
        std::vector<std::string> numbers;
        for (const Json& value : unions_.listed(s, kNumber))
          std::ranges::copy(number_texts(value, marks_.digits_alone), std::back_inserter(numbers));
        texts.push_back(one_of_texts(e_, std::move(numbers)));
      } else {
        refuse_unproved(s, kNumber);
        texts.push_back(NumberText(e_, s.number).text());
        if (texts.back() == Expressions::kNever && !none_within(s.number) && !texts_tell(s.number)) {
          refuse_unsupported(said_finest(s.number), "the numbers that remain have more digits than are written");
        }
      }
    }
    if (types & kString) {
      refuse_unproved(s, kString);
      const Expr quote = e_.literal("\"");
      texts.push_back(e_.concat({quote, c_.written(s.string), quote}));
    }
    if ((types & kArray) && s.array.values)
      list(kArray);
    else if (types & kArray)
      b.list = true, b.unique_at = refuse_unproved(s, kArray);
    if ((types & kObject) && s.object.values)
      list(kObject);
    else if (types & kObject)
      b.object = true, refuse_unproved(s, kObject);
    b.plain = e_.either(std::move(texts));
    return b;
  }
  // Returns where a uniqueItems stands that must be enforced. Refuses any other unproved condition.
  static std::string refuse_unproved(const SchemaShape& s, unsigned type) {
    std::string unique_at;
    for (const Unproved& u : s.unproved) {
      if (!(u.types & type)) continue;
      if (u.what != Unproved::What::unique) refuse_unsupported(u.at, u.reason);
      if (s.array.size.most == kUnbounded || s.array.size.most > 1) unique_at = u.at;
    }
    return unique_at;
  }

  // ---------------------------------------------------------------- texts
  // Expressions up to this number are written twice rather than made a rule.
  static constexpr std::size_t kSmall = 200;

  Expr text(Meet meet) {
    Node& node = nodes_.at(meet);
    if (node.text) return *node.text;
    if (!node.finite) return Expressions::kNever;
    if (node.open) {
      if (node.rule < 0) node.rule = c_.grammar.add_rule();
      return e_.call(node.rule);
    }
    const Budget::Nesting nesting(c_.grammar.budget);
    c_.grammar.budget.check();
    node.open = true;
    const std::size_t before = e_.size();
    std::vector<Expr> ways;
    bool composite = false;
    for (const Branch& b : node.branches) {
      ways.push_back(b.plain);
      composite |= b.list || b.object;
      if (b.list) ways.push_back(lists().write(b.shape->array, b.unique_at));
      if (b.object) ways.push_back(object_text(b.shape->object));
    }
    Expr all = e_.either(std::move(ways));
    node.open = false;
    if (node.rule < 0 && composite && node.uses > 1 && e_.size() - before > kSmall) node.rule = c_.grammar.add_rule();
    if (node.rule >= 0) c_.grammar.rules[static_cast<std::size_t>(node.rule)] = std::exchange(all, e_.call(node.rule));
    node.text = all;
    return all;
  }

  struct Member {
    Expr text;
    bool required;
  };

  Expr object_text(const ObjectShape& o) {
    std::vector<Member> members;
    for (const bool named : {true, false}) {
      for (const Property& p : o.properties) {
        if (p.named != named) continue;
        const Expr value = text(p.value);
        if (value == Expressions::kNever && !p.required) continue;
        members.push_back({e_.concat({e_.literal('"' + spelled_text(p.key) + '"'), marks_.colon, value}), p.required});
      }
    }
    const Expr others = other_members(o);
    std::size_t required = 0;
    for (const Member& m : members) required += m.required;
    if (others != Expressions::kNever && o.size.least > members.size() + 1) {
      refuse_unsupported(o.at, "different keys are not enforced, so there may be too few");
    }
    const bool counted = o.size.least > required ||
                         (o.size.most != kUnbounded &&
                          (others != Expressions::kNever || members.size() > static_cast<std::size_t>(o.size.most)));
    const Expr inner = counted ? counted_members(members, others, o.size) : free_members(members, others);
    return e_.concat({marks_.open_object, inner, marks_.close_object});
  }

  // A member whose key is not among the properties. Two such members may have the same key; that they differ is not
  // enforced.
  Expr other_members(const ObjectShape& o) {
    const bool closed = o.closes && c_.options.additional_properties == SchemaOptions::AdditionalProperties::closed;
    std::vector<std::string> keys;
    for (const Property& p : o.properties) keys.push_back(spelled_text(p.key));
    const Expr quote = e_.literal("\"");
    const Expr known = one_of_texts(e_, std::move(keys));
    std::vector<Expr> ways;
    for (const KeyClass& c : o.classes) {
      if ((closed && c.implied) || !finite(c.value)) continue;
      std::vector<Expr> all = {c.keys, c.format, c_.any_string};
      if (known != Expressions::kNever) all.push_back(e_.complement(known));
      const Expr key = e_.live_part(e_.both(std::move(all)));
      ways.push_back(e_.concat({quote, key, quote, marks_.colon, text(c.value)}));
    }
    return e_.either(std::move(ways));
  }

  Expr after_comma(Expr e) { return e_.concat(marks_.comma, e); }

  // `rest`: what may follow a first member. There is one expression for each property, so size is linear in their
  // number.
  Expr free_members(const std::vector<Member>& members, Expr others) {
    Expr rest = others == Expressions::kNever ? Expressions::kEmpty : e_.repeat(after_comma(others), 0);
    std::vector<Expr> first = {e_.optional(e_.concat(others, rest))};
    for (std::size_t i = members.size(); i-- > 0;) {
      const Member& m = members[i];
      if (m.required) first.clear();
      first.push_back(e_.concat(m.text, rest));
      rest = e_.concat(m.required ? after_comma(m.text) : e_.optional(after_comma(m.text)), rest);
    }
    return e_.either(std::move(first));
  }

  // The same, with one state for each number of members so far.
  Expr counted_members(const std::vector<Member>& members, Expr others, Count size) {
    const std::size_t n = members.size();
    const std::size_t most = size.most == kUnbounded
                                 ? std::max(size.least, n)
                                 : std::min(static_cast<std::size_t>(size.most), std::max(size.least, n));
    if ((n + 1) * (most + 2) > 20000) refuse_complex("minProperties or maxProperties with many properties");
    std::vector<Expr> rest(most + 2, Expressions::kNever), next = rest;  // by the number of members so far
    for (std::size_t had = 0; had <= most; ++had) rest[had] = last_members(others, size, had);
    for (std::size_t i = n; i-- > 0;) {
      for (std::size_t had = 0; had <= most; ++had) {
        const Expr with = e_.concat({had > 0 ? marks_.comma : Expressions::kEmpty, members[i].text,
                                     had < most ? rest[had + 1] : Expressions::kNever});
        next[had] = members[i].required ? with : e_.either(with, rest[had]);
      }
      std::swap(rest, next);
    }
    return rest[0];
  }
  // The members after all properties.
  Expr last_members(Expr others, Count size, std::size_t had) {
    const std::size_t lacking = size.least > had ? size.least - had : 0;
    if (others == Expressions::kNever) return lacking == 0 ? Expressions::kEmpty : Expressions::kNever;
    if (lacking > 1) return Expressions::kNever;  // two members with the same key count as one
    const int most = size.most == kUnbounded ? kUnbounded : size.most - static_cast<int>(had);
    if (most != kUnbounded && static_cast<int>(lacking) > most) return Expressions::kNever;
    if (had > 0) return e_.repeat(after_comma(others), static_cast<int>(lacking), most);
    if (most == 0) return Expressions::kEmpty;
    const Expr all = e_.concat(others, e_.repeat(after_comma(others), 0, most == kUnbounded ? most : most - 1));
    return lacking > 0 ? all : e_.optional(all);
  }

  Context& c_;
  Expressions& e_;
  Unions& unions_;
  const Punctuation marks_;
  std::map<Meet, Node> nodes_;
};

}  // namespace tenon::constrain::schema
