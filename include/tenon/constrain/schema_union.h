// Multiplies out allOf, anyOf, oneOf, not, if and so on into shapes, of which a value must have one.
#pragma once
#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tenon/constrain/refused.h"
#include "tenon/constrain/schema_negation.h"
#include "tenon/constrain/schema_reader.h"
#include "tenon/constrain/schema_shape.h"

namespace tenon::constrain::schema {

/// Computes and caches the shapes of sets of subschemas.
class Unions {
 public:
  explicit Unions(Context& context) : c_(context) {}

  /// The shapes of a set of subschemas. The reference stays valid.
  const SchemaShapes& of(Meet meet) {
    if (const auto found = meets_.find(meet); found != meets_.end()) return found->second;
    SchemaShapes all = {SchemaShape{}};
    for (const Literal literal : c_.sources.literals(meet)) all = product(all, of_literal(literal), literal);
    keep(all);
    return meets_.emplace(meet, std::move(all)).first->second;
  }

  /// Whether the value satisfies the set.
  bool valid(const Json& value, Meet meet) {
    const SchemaShapes& shapes = of(meet);
    return std::any_of(shapes.begin(), shapes.end(), [&](const SchemaShape& s) { return has(value, s); });
  }

  /// Whether the value has the shape.
  bool has(const Json& value, const SchemaShape& s) {
    const auto* values = values_of(s, type_of(value));
    return (!values || lists(*values, value)) && fits(value, s);
  }

  /// The values of enum and const that the rest of the shape allows.
  std::vector<Json> listed(const SchemaShape& s, unsigned type) {
    std::vector<Json> left;
    for (const Json& value : *values_of(s, type)) {
      if (fits(value, s)) left.push_back(value);
    }
    return left;
  }

  /// True only if no value has the shape. False is no proof.
  bool empty(const SchemaShape& s, int depth = 0) {
    if (s.types & (kNull | kFalse | kTrue)) return false;
    if ((s.types & kNumber) && !empty_number(s)) return false;
    if ((s.types & kString) && c_.text_of(s.string) != Expressions::kNever) return false;
    if ((s.types & kArray) && !empty_array(s, depth)) return false;
    return !(s.types & kObject) || empty_object(s, depth);
  }

 private:
  static constexpr std::size_t kMostWays = 64;
  static constexpr int kDepthOfProofs = 4;
  static constexpr std::size_t kProofBytes = 100;  // table memory of a proof, about
  struct Counted {
    int& all;
    ~Counted() { --all; }
  };
  struct CircularProof {};  // a proof needs a set that is being multiplied out

  const SchemaShapes& of_literal(Literal literal) {
    if (const auto found = literals_.find(literal); found != literals_.end()) return found->second;
    if (literal == 0) return literals_.emplace(0, SchemaShapes{}).first->second;
    const Source& source = c_.sources.source(literal);
    if (is_open(literal)) {
      if (proofs_ > 0) throw CircularProof{};
      refuse_invalid(source.at, "the schema refers to itself without end");
    }
    const Budget::Nesting nesting(c_.grammar.budget);
    c_.grammar.budget.check();
    struct Open {
      std::vector<Literal>& all;
      ~Open() { all.pop_back(); }
    };
    open_.push_back(literal);
    const Open open{open_};
    SchemaShapes shapes = literal % 2 ? negated(literal) : positive(literal);
    keep(shapes);
    return literals_.emplace(literal, std::move(shapes)).first->second;
  }

  void keep(const SchemaShapes& shapes) {
    c_.grammar.budget.spend(sizeof(SchemaShape));
    for (const SchemaShape& s : shapes) c_.grammar.budget.spend(bytes_of(s));
  }

  SchemaShapes product(const SchemaShapes& a, const SchemaShapes& b, Literal at) {
    SchemaShapes all;
    for (const SchemaShape& x : a) {
      for (const SchemaShape& y : b) {
        c_.grammar.budget.check();
        SchemaShape both = meet(c_, x, y);
        if (both.types == 0) continue;
        if (a.size() > 1 && b.size() > 1 && empty(both)) continue;
        all.push_back(std::move(both));
        if (a.size() > 1 && b.size() > 1 && all.size() > kMostWays) {
          refuse_unsupported(c_.sources.source(at).at, "too complex: more than 64 combinations of alternatives");
        }
      }
    }
    return all;
  }

  // ---------------------------------------------------------------- applicators
  SchemaShapes positive(Literal literal) {
    const Source& source = c_.sources.source(literal);
    SchemaReader reader(c_, source);
    SchemaShapes all = {reader.read()};
    if (reader.names()) restrict_names(all.front().object, *reader.names(), below(source.at, "propertyNames"));
    const auto multiply = [&](const SchemaShapes& more) { all = product(all, more, literal); };
    for (const auto& [keyword, value] : source.schema->items()) {
      if (!source.has(keyword)) continue;
      if (keyword == "$ref")
        multiply(of(c_.sources.target(source)));
      else if (keyword == "allOf")
        for (const Meet each : branches(source, keyword)) multiply(of(each));
      else if (keyword == "anyOf")
        multiply(any_of(branches(source, keyword)));
      else if (keyword == "oneOf")
        multiply(one_of(source, branches(source, keyword)));
      else if (keyword == "not")
        multiply(not_of(c_.sources.member(source, keyword), below(source.at, keyword)));
      else if (keyword == "if")
        multiply(conditional(source));
      else if (keyword == "dependentRequired" || keyword == "dependentSchemas" || keyword == "dependencies") {
        for (const SchemaShapes& each : dependencies(source, keyword)) multiply(each);
      }
    }
    return all;
  }

  std::vector<Meet> branches(const Source& source, const std::string& keyword) {
    const Json& list = source.schema->at(keyword);
    const std::string where = below(source.at, keyword);
    if (!list.is_array() || list.empty()) refuse_invalid(where, "must be a list of schemas");
    std::vector<Meet> all;
    for (std::size_t i = 0; i < list.size(); ++i)
      all.push_back(c_.sources.at(list[i], below(where, i), source.resource));
    return all;
  }

  SchemaShapes any_of(const std::vector<Meet>& branches) {
    SchemaShapes all;
    std::set<Meet> seen;
    for (const Meet branch : branches) {
      if (seen.insert(branch).second) append(all, of(branch));
    }
    return all;
  }
  // Branches of branches multiply, so appending is charged and timed.
  void append(SchemaShapes& all, const SchemaShapes& more) {
    c_.grammar.budget.check();
    keep(more);
    all.insert(all.end(), more.begin(), more.end());
  }

  // oneOf: where two branches may overlap, each is taken without the other, if that can be expressed.
  SchemaShapes one_of(const Source& source, const std::vector<Meet>& branches) {
    SchemaShapes all;
    for (std::size_t i = 0; i < branches.size(); ++i) {
      SchemaShapes alone = of(branches[i]);
      for (std::size_t j = 0; j < branches.size() && !c_.options.any_of_for_one_of; ++j) {
        c_.grammar.budget.check();
        if (i == j || disjoint(alone, of(branches[j]))) continue;
        const auto others = negation(of(branches[j]));
        if (!others) {
          refuse_unsupported(below(source.at, "oneOf"), "branches " + std::to_string(std::min(i, j)) + " and " +
                                                            std::to_string(std::max(i, j)) + " may overlap");
        }
        alone = product(alone, *others, 0);
        std::erase_if(alone, [&](const SchemaShape& s) { return empty(s); });
      }
      append(all, alone);
    }
    return all;
  }
  bool disjoint(const SchemaShapes& a, const SchemaShapes& b) {
    return std::all_of(a.begin(), a.end(), [&](const SchemaShape& x) {
      return std::all_of(b.begin(), b.end(), [&](const SchemaShape& y) { return disjoint(x, y); });
    });
  }
  // Tries the most common proofs first: by type, by text, by a member that both require.
  bool disjoint(const SchemaShape& x, const SchemaShape& y) {
    const unsigned types = x.types & y.types;
    if (types == 0) return true;
    if (types == kString && surely_disjoint(x.string, y.string)) return true;
    if (types == kObject) {
      for (const Property& p : x.object.properties) {
        const Property* other = p.required ? y.object.properties.find(p.key) : nullptr;
        if (other && surely_disjoint(p.value, other->value)) return true;
      }
    }
    c_.grammar.budget.spend(kProofBytes);
    return empty(meet(c_, x, y));
  }

  static bool surely_disjoint(const StringShape& x, const StringShape& y) {
    if (!x.words || !y.words) return false;
    return std::none_of(x.words->begin(), x.words->end(), [&](const std::string& word) {
      return std::binary_search(y.words->begin(), y.words->end(), word);
    });
  }
  bool surely_disjoint(Meet a, Meet b) {
    const auto words = [&](const SchemaShape& s) { return s.types == kString && s.string.words; };
    return proved_by([&] {
      const SchemaShapes &xs = of(a), &ys = of(b);
      return std::all_of(xs.begin(), xs.end(), words) && std::all_of(ys.begin(), ys.end(), words) && disjoint(xs, ys);
    });
  }

  SchemaShapes negated(Literal literal) {
    const Meet meet = c_.sources.only(literal ^ 1);
    return not_of(meet, c_.sources.source(literal).at);
  }
  SchemaShapes not_of(Meet meet, const std::string& at) {
    if (auto shapes = negation(of(meet))) return *std::move(shapes);
    for (const SchemaShape& s : of(meet)) {
      if (s.string.format != Expressions::kAnything)
        refuse_unsupported(at, "not is not enforced where there is a format");
    }
    SchemaShape unproved;
    unproved.unproved.push_back(
        {Unproved::What::is_not, kAllTypes, meet, at, "not is enforced for some schemas only, and not for this one"});
    return {unproved};
  }

  SchemaShapes conditional(const Source& source) {
    const Meet condition = c_.sources.member(source, "if");
    const auto branch = [&](const char* keyword) -> const SchemaShapes& {
      return of(source.has(keyword) ? c_.sources.member(source, keyword) : kTrueMeet);
    };
    if (!source.has("then") && !source.has("else")) return {SchemaShape{}};
    const auto otherwise = negation(of(condition));
    if (!otherwise)
      refuse_unsupported(below(source.at, "if"), "if is enforced for some schemas only, and not for this one");
    SchemaShapes all = product(of(condition), branch("then"), 0);
    const SchemaShapes rest = product(*otherwise, branch("else"), 0);
    all.insert(all.end(), rest.begin(), rest.end());
    return all;
  }

  // For each key: values without it, or objects with it that satisfy what depends on it.
  std::vector<SchemaShapes> dependencies(const Source& source, const std::string& keyword) {
    const Json& all = source.schema->at(keyword);
    const std::string where = below(source.at, keyword);
    if (!all.is_object()) refuse_invalid(where, "must be an object");
    std::vector<SchemaShapes> each;
    for (const auto& [key, needs] : all.items()) {
      c_.grammar.budget.check();
      SchemaShape without = object(), with = object();
      without.object.properties = {{key, kFalseMeet}};
      if (keyword == "dependentRequired" && !needs.is_array())
        refuse_invalid(below(where, key), "must be a list of keys");
      if (needs.is_array()) {
        for (const Json& name : needs) {
          if (!name.is_string()) refuse_invalid(below(where, key), "must be a list of keys");
          if (!with.object.properties.find(name.get<std::string>()))
            with.object.properties.add({name.get<std::string>(), kTrueMeet, true});
        }
      }
      if (!with.object.properties.find(key)) with.object.properties.add({key, kTrueMeet, true});
      const SchemaShapes& more =
          of(needs.is_array() ? kTrueMeet : c_.sources.at(needs, below(where, key), source.resource));
      SchemaShapes ways = product({with}, more, 0);
      without.types = kAllTypes;
      ways.push_back(without);
      each.push_back(std::move(ways));
    }
    return each;
  }
  // A shape of objects only.
  static SchemaShape object() { return {.types = kObject, .mentioned = kObject}; }

  // Requires the keys to be strings that satisfy `names`.
  void restrict_names(ObjectShape& o, Meet names, const std::string& at) {
    Expressions& e = c_.e();
    std::vector<Expr> ways, formats;
    for (const SchemaShape& s : of(names)) {
      if (!s.unproved.empty()) refuse_unsupported(s.unproved.front().at, s.unproved.front().reason);
      if (!(s.types & kString)) continue;
      ways.push_back(c_.text_of(s.string));
      formats.push_back(s.string.format);
    }
    // A format limits the keys that are written, not the keys that are allowed. Each alternative with a format would
    // need key classes of its own.
    const bool has_format =
        std::any_of(formats.begin(), formats.end(), [](Expr f) { return f != Expressions::kAnything; });
    if (has_format && ways.size() > 1)
      refuse_unsupported(at, "propertyNames is not enforced where one of several alternatives has a format");
    const Expr good = e.either(std::move(ways));
    for (Property& p : o.properties) {
      if (!matches(e, good, spelled_text(p.key))) p.value = kFalseMeet;
    }
    std::vector<KeyClass> classes;
    for (const KeyClass& c : o.classes) {
      const Expr in = e.both(c.keys, good), out = e.both(c.keys, e.complement(good));
      if (c_.any_key(in))
        classes.push_back(
            {in, c.value, c.implied, has_format ? formats.front() : Expressions::kAnything, has_format ? at : ""});
      classes.push_back({out, kFalseMeet, false});
    }
    for (const Property& p : has_format ? o.properties : Properties()) {
      if (matches(e, good, spelled_text(p.key)) && !matches(e, formats.front(), spelled_text(p.key))) {
        refuse_unsupported(at,
                           "a format of keys is not enforced where the schema names one without it: '" + p.key + "'");
      }
    }
    o.classes = std::move(classes);
  }

  // ---------------------------------------------------------------- negations
  // Empty where the negation cannot be expressed.
  std::optional<SchemaShapes> negation(const SchemaShapes& shapes) {
    SchemaShapes all = {SchemaShape{}};
    for (const SchemaShape& s : shapes) {
      const auto one = negation(s);
      if (!one) return std::nullopt;
      if (all.size() * one->size() > Negation::kMost) return std::nullopt;
      all = product(all, *one, 0);
      std::erase_if(all, [&](const SchemaShape& x) { return empty(x); });
    }
    return all;
  }
  std::optional<SchemaShapes> negation(const SchemaShape& s) {
    std::vector<Json> numbers;
    if ((s.types & kNumber) && s.number.values) numbers = listed(s, kNumber);
    return Negation(c_, s, numbers).shapes();
  }

  // ---------------------------------------------------------------- values and emptiness
  static const std::vector<Json>* values_of(const SchemaShape& s, unsigned type) {
    const auto& values = type == kNumber ? s.number.values : type == kArray ? s.array.values : s.object.values;
    return (type & (kNumber | kArray | kObject)) && values ? &*values : nullptr;
  }
  bool lists(const std::vector<Json>& values, const Json& value) {
    const std::string text = equal_text(value);
    return std::any_of(values.begin(), values.end(), [&](const Json& x) {
      c_.grammar.budget.check();
      return x.type() == value.type() && !value.is_structured() ? x == value : equal_text(x) == text;
    });
  }
  // Whether the value has the shape, without the lists of enum and const.
  bool fits(const Json& value, const SchemaShape& s) {
    const Budget::Nesting nesting(c_.grammar.budget);
    c_.grammar.budget.check();
    const unsigned type = type_of(value);
    if (!(s.types & type)) return false;
    if (type == kNumber && !within(s.number, Decimal::of(value))) return false;
    if (type == kString && negations_ > 0 && s.string.format != Expressions::kAnything) {
      refuse_unsupported("#", "not is not enforced where there is a format");
    }
    if (type == kString && !matches(c_.e(), c_.written(s.string), spelled_text(value.get_ref<const std::string&>()))) {
      return false;
    }
    if (type == kArray && !has_items(value, s.array)) return false;
    if (type == kObject && !has_members(value, s.object)) return false;
    return std::all_of(s.unproved.begin(), s.unproved.end(), [&](const Unproved& u) { return proved(value, type, u); });
  }
  bool has_items(const Json& list, const ArrayShape& a) {
    if (!a.size.has(list.size())) return false;
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (!valid(list[i], a.item(i))) return false;
    }
    if (!a.contains) return true;
    const auto counted =
        std::count_if(list.begin(), list.end(), [&](const Json& item) { return valid(item, a.contains->value); });
    return a.contains->count.has(static_cast<std::size_t>(counted));
  }
  bool has_members(const Json& object, const ObjectShape& o) {
    if (!o.size.has(object.size())) return false;
    for (const Property& p : o.properties) {
      c_.grammar.budget.check();
      if (p.required && !object.contains(p.key)) return false;
    }
    for (const auto& [key, value] : object.items()) {
      if (!valid(value, value_of(c_, o, key))) return false;
    }
    return true;
  }
  bool proved(const Json& value, unsigned type, const Unproved& u) {
    if (!(u.types & type)) return true;
    if (u.what == Unproved::What::is_not) {
      const Counted counted{++negations_};
      return !valid(value, u.meet);
    }
    return equal_texts(c_.grammar.budget, {value.begin(), value.end()}).size() == value.size();
  }

  bool empty_number(const SchemaShape& s) {
    if (s.number.values) return listed(s, kNumber).empty();
    return none_within(s.number) ||
           (texts_tell(s.number) && NumberText(c_.e(), s.number).text() == Expressions::kNever);
  }
  bool empty_array(const SchemaShape& s, int depth) {
    if (s.array.size.empty() || (s.array.contains && s.array.contains->count.empty())) return true;
    if (depth > kDepthOfProofs) return false;
    for (std::size_t i = 0; i < std::min(s.array.size.least, s.array.prefix.size() + 1); ++i) {
      if (empty(s.array.item(i), depth + 1)) return true;
    }
    return false;
  }
  bool empty_object(const SchemaShape& s, int depth) {
    if (s.object.size.empty()) return true;
    if (depth > kDepthOfProofs) return false;
    return std::any_of(s.object.properties.begin(), s.object.properties.end(),
                       [&](const Property& p) { return p.required && empty(p.value, depth + 1); });
  }
  bool empty(Meet meet, int depth) {
    c_.grammar.budget.check();
    if (meet == kTrueMeet || meet == kFalseMeet) return meet == kFalseMeet;
    return proved_by([&] {
      const SchemaShapes& shapes = of(meet);
      return std::all_of(shapes.begin(), shapes.end(), [&](const SchemaShape& s) { return empty(s, depth); });
    });
  }
  // False where the proof needs a set that is being multiplied out.
  template <class Proof>
  bool proved_by(const Proof& proof) {
    const Counted counted{++proofs_};
    try {
      return proof();
    } catch (const CircularProof&) {
    } catch (const Refused&) {  // if it matters, writing the text will refuse it
    }
    return false;
  }
  bool is_open(Literal literal) const { return std::find(open_.begin(), open_.end(), literal) != open_.end(); }

  Context& c_;
  std::map<Meet, SchemaShapes> meets_;
  std::map<Literal, SchemaShapes> literals_;
  std::vector<Literal> open_;  // being multiplied out
  int proofs_ = 0;             // proofs of emptiness in progress
  int negations_ = 0;          // negations around the current value
};

}  // namespace tenon::constrain::schema
