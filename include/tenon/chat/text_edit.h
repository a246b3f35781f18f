// Texts that are cut, joined and replaced; each byte keeps its writer.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/chat/marked_text.h"
#include "tenon/chat/value.h"
#include "tenon/core/require.h"

namespace tenon::chat::detail {

inline void check_size(std::size_t bytes, const Meter& meter) {
  if (bytes > meter.limits().output_bytes)
    exceed("a text exceeds " + std::to_string(meter.limits().output_bytes) + " bytes");
}

// str.replace(); `most` < 0: all.
inline MarkedText replaced(const MarkedText& text, const MarkedText& from, const MarkedText& to, std::int64_t most,
                           Meter& meter) {
  MarkedText out;
  std::size_t done = 0;
  meter.charge_text(text.size() + from.size());
  const auto put = [&](std::size_t end) {
    out.append(text, done, end);
    done = end;
  };
  for (std::size_t at = 0; most != 0; --most) {
    const std::size_t found = from.empty() ? at : find_text(text.bytes, from.bytes, at);
    if (found == kNotFound || found > text.size()) break;
    put(found);
    out.append(to);
    meter.charge_text(to.size());
    check_size(out.size(), meter);
    done = found + from.size();
    at = from.empty() ? (found < text.size() ? found + character_bytes(text.bytes, found) : found + 1) : done;
  }
  put(text.size());
  return out;
}

// text * count.
inline MarkedText repeated(const MarkedText& text, std::int64_t count, Meter& meter) {
  MarkedText out;
  if (count <= 0 || text.empty()) return out;
  if (static_cast<std::uint64_t>(count) > meter.limits().output_bytes / text.size())
    check_size(meter.limits().output_bytes + 1, meter);
  meter.charge_text(text.size() * static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) out.append(text);
  return out;
}

// str.split() and str.rsplit() at white space.
inline List split_at_space(const MarkedText& text, std::int64_t most, bool from_right, Meter& meter) {
  List out;
  meter.charge_text(text.size());
  TextSpan rest = stripped_range(text.bytes, nullptr, true, true);
  const auto space = [&](std::size_t at) { return is_space(decode_utf8(text.bytes, at).value); };
  while (rest.begin < rest.end) {
    meter.charge_items(1);
    if (most-- == 0) {  // the text on the other side keeps its own white space
      out.push_back(Value::text(from_right ? text.part(0, rest.end) : text.part(rest.begin, text.size())));
      break;
    }
    std::size_t at = from_right ? rest.end : rest.begin;
    if (from_right) {
      while (at > rest.begin && !space(previous_character(text.bytes, at))) at = previous_character(text.bytes, at);
      out.push_back(Value::text(text.part(at, rest.end)));
      while (at > rest.begin && space(previous_character(text.bytes, at))) at = previous_character(text.bytes, at);
      rest.end = at;
    } else {
      while (at < rest.end && !space(at)) at += character_bytes(text.bytes, at);
      out.push_back(Value::text(text.part(rest.begin, at)));
      while (at < rest.end && space(at)) at += character_bytes(text.bytes, at);
      rest.begin = at;
    }
  }
  if (from_right) std::reverse(out.begin(), out.end());
  return out;
}

// The same at a separator.
inline List split_at(const MarkedText& text, const MarkedText& separator, std::int64_t most, bool from_right,
                     Meter& meter) {
  if (separator.empty()) fail("the separator is empty");
  meter.charge_text(2 * (text.size() + separator.size()));
  std::vector<std::size_t> cuts;
  if (!from_right) {
    for (std::size_t at = 0; most != 0 && (at = find_text(text.bytes, separator.bytes, at)) != kNotFound; --most) {
      cuts.push_back(at);
      at += separator.size();
    }
  } else {
    std::string_view rest = text.bytes;
    for (std::size_t at = 0; most != 0 && (at = find_last_text(rest, separator.bytes)) != kNotFound; --most) {
      cuts.push_back(at);
      meter.charge_text(separator.size() > 32 ? rest.size() : 0);
      rest = rest.substr(0, at);
    }
    std::reverse(cuts.begin(), cuts.end());
  }
  meter.charge_items(3 * cuts.size());
  List out;
  std::size_t begin = 0;
  for (const std::size_t cut : cuts) {
    out.push_back(Value::text(text.part(begin, cut)));
    begin = cut + separator.size();
  }
  out.push_back(Value::text(text.part(begin, text.size())));
  return out;
}

// str.splitlines().
inline List split_lines(const MarkedText& text, bool keeps_ends, Meter& meter) {
  List out;
  meter.charge_text(text.size());
  const auto ends_line = [](char32_t c) {
    return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
  };
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = begin;
    while (end < text.size() && !ends_line(decode_utf8(text.bytes, end).value)) end += character_bytes(text.bytes, end);
    std::size_t next = end;
    if (end < text.size()) {
      next = end + character_bytes(text.bytes, end);
      if (text.bytes[end] == '\r' && next < text.size() && text.bytes[next] == '\n') ++next;
    }
    meter.charge_items(3);
    out.push_back(Value::text(text.part(begin, keeps_ends ? next : end)));
    begin = next;
  }
  return out;
}

// str.center(), ljust() and rjust(): `side` is '^', '<' or '>'.
inline MarkedText justified(const MarkedText& text, std::int64_t width, const MarkedText& fill, char side,
                            Meter& meter) {
  if (count_characters(fill.bytes) != 1) fail("the fill must be one character");
  const auto length = static_cast<std::int64_t>(count_characters(text.bytes));
  meter.charge_text(text.size());
  if (width <= length) return text;
  const std::int64_t space = width - length;
  const std::int64_t left = side == '<' ? 0 : side == '>' ? space : space / 2 + (space & width & 1);
  MarkedText out = repeated(fill, left, meter);
  out.append(text);
  out.append(repeated(fill, space - left, meter));
  return out;
}

// separator.join(texts).
inline MarkedText joined(const std::vector<MarkedText>& texts, const MarkedText& separator, Meter& meter) {
  MarkedText out;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (i > 0) out.append(separator);
    out.append(texts[i]);
    meter.charge_text(texts[i].size() + separator.size());
    check_size(out.size(), meter);
  }
  return out;
}

// The filter indent.
inline MarkedText indented(const MarkedText& text, const MarkedText& indent, bool first, bool blank, Meter& meter) {
  MarkedText whole = text, out;
  whole.append("\n", kByTemplate);
  const List lines = split_lines(whole, false, meter);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const MarkedText& line = *lines[i].as_text();
    if (i > 0) out.append("\n", kByTemplate);
    if (i == 0 ? first : blank || !line.empty()) out.append(indent);
    out.append(line);
    meter.charge_text(indent.size() + line.size());
    check_size(out.size(), meter);
  }
  return out;
}

// Text for HTML, as the filter escape writes it.
inline MarkedText escaped(const MarkedText& text, Meter& meter) {
  MarkedText out;
  meter.charge_text(6 * text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::size_t which = std::string_view("&<>\"'").find(text.bytes[i]);
    constexpr std::string_view entities[] = {"&amp;", "&lt;", "&gt;", "&#34;", "&#39;"};
    if (which == kNotFound)
      out.append(text, i, i + 1);
    else
      out.append(entities[which], text.marks[i]);
  }
  return out;
}

}  // namespace tenon::chat::detail
