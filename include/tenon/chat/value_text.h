// Values as texts: str(), repr() and json.dumps() of Python.
#pragma once
#include <utf8proc.h>

#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

#include "tenon/chat/comparison.h"
#include "tenon/chat/value.h"
#include "tenon/core/require.h"
#include "tenon/io/hex.h"

namespace tenon::chat::detail {

// repr() of a float: the shortest decimal that reads back as the same number.
inline std::string float_text(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto scientific = std::to_chars(buffer, buffer + sizeof buffer, number, std::chars_format::scientific);
  const std::string_view all(buffer, static_cast<std::size_t>(scientific.ptr - buffer));
  const std::size_t e = all.find('e');
  int exponent = 0;
  const std::size_t sign = all[e + 1] == '+' ? 2 : 1;
  std::from_chars(all.data() + e + sign, all.data() + all.size(), exponent);
  std::string digits(all.substr(0, e));
  const bool negative = digits[0] == '-';
  if (negative) digits.erase(0, 1);
  std::erase(digits, '.');
  const int count = static_cast<int>(digits.size());
  std::string out = negative ? "-" : "";
  if (exponent < -4 || exponent >= 16) {
    out += digits[0];
    if (count > 1) out += "." + digits.substr(1);
    const std::string size = std::to_string(std::abs(exponent));
    return out + (exponent < 0 ? "e-" : "e+") + (size.size() < 2 ? "0" : "") + size;
  }
  if (exponent < 0) return out + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  if (count <= exponent + 1)
    return out + digits + std::string(static_cast<std::size_t>(exponent + 1 - count), '0') + ".0";
  return out + digits.substr(0, static_cast<std::size_t>(exponent + 1)) + "." +
         digits.substr(static_cast<std::size_t>(exponent + 1));
}

// str.isprintable() of Python.
inline bool is_printable(char32_t c) {
  if (c == ' ') return true;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
      return false;
    default:
      return true;
  }
}

// repr() of a text.
inline void append_repr(MarkedText& out, const MarkedText& text) {
  const bool doubles = text.bytes.find('\'') != kNotFound && text.bytes.find('"') == kNotFound;
  const std::string quote(1, doubles ? '"' : '\'');
  const char by = text.writer();
  out.append(quote, by);
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = decode_utf8(text.bytes, at);
    const auto length = static_cast<std::size_t>(point.length);
    const char32_t c = point.value;
    std::string escape;
    if (c == '\\' || c == static_cast<char32_t>(quote[0]))
      escape = std::string("\\") + static_cast<char>(c);
    else if (c == '\n' || c == '\r' || c == '\t')
      escape = c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
    else if (!is_printable(c))
      escape = c < 0x100 ? "\\x" + hex_of(c, 2) : c < 0x10000 ? "\\u" + hex_of(c, 4) : "\\U" + hex_of(c, 8);
    if (escape.empty())
      out.append(text, at, at + length);
    else
      out.append(escape, text.marks[at]);
    at += length;
  }
  out.append(quote, by);
}

// Writes str() and repr() of values.
class ValueWriter {
 public:
  explicit ValueWriter(Meter& meter) : meter_(meter) {}

  // str().
  MarkedText text(const Value& value) {
    if (const MarkedText* const text = value.as_text()) {
      meter_.charge_text(text->size());
      return *text;
    }
    if (value.is_undefined()) return {};
    return repr(value);
  }
  MarkedText repr(const Value& value) {
    write(value);
    return std::move(out_);
  }

 private:
  void add(std::string_view text, char by) {
    meter_.charge_text(text.size());
    out_.append(text, by);
    if (out_.size() > meter_.limits().output_bytes)
      exceed("a text exceeds " + std::to_string(meter_.limits().output_bytes) + " bytes");
  }

  void write(const Value& value) {
    const char by = value.writer();
    if (value.is_undefined()) return add("Undefined", by);
    if (value.is_none()) return add("None", by);
    if (const auto* truth = value.as<bool>()) return add(*truth ? "True" : "False", by);
    if (const auto* number = value.as<std::int64_t>()) return add(std::to_string(*number), by);
    if (const auto* number = value.as<double>()) return add(float_text(*number), by);
    if (const MarkedText* const text = value.as_text()) {
      if (value.is_safe()) refuse("the repr of a text that is marked safe");
      meter_.charge_text(text->size());
      append_repr(out_, *text);
      return add("", by);
    }
    if (const ListObject* const list = value.as_list()) return write(*list, by);
    if (const DictObject* const dict = value.as_dict()) return write(*dict, by);
    if (const auto* space = value.as<std::shared_ptr<NamespaceObject>>()) {
      const Meter::Level level(meter_);
      add("<Namespace ", by);
      write((*space)->attributes, by);
      return add(">", by);
    }
    refuse("the text of a value of type " + std::string(type_name(value)));
  }

  void write(const ListObject& list, char by) {
    using Kind = ListObject::Kind;
    const Meter::Level level(meter_);
    if (list.kind == Kind::iterator) refuse("the text of an iterator (put \"| list\" after it)");
    if (list.kind == Kind::range) {
      add("range(" + std::to_string(list.start) + ", " + std::to_string(list.stop), by);
      return add(list.stride == 1 ? ")" : ", " + std::to_string(list.stride) + ")", by);
    }
    const bool view = list.kind >= Kind::keys;
    if (view)
      add(list.kind == Kind::keys ? "dict_keys(" : list.kind == Kind::values ? "dict_values(" : "dict_items(", by);
    add(list.kind == Kind::tuple ? "(" : "[", by);
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) add(", ", by);
      write(list.items[i]);
    }
    add(list.kind == Kind::tuple ? list.items.size() == 1 ? ",)" : ")" : "]", by);
    if (view) add(")", by);
  }

  void write(const DictObject& dict, char by) {
    const Meter::Level level(meter_);
    add("{", by);
    for (std::size_t i = 0; i < dict.entries.size(); ++i) {
      if (i > 0) add(", ", by);
      write(dict.entries[i].first);
      add(": ", by);
      write(dict.entries[i].second);
    }
    add("}", by);
  }

  Meter& meter_;
  MarkedText out_;
};

inline MarkedText to_text(const Value& value, Meter& meter) { return ValueWriter(meter).text(value); }

// Writes JSON as json.dumps does.
class JsonWriter {
 public:
  bool ensure_ascii = false, sort_keys = false;
  std::optional<MarkedText> indent;  // of one level
  MarkedText item_separator{", ", kByTemplate}, key_separator{": ", kByTemplate};

  explicit JsonWriter(Meter& meter) : meter_(meter) {}

  MarkedText write(const Value& value) {
    add(value, 0);
    return std::move(out_);
  }

 private:
  void put(std::string_view text, char by) {
    meter_.charge_text(text.size());
    out_.append(text, by);
    if (out_.size() > meter_.limits().output_bytes)
      exceed("a text exceeds " + std::to_string(meter_.limits().output_bytes) + " bytes");
  }
  void put(const MarkedText& text) {
    meter_.charge_text(text.size());
    out_.append(text);
  }

  static std::string number_text(double number) {
    if (std::isnan(number)) return "NaN";
    if (std::isinf(number)) return number < 0 ? "-Infinity" : "Infinity";
    return float_text(number);
  }

  // null, true, false and numbers; empty for other values.
  static std::string scalar(const Value& value) {
    if (value.is_none()) return "null";
    if (const auto* truth = value.as<bool>()) return *truth ? "true" : "false";
    if (const auto* number = value.as<std::int64_t>()) return std::to_string(*number);
    if (const auto* number = value.as<double>()) return number_text(*number);
    return {};
  }

  void add(const Value& value, std::size_t level) {
    const Meter::Level nested(meter_);
    if (const std::string text = scalar(value); !text.empty()) return put(text, value.writer());
    if (const MarkedText* const text = value.as_text()) return add_text(*text);
    const ListObject* const list = value.as_list();
    if (list && list->kind <= ListObject::Kind::tuple) return add(*list, value.writer(), level);
    if (const DictObject* const dict = value.as_dict()) return add(*dict, value.writer(), level);
    fail("JSON cannot hold a value of type " + std::string(type_name(value)));
  }

  void new_line(std::size_t level, char by) {
    if (!indent) return;
    put("\n", by);
    for (std::size_t i = 0; i < level; ++i) put(*indent);
  }

  void separate(char by) {
    if (by == kByTemplate) return put(item_separator);
    put(item_separator.bytes, by);
  }

  void add(const ListObject& list, char by, std::size_t level) {
    if (list.items.empty()) return put("[]", by);
    put("[", by);
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) separate(by);
      new_line(level + 1, by);
      add(list.items[i], level + 1);
    }
    new_line(level, by);
    put("]", by);
  }

  void add(const DictObject& dict, char by, std::size_t level);

  void add_key(const Value& key) {
    if (const MarkedText* const text = key.as_text()) return add_text(*text);
    const std::string text = scalar(key);
    if (text.empty()) fail("JSON cannot hold a key of type " + std::string(type_name(key)));
    put('"' + text + '"', key.writer());
  }

  void escape(char32_t c, char by) {
    if (c < 0x10000) return put("\\u" + hex_of(c, 4), by);
    put("\\u" + hex_of(0xD800 + ((c - 0x10000) >> 10), 4) + "\\u" + hex_of(0xDC00 + ((c - 0x10000) & 0x3FF), 4), by);
  }

  void add_text(const MarkedText& text) {
    meter_.charge_text(text.size());
    out_.append("\"", text.writer());
    for (std::size_t at = 0; at < text.size();) {
      const CodePoint point = decode_utf8(text.bytes, at);
      const auto length = static_cast<std::size_t>(point.length);
      const char32_t c = point.value;
      constexpr std::string_view controls = "\b\t\n\f\r", letters = "btnfr";
      const std::size_t control = c < 0x20 ? controls.find(static_cast<char>(c)) : kNotFound;
      if (control != kNotFound)
        out_.append(std::string("\\") + letters[control], text.marks[at]);
      else if (c == '"' || c == '\\')
        out_.append(std::string("\\") + static_cast<char>(c), text.marks[at]);
      else if (c < 0x20 || (ensure_ascii && c > 0x7E))
        escape(c, text.marks[at]);
      else
        out_.append(text, at, at + length);
      at += length;
    }
    put("\"", text.writer());
  }

  Meter& meter_;
  MarkedText out_;
};

inline void JsonWriter::add(const DictObject& dict, char by, std::size_t level) {
  if (dict.entries.empty()) return put("{}", by);
  std::vector<std::size_t> order(dict.entries.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  if (sort_keys) {
    for (const auto& [key, value] : dict.entries)
      is_less(dict.entries.front().first, key, meter_);  // refuses mixed types
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return is_less(dict.entries[a].first, dict.entries[b].first, meter_);
    });
  }
  put("{", by);
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i > 0) separate(by);
    new_line(level + 1, by);
    add_key(dict.entries[order[i]].first);
    if (by == kByTemplate)
      put(key_separator);
    else
      put(key_separator.bytes, by);
    add(dict.entries[order[i]].second, level + 1);
  }
  new_line(level, by);
  put("}", by);
}

}  // namespace tenon::chat::detail
