// Filters of texts, numbers and single values.
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/chat/interpreter.h"
#include "tenon/chat/methods.h"
#include "tenon/chat/numbers.h"
#include "tenon/core/require.h"

namespace tenon::chat::detail {

// A filter: value | name(arguments).
using FilterFunction = Value (*)(Interpreter&, const Value&, const Arguments&);
struct NamedFilter {
  std::string_view name;
  FilterFunction function;
};

// ---------------------------------------------------------------- texts
template <LetterCase to>
Value filter_case(Interpreter& run, const Value& value, const Arguments& arguments) {
  const Parameters p("the filter", arguments, {});
  const MarkedText text = to_text(value, run.meter());
  run.meter().charge_text(2 * text.size());
  return Value::text(to == LetterCase::title ? jinja_title(text) : with_case(text, to));
}
inline Value filter_capitalize(Interpreter& run, const Value& value, const Arguments& arguments) {
  const Parameters p("capitalize", arguments, {});
  return Value::text(capitalized(to_text(value, run.meter())));
}
inline Value filter_trim(Interpreter& run, const Value& value, const Arguments& arguments) {
  const Parameters p("trim", arguments, {"chars"});
  const MarkedText text = to_text(value, run.meter());
  return TextMethods(text, "strip", arguments, run.meter()).call();
}
inline Value filter_replace(Interpreter& run, const Value& value, const Arguments& arguments) {
  const Parameters p("replace", arguments, {"old", "new", "count"}, 2);
  Meter& meter = run.meter();
  const std::int64_t most = p[2] && p[2]->is_none() ? -1 : p.integer(2, -1);
  return Value::text(replaced(to_text(value, meter), to_text(*p[0], meter), to_text(*p[1], meter), most, meter));
}
inline Value filter_center(Interpreter& run, const Value& value, const Arguments& arguments) {
  const Parameters p("center", arguments, {"width"});
  return Value::text(justified(to_text(value, run.meter()), p.integer(0, 80), {" ", kByTemplate}, '^', run.meter()));
}
inline Value filter_indent(Interpreter& run, const Value& value, const Arguments& arguments) {
  const Parameters p("indent", arguments, {"width", "first", "blank"});
  if (!value.as_text()) fail_type("indent got", value);
  const MarkedText* const own = p[0] ? p[0]->as_text() : nullptr;
  const MarkedText space(" ", kByTemplate);
  const MarkedText indent = own ? *own : repeated(space, p.integer(0, 4), run.meter());
  return Value::text(indented(*value.as_text(), indent, p[1] && is_true(*p[1]), p[2] && is_true(*p[2]), run.meter()));
}
inline Value filter_truncate(Interpreter& run, const Value& value, const Arguments& arguments) {
  const Parameters p("truncate", arguments, {"length", "killwords", "end", "leeway"});
  const MarkedText end = p[2] ? p.text(2) : MarkedText("...", kByTemplate);
  const std::int64_t length = p.integer(0, 255), leeway = p[3] && p[3]->is_none() ? 5 : p.integer(3, 5);
  const auto end_length = static_cast<std::int64_t>(count_characters(end.bytes));
  if (length < end_length || leeway < 0)
    fail("truncate got a length that is shorter than its end, or a negative leeway");
  const auto own = length_of(value, run.meter());
  if (own && static_cast<std::int64_t>(*own) <= length + leeway) return value;
  if (!value.as_text()) fail_type("truncate got", value);
  const MarkedText& text = *value.as_text();
  run.meter().charge_text(2 * text.size());
  MarkedText out = text.part(0, offset_of_character(text.bytes, static_cast<std::size_t>(length - end_length)));
  if (!(p[1] && is_true(*p[1]))) out = out.part(0, std::min(out.bytes.rfind(' '), out.size()));
  out.append(end);
  return Value::text(std::move(out));
}
inline Value filter_string(Interpreter& run, const Value& value, const Arguments& arguments) {
  const Parameters p("string", arguments, {});
  return value.as_text() ? value : Value::text(to_text(value, run.meter()));
}
inline Value filter_safe(Interpreter& run, const Value& value, const Arguments& arguments) {
  const Parameters p("safe", arguments, {});
  return Value::text(to_text(value, run.meter()), true);
}
inline Value filter_escape(Interpreter& run, const Value& value, const Arguments& arguments) {
  const Parameters p("escape", arguments, {});
  return value.is_safe() ? value : Value::text(escaped(to_text(value, run.meter()), run.meter()), true);
}
inline Value filter_format(Interpreter& run, const Value& value, const Arguments& arguments) {
  Meter& meter = run.meter();
  if (!arguments.named.empty() && !arguments.positional.empty()) fail("format takes positional or named arguments");
  if (arguments.named.empty())
    return Value::text(format_percents(to_text(value, meter), make_tuple(arguments.positional, meter), meter));
  DictObject names;
  for (const auto& [name, each] : arguments.named) set_entry(names, Value::text(name, kByTemplate), each, meter);
  return Value::text(format_percents(to_text(value, meter), make_dict(std::move(names), meter), meter));
}

// tojson of transformers: json.dumps without escapes for HTML.
inline Value filter_tojson(Interpreter& run, const Value& value, const Arguments& arguments) {
  const Parameters p("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonWriter writer(run.meter());
  writer.ensure_ascii = p[0] && is_true(*p[0]);
  writer.sort_keys = p[3] && is_true(*p[3]);
  if (p[1] && !p[1]->is_none()) {
    const MarkedText space(" ", kByTemplate);
    writer.indent = p[1]->as_text() ? *p[1]->as_text() : repeated(space, p.integer(1, 0), run.meter());
    writer.item_separator = {",", kByTemplate};
  }
  if (p[2] && !p[2]->is_none()) {
    const List parts = iterate(*p[2], run.meter());
    if (parts.size() != 2 || !parts[0].as_text() || !parts[1].as_text()) fail("tojson needs two texts as separators");
    writer.item_separator = *parts[0].as_text();
    writer.key_separator = *parts[1].as_text();
  }
  return Value::text(writer.write(value));
}

// ---------------------------------------------------------------- numbers
inline Value filter_abs(Interpreter&, const Value& value, const Arguments& arguments) {
  const Parameters p("abs", arguments, {});
  if (const auto number = value.as_integer())
    return Value(*number < 0 ? compute("-", 0, *number) : *number, value.writer());
  if (!value.as_number()) fail_type("abs got", value);
  return Value(std::fabs(*value.as_number()), value.writer());
}
inline Value filter_int(Interpreter& run, const Value& value, const Arguments& arguments) {
  const Parameters p("int", arguments, {"default", "base"});
  if (p.integer(1, 10) != 10) refuse("int with a base");
  const Value otherwise = p[0] ? *p[0] : Value(std::int64_t{0});
  if (value.is_undefined()) fail_undefined(value);
  if (const auto number = value.as_integer()) return Value(*number, value.writer());
  std::optional<double> number = value.as_number();
  if (const MarkedText* const text = value.as_text()) {
    run.meter().charge_text(text->size());
    if (const auto whole = parse_integer(text->bytes)) return Value(*whole, value.writer());
    number = parse_float(text->bytes);
  }
  if (number && std::isinf(*number) && value.as<double>()) fail("infinity is no integer");
  const auto whole = number ? truncated(*number) : std::nullopt;
  return whole ? Value(*whole, value.writer()) : otherwise;
}
inline Value filter_float(Interpreter& run, const Value& value, const Arguments& arguments) {
  const Parameters p("float", arguments, {"default"});
  if (value.is_undefined()) fail_undefined(value);
  std::optional<double> number = value.as_number();
  if (const MarkedText* const text = value.as_text()) {
    run.meter().charge_text(text->size());
    number = parse_float(text->bytes);
  }
  return number ? Value(*number, value.writer()) : p[0] ? *p[0] : Value(0.0);
}
inline Value filter_round(Interpreter&, const Value& value, const Arguments& arguments) {
  const Parameters p("round", arguments, {"precision", "method"});
  const std::int64_t digits = p.integer(0, 0);
  const std::string method = p[1] ? p.text(1).bytes : "common";
  const auto number = value.as_number();
  if (!number) fail_type("round got", value);
  if (digits < 0 || digits > 300) refuse("round to this number of digits");
  if (method == "common") {
    if (const auto whole = value.as_integer()) return Value(*whole, value.writer());
    return Value(rounded(*number, static_cast<int>(digits)), value.writer());
  }
  if (method != "ceil" && method != "floor") fail("round has the methods common, ceil and floor");
  if (!std::isfinite(*number)) fail("an infinite number cannot be rounded");
  const double scale = std::pow(10.0, static_cast<double>(digits));
  const double whole = method == "ceil" ? std::ceil(*number * scale) : std::floor(*number * scale);
  if (whole == 0) return Value(0.0, value.writer());
  return Value(whole / scale, value.writer());
}

// ---------------------------------------------------------------- any value
inline Value filter_default(Interpreter&, const Value& value, const Arguments& arguments) {
  const Parameters p("default", arguments, {"default_value", "boolean"});
  const bool missing = value.is_undefined() || (p[1] && is_true(*p[1]) && !is_true(value));
  return !missing ? value : p[0] ? *p[0] : Value::text(MarkedText());
}
inline Value filter_length(Interpreter& run, const Value& value, const Arguments& arguments) {
  const Parameters p("length", arguments, {});
  const auto length = length_of(value, run.meter());
  if (!length) fail_type("length got", value);
  return Value(static_cast<std::int64_t>(*length));
}
inline Value filter_attr(Interpreter& run, const Value& value, const Arguments& arguments) {
  const Parameters p("attr", arguments, {"name"}, 1);
  return run.attribute(value, p.text(0).bytes, false);
}

inline constexpr NamedFilter kValueFilters[] = {
    {"abs", filter_abs},
    {"attr", filter_attr},
    {"capitalize", filter_capitalize},
    {"center", filter_center},
    {"count", filter_length},
    {"d", filter_default},
    {"default", filter_default},
    {"e", filter_escape},
    {"escape", filter_escape},
    {"float", filter_float},
    {"format", filter_format},
    {"indent", filter_indent},
    {"int", filter_int},
    {"length", filter_length},
    {"lower", filter_case<LetterCase::lower>},
    {"replace", filter_replace},
    {"round", filter_round},
    {"safe", filter_safe},
    {"string", filter_string},
    {"title", filter_case<LetterCase::title>},
    {"tojson", filter_tojson},
    {"trim", filter_trim},
    {"truncate", filter_truncate},
    {"upper", filter_case<LetterCase::upper>},
};

}  // namespace tenon::chat::detail
