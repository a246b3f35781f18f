// Texts of lists: items, contains, uniqueItems.
#pragma once
#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tenon/constrain/refused.h"
#include "tenon/constrain/schema_shape.h"
#include "tenon/constrain/schema_text.h"
#include "tenon/constrain/text_set.h"

namespace tenon::constrain::schema {

/// All texts of an expression without calls; empty where there are more than `most`, or one is longer than 256 bytes.
inline std::optional<std::vector<std::string>> all_texts(Expressions& e, Expr language, std::size_t most) {
  constexpr std::size_t kLongest = 256;
  std::vector<std::string> texts;
  std::vector<std::pair<std::string, Expr>> open = {{"", e.live_part(language)}};
  for (std::size_t i = 0; i < open.size(); ++i) {
    e.budget().check();
    // Copies: `open` grows below, and a lambda cannot capture a structured binding.
    const std::string text = open[i].first;
    const Expr rest = open[i].second;
    if (rest == Expressions::kNever) continue;
    if (e.nullable(rest)) texts.push_back(text);
    if (texts.size() > most || text.size() > kLongest || open.size() > most * kLongest) return std::nullopt;
    if (open.size() - i > 2 * most) return std::nullopt;  // every prefix leads to a text, so breadth alone is too much
    for (const ByteSet& set : e.byte_classes(rest)) {
      const Expr next = e.derivative(rest, set.first());
      if (next == Expressions::kNever) continue;
      set.for_each([&](int byte) { open.emplace_back(text + static_cast<char>(byte), next); });
    }
  }
  return texts;
}

/// Writes lists. text(meet): the texts of a set of subschemas. finite(meet): whether it has any.
template <class Text, class Finite>
class ListText {
 public:
  static constexpr std::size_t kMostValues = 256;  ///< values that uniqueItems can compare

  ListText(Context& context, const Punctuation& marks, Text text, Finite finite)
      : c_(context), e_(context.e()), marks_(marks), text_(std::move(text)), finite_(std::move(finite)) {}

  /// Most items that a list can have.
  std::size_t items(const ArrayShape& a) const {
    const std::size_t most = a.size.most == kUnbounded ? kEndless : static_cast<std::size_t>(a.size.most);
    for (std::size_t i = 0; i < a.prefix.size(); ++i) {
      if (!finite_(a.prefix[i])) return std::min(i, most);
    }
    return finite_(a.rest) ? most : std::min(most, a.prefix.size());
  }
  /// Whether some list is finite, judged by single items.
  bool ends(const ArrayShape& a) const {
    const std::size_t most = items(a);
    if (a.size.least > most) return false;
    if (!a.contains || a.contains->count.least == 0) return true;
    for (std::size_t i = 0; i < std::min(most, a.prefix.size() + 1); ++i) {
      if (finite_(c_.sources.join(a.item(i), a.contains->value))) return true;
    }
    return false;
  }

  /// The texts of the list. `unique_at`: where uniqueItems stands; empty: nowhere.
  Expr write(const ArrayShape& a, const std::string& unique_at) {
    const Expr all = a.contains ? counted(a) : plain(a);
    return unique_at.empty() || all == Expressions::kNever ? all : unique(a, all, unique_at);
  }

 private:
  static constexpr std::size_t kEndless = std::size_t{0} - 1;

  Expr item(const ArrayShape& a, std::size_t i) { return text_(a.item(i)); }

  Expr plain(const ArrayShape& a) {
    const std::size_t least = a.size.least, most = items(a), listed = a.prefix.size();
    if (most != kEndless && least > most) return Expressions::kNever;
    const auto repeated = [&](std::size_t from) {  // the items of `rest`, each after a comma
      if (most <= from) return Expressions::kEmpty;
      const int at_least = static_cast<int>(least > from ? least - from : 0);
      return e_.repeat(e_.concat(marks_.comma, text_(a.rest)), at_least,
                       most == kEndless ? kUnbounded : static_cast<int>(most - from));
    };
    Expr inner = repeated(std::max<std::size_t>(listed, 1));
    for (std::size_t i = listed; i-- > 1;) {
      if (i >= most) continue;
      inner = e_.concat({marks_.comma, item(a, i), inner});
      if (least <= i) inner = e_.optional(inner);
    }
    inner = most == 0 ? Expressions::kEmpty : e_.concat(item(a, 0), inner);
    if (least == 0) inner = e_.optional(inner);
    return e_.concat({marks_.open_list, inner, marks_.close_list});
  }

  // ---------------------------------------------------------------- contains
  // One state for each number of items so far, up to the last number that a bound counts, and each number of items that
  // match `contains`.
  Expr counted(const ArrayShape& a) {
    const Contains& c = *a.contains;
    const std::size_t most = items(a), needed = c.count.least;
    const bool capped = c.count.most != kUnbounded;
    const std::size_t columns = (capped ? static_cast<std::size_t>(c.count.most) : needed) + 1;
    const std::size_t rows = std::max({a.prefix.size(), a.size.least, most == kEndless ? 1 : most, std::size_t{1}});
    if (capped && needed > static_cast<std::size_t>(c.count.most)) return Expressions::kNever;
    if (rows > kMostCells / columns)
      refuse_unsupported(c.at, "too complex: contains with bounds of more than " + std::to_string(kMostCells));
    const Meet other = capped ? other_than(c) : kTrueMeet;  // without a cap, any item may go uncounted
    // rest[n]: what may follow after n items were counted.
    std::vector<Expr> rest =
        most == kEndless ? endless(a, other, needed, columns) : std::vector<Expr>(columns, Expressions::kNever);
    if (most != kEndless && rows >= a.size.least)
      std::fill(rest.begin() + static_cast<std::ptrdiff_t>(needed), rest.end(), marks_.close_list);
    for (std::size_t i = rows; i-- > 0;) {
      c_.grammar.budget.check();
      std::vector<Expr> before(columns, Expressions::kNever);
      const Expr comma = i > 0 ? marks_.comma : Expressions::kEmpty;
      const Expr in = i < most ? text_(c_.sources.join(a.item(i), c.value)) : Expressions::kNever;
      const Expr out = i < most ? text_(c_.sources.join(a.item(i), other)) : Expressions::kNever;
      for (std::size_t n = 0; n < columns; ++n) {
        const Expr one_more = n + 1 < columns ? e_.concat(in, rest[n + 1]) : Expressions::kNever;
        const Expr next = e_.concat(comma, e_.either(one_more, e_.concat(out, rest[n])));
        before[n] = i >= a.size.least && n >= needed ? e_.either(marks_.close_list, next) : next;
      }
      rest = std::move(before);
    }
    return e_.concat(marks_.open_list, rest.front());
  }
  // After the items that are counted by place: any number of items.
  std::vector<Expr> endless(const ArrayShape& a, Meet other, std::size_t needed, std::size_t columns) {
    std::vector<Expr> rest(columns, Expressions::kNever);
    const Expr in = e_.concat(marks_.comma, text_(c_.sources.join(a.rest, a.contains->value)));
    const Expr uncounted = e_.repeat(e_.concat(marks_.comma, text_(c_.sources.join(a.rest, other))), 0);
    for (std::size_t n = columns; n-- > 0;) {
      const Expr one_more = n + 1 < columns ? e_.concat(in, rest[n + 1]) : Expressions::kNever;
      rest[n] = e_.concat(uncounted, e_.either(n >= needed ? marks_.close_list : Expressions::kNever, one_more));
    }
    return rest;
  }
  Meet other_than(const Contains& c) {
    const std::optional<Meet> other = c_.sources.negation(c.value);
    if (!other) refuse_unsupported(c.at, "maxContains is enforced for some schemas only, and not for this one");
    return *other;
  }

  // ---------------------------------------------------------------- uniqueItems
  // Removes the lists in which a value occurs twice. Equal values can have several texts: 1 and 1.0.
  Expr unique(const ArrayShape& a, Expr all, const std::string& at) {
    std::vector<Expr> parts;
    const std::size_t most = items(a);
    for (std::size_t i = 0; i < std::min(most, a.prefix.size() + 1); ++i) parts.push_back(item(a, i));
    const Expr any = e_.either(std::move(parts));
    const auto texts = e_.has_calls(any) || e_.has_calls(all) ? std::nullopt : all_texts(e_, any, 4 * kMostValues);
    std::map<std::string, std::vector<std::string>> values;
    for (const std::string& text : texts.value_or(std::vector<std::string>()))
      values[equal_text(Json::parse(text))].push_back(text);
    if (!texts || values.size() > kMostValues) {
      refuse_unsupported(at, "uniqueItems is enforced for items of at most " + std::to_string(kMostValues) +
                                 " different values only: enum, const, booleans, null, bounded integers, short "
                                 "patterns, and lists and objects of these");
    }
    const Expr before = e_.repeat(e_.concat(any, marks_.comma), 0);
    const Expr end =
        // Without the end, 1 would also be a prefix of 12.
        e_.concat(e_.either(marks_.comma, marks_.close_list), Expressions::kAnything);
    std::vector<Expr> twice;
    for (auto& [equal, spellings] : values) {
      c_.grammar.budget.check();
      const Expr value = one_of_texts(e_, std::move(spellings));
      twice.push_back(e_.concat({value, marks_.comma, before, value, end}));
    }
    const Expr some_twice = e_.concat({marks_.open_list, before, e_.either(std::move(twice))});
    return e_.live_part(e_.both(all, e_.complement(some_twice)));
  }

  static constexpr std::size_t kMostCells = 20'000;

  Context& c_;
  Expressions& e_;
  const Punctuation& marks_;
  const Text text_;
  const Finite finite_;
};

}  // namespace tenon::constrain::schema
