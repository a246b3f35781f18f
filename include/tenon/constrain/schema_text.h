// JSON texts of values.
#pragma once
#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tenon/constrain/byte_set.h"
#include "tenon/constrain/code_points.h"
#include "tenon/constrain/expression.h"
#include "tenon/constrain/schema_decimal.h"
#include "tenon/constrain/schema_options.h"
#include "tenon/constrain/text_set.h"
#include "tenon/io/hex.h"

namespace tenon::constrain::schema {

/// A string between quotes, in the one spelling of Spelling::json.
inline std::string spelled_text(std::string_view text) {
  std::string spelled;
  for (const char c : text) {
    constexpr std::string_view kPlain = "\"\\\b\f\n\r\t", kShort = "\"\\bfnrt";
    if (const std::size_t i = kPlain.find(c); i != kPlain.npos) {
      spelled += {'\\', kShort[i]};
    } else if (static_cast<unsigned char>(c) < 0x20) {
      spelled += "\\u" + hex_of(static_cast<unsigned char>(c), 4);
    } else {
      spelled += c;
    }
  }
  return spelled;
}

/// Whether the expression matches the text.
inline bool matches(Expressions& expressions, Expr e, std::string_view text) {
  for (const char c : text) {
    expressions.budget().check();
    e = expressions.derivative(e, static_cast<unsigned char>(c));
    if (e == Expressions::kNever) return false;
  }
  return expressions.nullable(e);
}

/// A text that is the same for values that are equal in JSON Schema: 1 and 1.0, and objects with keys in another order.
inline std::string equal_text(const Json& value) {
  if (value.is_number()) {
    const Decimal d = Decimal::of(value);
    return (d.negative ? "-" : "") + d.digits + 'e' + std::to_string(d.point);
  }
  if (!value.is_structured()) return value.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::vector<std::string> members;
  for (auto member = value.begin(); member != value.end(); ++member) {
    members.push_back((value.is_object() ? '"' + spelled_text(member.key()) + "\":" : "") + equal_text(*member));
  }
  if (value.is_object()) std::sort(members.begin(), members.end());
  std::string text(1, value.is_array() ? '[' : '{');
  for (const std::string& each : members) text += each + ',';
  return text;
}

/// The equal_text() of each value.
inline std::unordered_set<std::string> equal_texts(Budget& budget, const std::vector<Json>& values) {
  std::unordered_set<std::string> texts;
  for (const Json& value : values) budget.check(), texts.insert(equal_text(value));
  return texts;
}

/// Brackets, commas and colons with the white space allowed around them.
struct Punctuation {
  Expr comma, colon, open_list, close_list, open_object, close_object;
  /// Write listed whole numbers as digits only, because in draft 4 1.0 is not an integer.
  const bool digits_alone;

  Punctuation(Expressions& e, SchemaOptions::Whitespace whitespace, bool whole_as_digits)
      : digits_alone(whole_as_digits) {
    using Whitespace = SchemaOptions::Whitespace;
    const Expr blank = e.literal(" ");
    Expr around = Expressions::kEmpty, behind = Expressions::kEmpty;
    if (whitespace == Whitespace::single) behind = e.optional(blank);
    if (whitespace == Whitespace::flexible) {
      around = behind = e.optional(e.either(blank, e.concat(e.literal("\n"), e.repeat(blank, 0, 20))));
    }
    comma = e.concat({around, e.literal(","), behind}), colon = e.concat({around, e.literal(":"), behind});
    open_list = e.concat(e.literal("["), around), close_list = e.concat(around, e.literal("]"));
    open_object = e.concat(e.literal("{"), around), close_object = e.concat(around, e.literal("}"));
  }
};

/// The spellings of a number.
inline std::vector<std::string> number_texts(const Json& number, bool digits_alone) {
  const Decimal d = Decimal::of(number);
  if (digits_alone && d.is_whole()) return {(d.negative ? "-" : "") + d.whole()};
  if (d.is_zero()) return {"0", "0.0"};
  std::vector<std::string> texts = {number.dump()};
  if (!number.is_number_float()) return texts;
  if (d.is_whole() && d.point <= 19) {
    for (const char* fraction : {"", ".0"}) texts.push_back((d.negative ? "-" : "") + d.whole() + fraction);
  }
  return texts;
}

/// The text of a value, with its keys in the given order.
inline Expr value_text(Expressions& e, const Punctuation& marks, const Json& value) {
  const Budget::Nesting nesting(e.budget());
  if (value.is_number()) return one_of_texts(e, number_texts(value, marks.digits_alone));
  if (value.is_string()) return e.literal('"' + spelled_text(value.get_ref<const std::string&>()) + '"');
  if (!value.is_structured()) return e.literal(value.dump());
  std::vector<Expr> members;
  for (auto member = value.begin(); member != value.end(); ++member) {
    const Expr inner = value_text(e, marks, *member);
    members.push_back(
        value.is_array() ? inner : e.concat({e.literal('"' + spelled_text(member.key()) + '"'), marks.colon, inner}));
  }
  Expr all = value.is_array() ? marks.close_list : marks.close_object;
  for (std::size_t i = members.size(); i-- > 0;)
    all = e.concat({i > 0 ? marks.comma : Expressions::kEmpty, members[i], all});
  return e.concat(value.is_array() ? marks.open_list : marks.open_object, all);
}

}  // namespace tenon::constrain::schema
