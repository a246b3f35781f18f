// Methods of texts, dicts and lists.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/chat/formatting.h"
#include "tenon/chat/sequences.h"
#include "tenon/chat/text_edit.h"
#include "tenon/chat/unicode_case.h"
#include "tenon/chat/value.h"
#include "tenon/chat/value_text.h"
#include "tenon/core/require.h"

namespace tenon::chat::detail {

// Python's public attributes of a type that the sandbox of jinja2 allows; empty for other types. Attributes that change
// the object are left out, as there.
inline std::string_view attributes_of(const Value& value) {
  if (value.as_text())
    return " capitalize casefold center count encode endswith expandtabs find format format_map index isalnum isalpha "
           "isascii "
           "isdecimal isdigit isidentifier islower isnumeric isprintable isspace istitle isupper join ljust lower "
           "lstrip "
           "maketrans partition removeprefix removesuffix replace rfind rindex rjust rpartition rsplit rstrip split "
           "splitlines startswith strip swapcase title translate upper zfill ";
  if (value.as_dict()) return " copy fromkeys get items keys values ";
  if (const ListObject* const list = value.as_list()) {
    using Kind = ListObject::Kind;
    if (list->kind == Kind::list) return " copy count index ";
    if (list->kind == Kind::tuple) return " count index ";
    if (list->kind == Kind::range) return " count index start step stop ";
    return list->kind == Kind::iterator ? " close send throw " : " isdisjoint mapping ";
  }
  if (value.as<bool>() || value.as<std::int64_t>())
    return " as_integer_ratio bit_count bit_length conjugate denominator from_bytes imag numerator real to_bytes ";
  if (value.as<double>()) return " as_integer_ratio conjugate fromhex hex imag is_integer real ";
  if (value.as<MacroObject>()) return " arguments caller catch_kwargs catch_varargs explicit_caller name ";
  return {};
}

inline bool has_method(const Value& value, std::string_view name) {
  return attributes_of(value).find(" " + std::string(name) + " ") != kNotFound;
}

// `char` has no sign on Arm.
inline bool is_ascii_byte(char byte) { return static_cast<unsigned char>(byte) < 0x80; }

// Methods of one text.
class TextMethods {
 public:
  TextMethods(const MarkedText& self, std::string_view name, const Arguments& arguments, Meter& meter)
      : self_(self), name_(name), arguments_(arguments), meter_(meter) {}

  Value call() {
    meter_.charge_text(self_.size());
    for (const auto method : {&TextMethods::edit, &TextMethods::cut, &TextMethods::search, &TextMethods::test})
      if (auto result = (this->*method)()) return *std::move(result);
    refuse("the method " + std::string(name_) + " of a text");
  }

 private:
  bool is(std::string_view name) const { return name_ == name; }
  Parameters parameters(std::initializer_list<std::string_view> names, std::size_t required = 0) const {
    return Parameters(name_, arguments_, names, required);
  }
  static const MarkedText* text_or_null(const Parameters& p, std::size_t i) {
    return p[i] && !p[i]->is_none() ? &p.text(i) : nullptr;
  }

  std::optional<Value> edit() {
    if (is("upper") || is("lower"))
      return parameters({}), Value::text(with_case(self_, is("upper") ? LetterCase::upper : LetterCase::lower));
    if (is("title")) return parameters({}), Value::text(python_title(self_));
    if (is("capitalize")) return parameters({}), Value::text(capitalized(self_));
    if (is("replace")) {
      const Parameters p = parameters({"old", "new", "count"}, 2);
      return Value::text(replaced(self_, p.text(0), p.text(1), p.integer(2, -1), meter_));
    }
    if (is("join")) {
      const Parameters p = parameters({"iterable"}, 1);
      std::vector<MarkedText> texts;
      for (const Value& item : iterate(*p[0], meter_)) {
        if (!item.as_text()) fail_type("join got", item);
        texts.push_back(*item.as_text());
      }
      return Value::text(joined(texts, self_, meter_));
    }
    if (is("center") || is("ljust") || is("rjust")) {
      const Parameters p = parameters({"width", "fillchar"}, 1);
      const MarkedText space(" ", kByTemplate);
      return Value::text(justified(self_, p.integer(0, 0), p[1] ? p.text(1) : space,
                                   is("center")  ? '^'
                                   : is("ljust") ? '<'
                                                 : '>',
                                   meter_));
    }
    if (is("zfill")) return fill_with_zeros(parameters({"width"}, 1).integer(0, 0));
    if (is("format")) return Value::text(format_braces(self_, arguments_, meter_));
    return std::nullopt;
  }

  Value fill_with_zeros(std::int64_t width) {
    const std::size_t sign = !self_.empty() && (self_.bytes[0] == '-' || self_.bytes[0] == '+') ? 1 : 0;
    MarkedText out = self_.part(0, sign);
    out.append(repeated({"0", kByTemplate}, width - static_cast<std::int64_t>(count_characters(self_.bytes)), meter_));
    out.append(self_, sign, self_.size());
    return Value::text(std::move(out));
  }

  std::optional<Value> cut() {
    if (is("strip") || is("lstrip") || is("rstrip")) {
      const Parameters p = parameters({"chars"});
      const MarkedText* const chars = text_or_null(p, 0);
      const std::string_view set = chars ? chars->bytes : std::string_view();
      if (chars) meter_.charge_text(std::min<std::size_t>(self_.size(), 64) * set.size());
      const TextSpan span = stripped_range(self_.bytes, chars ? &set : nullptr, !is("rstrip"), !is("lstrip"));
      if (chars) meter_.charge((self_.size() - (span.end - span.begin)) * set.size() / 8);
      return Value::text(self_.part(span.begin, span.end));
    }
    if (is("split") || is("rsplit")) {
      const Parameters p = parameters({"sep", "maxsplit"});
      const MarkedText* const separator = text_or_null(p, 0);
      const std::int64_t most = p.integer(1, -1);
      return make_list(separator ? split_at(self_, *separator, most, is("rsplit"), meter_)
                                 : split_at_space(self_, most, is("rsplit"), meter_),
                       meter_);
    }
    if (is("splitlines")) {
      const Parameters p = parameters({"keepends"});
      return make_list(split_lines(self_, p[0] && is_true(*p[0]), meter_), meter_);
    }
    if (is("partition") || is("rpartition")) return partition(parameters({"sep"}, 1).text(0));
    if (is("removeprefix") || is("removesuffix")) {
      const Parameters p = parameters({"part"}, 1);
      const std::string& part = p.text(0).bytes;
      if (is("removeprefix"))
        return Value::text(self_.part(self_.bytes.starts_with(part) ? part.size() : 0, self_.size()));
      const bool ends = self_.bytes.ends_with(part);
      return Value::text(self_.part(0, self_.size() - (ends ? part.size() : 0)));
    }
    return std::nullopt;
  }

  Value partition(const MarkedText& separator) {
    if (separator.empty()) fail("the separator is empty");
    const bool right = is("rpartition");
    const std::size_t at =
        right ? find_last_text(self_.bytes, separator.bytes) : find_text(self_.bytes, separator.bytes);
    const Value nothing = Value::text(MarkedText()), all = Value::text(self_);
    if (at == kNotFound) return make_tuple(right ? List{nothing, nothing, all} : List{all, nothing, nothing}, meter_);
    return make_tuple({Value::text(self_.part(0, at)), Value::text(separator),
                       Value::text(self_.part(at + separator.size(), self_.size()))},
                      meter_);
  }

  std::optional<Value> search() {
    if (is("startswith") || is("endswith")) {
      const Parameters p = parameters({"part", "start", "end"}, 1);
      if (p[1] || p[2]) refuse("a range of " + std::string(name_));
      const auto fits = [&](const Value& part) {
        if (!part.as_text()) fail_type(std::string(name_) + " got", part);
        return is("startswith") ? self_.bytes.starts_with(part.as_text()->bytes)
                                : self_.bytes.ends_with(part.as_text()->bytes);
      };
      const ListObject* const parts = p[0]->as_list(ListObject::Kind::tuple);
      if (!parts) return Value(fits(*p[0]));
      return Value(std::any_of(parts->items.begin(), parts->items.end(), fits));
    }
    if (is("find") || is("rfind") || is("index") || is("rindex")) return find_part();
    if (is("count")) {
      const Parameters p = parameters({"part", "start", "end"}, 1);
      if (p[1] || p[2]) refuse("a range of count");
      const MarkedText& part = p.text(0);
      if (part.empty()) return Value(static_cast<std::int64_t>(count_characters(self_.bytes) + 1));
      return Value(static_cast<std::int64_t>(split_at(self_, part, -1, false, meter_).size() - 1));
    }
    return std::nullopt;
  }

  Value find_part() {
    const Parameters p = parameters({"part", "start", "end"}, 1);
    const MarkedText& part = p.text(0);
    const bool last = name_.starts_with('r');
    if (p[2] || (last && p[1])) refuse("a range of " + std::string(name_));
    const auto length = static_cast<std::int64_t>(count_characters(self_.bytes));
    std::int64_t start = p.integer(1, 0);
    if (start < 0) start = std::max<std::int64_t>(start < -length ? 0 : start + length, 0);
    meter_.charge_text(part.size());
    std::size_t at = kNotFound;
    if (last)
      at = find_last_text(self_.bytes, part.bytes);
    else if (start <= length)
      at = find_text(self_.bytes, part.bytes, offset_of_character(self_.bytes, static_cast<std::size_t>(start)));
    if (at != kNotFound)
      return Value(static_cast<std::int64_t>(count_characters(std::string_view(self_.bytes).substr(0, at))));
    if (name_.ends_with("index")) fail("the text does not contain the part");
    return Value(std::int64_t{-1});
  }

  // isspace() and so on: all characters are of the class, and there is one.
  template <class Is>
  Value all(Is is_one) {
    for (std::size_t at = 0; at < self_.size(); at += character_bytes(self_.bytes, at))
      if (!is_one(decode_utf8(self_.bytes, at).value)) return Value(false);
    return Value(!self_.empty());
  }

  std::optional<Value> test() {
    const auto category = [](char32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); };
    if (is("isspace")) return parameters({}), all(is_space);
    if (is("isalpha")) return parameters({}), all([](char32_t c) { return char_class(c) == CharClass::letter; });
    if (is("isdecimal")) return parameters({}), all([&](char32_t c) { return category(c) == UTF8PROC_CATEGORY_ND; });
    if (is("isascii")) return Value(std::all_of(self_.bytes.begin(), self_.bytes.end(), is_ascii_byte));
    if (is("islower") || is("isupper")) {
      bool found = false, other = false;
      for (std::size_t at = 0; at < self_.size(); at += character_bytes(self_.bytes, at)) {
        const char32_t c = decode_utf8(self_.bytes, at).value;
        const bool fits = is("islower") ? is_lower(c) : is_upper(c);
        found = found || fits;
        other = other || (!fits && is_cased(c));
      }
      return Value(found && !other);
    }
    if (is("isdigit") || is("isalnum")) {
      for (const char byte : self_.bytes)
        if (!is_ascii_byte(byte)) refuse("the method " + std::string(name_) + " beyond ASCII");
      const bool digits = is("isdigit");
      return all([&](char32_t c) { return (c >= '0' && c <= '9') || (!digits && char_class(c) == CharClass::letter); });
    }
    return std::nullopt;
  }

  const MarkedText& self_;
  std::string_view name_;
  const Arguments& arguments_;
  Meter& meter_;
};

// A method of a dict or a list.
inline Value call_container_method(const Value& self, std::string_view name, const Arguments& arguments, Meter& meter) {
  if (const DictObject* const dict = self.as_dict()) {
    if (name == "get") {
      const Parameters p("get", arguments, {"key", "default"}, 1);
      if (!is_hashable(*p[0])) fail_type("a dict cannot have a key that is", *p[0]);
      const Value* const found = find(*dict, *p[0], meter);
      return found ? *found : p[1] ? *p[1] : Value::none();
    }
    const Parameters none(name, arguments, {});
    if (name == "copy") return self;
    if (name == "keys") return dict_view(*dict, ListObject::Kind::keys, meter, self.writer());
    if (name == "values") return dict_view(*dict, ListObject::Kind::values, meter, self.writer());
    if (name == "items") return dict_view(*dict, ListObject::Kind::items, meter, self.writer());
  }
  const ListObject* const list = self.as_list();
  if (list && list->kind <= ListObject::Kind::range) {
    if (name == "copy") return Parameters(name, arguments, {}), self;
    if (name == "count" || name == "index") {
      const Parameters p(name, arguments, {"value"}, 1);
      std::int64_t count = 0;
      for (std::size_t i = 0; i < list->items.size(); ++i) {
        if (!are_equal(list->items[i], *p[0], meter)) continue;
        if (name == "index") return Value(static_cast<std::int64_t>(i));
        ++count;
      }
      if (name == "index") fail("the list does not contain the value");
      return Value(count);
    }
  }
  refuse("the attribute " + std::string(name) + " of a value of type " + std::string(type_name(self)));
}

}  // namespace tenon::chat::detail
