// Iteration, membership, indexing and slicing of values.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tenon/chat/comparison.h"
#include "tenon/chat/value.h"
#include "tenon/core/require.h"

namespace tenon::chat::detail {

// The characters of a text.
inline List characters_of(const MarkedText& text, Meter& meter) {
  List out;
  meter.charge_items(2 * text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = at + character_bytes(text.bytes, at);
    out.push_back(Value::text(text.part(at, end)));
    at = end;
  }
  return out;
}

// The keys, values, or pairs of a dict.
inline Value dict_view(const DictObject& dict, ListObject::Kind kind, Meter& meter, char by) {
  List items;
  for (const auto& [key, value] : dict.entries) {
    if (kind == ListObject::Kind::items)
      items.push_back(make_tuple({key, value}, meter));
    else
      items.push_back(kind == ListObject::Kind::keys ? key : value);
  }
  return make_list(std::move(items), meter, kind, by);
}

// The items that iterating over a value gives; those of an iterator are consumed.
inline List iterate(const Value& value, Meter& meter) {
  if (value.is_undefined()) return {};
  if (const MarkedText* const text = value.as_text()) return characters_of(*text, meter);
  if (const ListObject* const list = value.as_list()) {
    meter.charge_items(list->items.size());
    if (list->kind != ListObject::Kind::iterator) return list->items;
    List rest(list->items.begin() + static_cast<std::ptrdiff_t>(list->taken), list->items.end());
    list->taken = list->items.size();
    if (list->fault) throw *list->fault;
    return rest;
  }
  if (const DictObject* const dict = value.as_dict()) {
    meter.charge_items(dict->entries.size());
    List keys;
    for (const auto& [key, unused] : dict->entries) keys.push_back(key);
    return keys;
  }
  fail_type("cannot iterate over", value);
}

// len(); empty where the type has none.
inline std::optional<std::size_t> length_of(const Value& value, Meter& meter) {
  if (value.is_undefined()) return 0;
  if (const MarkedText* const text = value.as_text()) {
    meter.charge_text(text->size());
    return count_characters(text->bytes);
  }
  if (const DictObject* const dict = value.as_dict()) return dict->entries.size();
  const ListObject* const list = value.as_list();
  if (list && list->kind != ListObject::Kind::iterator) return list->items.size();
  return std::nullopt;
}

// `item in container`.
inline bool contains(const Value& container, const Value& item, Meter& meter) {
  if (const MarkedText* const text = container.as_text()) {
    const MarkedText* const part = item.as_text();
    if (!part) fail_type("\"in\" of a text got", item);
    meter.charge_text(text->size() + part->size());
    return find_text(text->bytes, part->bytes) != kNotFound;
  }
  if (const DictObject* const dict = container.as_dict()) {
    if (!is_hashable(item)) fail_type("a dict cannot have a key that is", item);
    return find(*dict, item, meter) != nullptr;
  }
  const ListObject* const list = container.as_list();
  if (list && list->kind == ListObject::Kind::keys && !is_hashable(item))
    fail_type("a dict cannot have a key that is", item);
  for (const Value& each : iterate(container, meter))
    if (are_equal(each, item, meter)) return true;
  return false;
}

// A slice, as Python clamps it.
struct SliceRange {
  std::int64_t start, stop, step;

  SliceRange(std::int64_t length, std::optional<std::int64_t> first, std::optional<std::int64_t> last, std::int64_t by)
      : step(by) {
    const std::int64_t low = by < 0 ? -1 : 0, high = by < 0 ? length - 1 : length;
    const auto clamp = [&](std::int64_t at) {
      if (at < 0) at = at < -length ? low : at + length;
      return std::min(std::max(at, low), high);
    };
    start = first ? clamp(*first) : by < 0 ? high : low;
    stop = last ? clamp(*last) : by < 0 ? low : high;
  }

  // Number of the items; the steps of the last may be beyond 64 bits, so it is computed in advance.
  std::int64_t count() const {
    if (step > 0) return start >= stop ? 0 : 1 + (stop - start - 1) / step;
    return start <= stop ? 0 : step == INT64_MIN ? 1 : 1 + (start - stop - 1) / -step;
  }
};

// value[range]; empty where the type has no slices.
inline std::optional<Value> slice_of(const Value& value, const SliceRange& range, Meter& meter) {
  const std::int64_t count = range.count();
  if (const MarkedText* const text = value.as_text()) {
    meter.charge_text(2 * text->size());
    if (count == 0) return Value::text(MarkedText());
    if (range.step == 1) {
      const std::size_t begin = offset_of_character(text->bytes, static_cast<std::size_t>(range.start));
      const std::size_t length =
          offset_of_character(std::string_view(text->bytes).substr(begin), static_cast<std::size_t>(count));
      return Value::text(text->part(begin, begin + length));
    }
    const auto offsets = character_offsets(text->bytes);
    MarkedText out;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::size_t at = offsets[static_cast<std::size_t>(range.start + i * range.step)];
      out.append(*text, at, at + character_bytes(text->bytes, at));
    }
    return Value::text(std::move(out));
  }
  const ListObject* const list = value.as_list();
  if (!list || list->kind > ListObject::Kind::range) return std::nullopt;
  if (list->kind == ListObject::Kind::range) refuse("a slice of a range (put \"| list\" after it)");
  List items;
  meter.charge_items(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i)
    items.push_back(list->items[static_cast<std::size_t>(range.start + i * range.step)]);
  return make_list(std::move(items), meter, list->kind, value.writer());
}

// value[index] of a text or list; empty where it is out of range or the type has no indices.
inline std::optional<Value> item_at(const Value& value, std::int64_t index, Meter& meter) {
  const MarkedText* const text = value.as_text();
  const ListObject* const list = value.as_list();
  if (!text && (!list || list->kind > ListObject::Kind::range)) return std::nullopt;
  if (text) meter.charge_text(text->size());
  const auto length = static_cast<std::int64_t>(*length_of(value, meter));
  if (index < 0) index += length;
  if (index < 0 || index >= length) return std::nullopt;
  const auto position = static_cast<std::size_t>(index);
  if (list) return list->items[position];
  const std::size_t at = offset_of_character(text->bytes, position);
  return Value::text(text->part(at, at + character_bytes(text->bytes, at)));
}

// Sorts by merging, since a comparison of NaN is no order. `less` may throw.
template <class T, class Less>
void merge_sort(std::vector<T>& items, const Less& less) {
  std::vector<T> other(items.size());
  for (std::size_t width = 1; width < items.size(); width *= 2) {
    for (std::size_t begin = 0; begin < items.size(); begin += 2 * width) {
      const std::size_t middle = std::min(begin + width, items.size()), end = std::min(begin + 2 * width, items.size());
      std::size_t a = begin, b = middle;
      for (std::size_t i = begin; i < end; ++i)
        other[i] = std::move(b == end || (a < middle && !less(items[b], items[a])) ? items[a++] : items[b++]);
    }
    items.swap(other);
  }
}

}  // namespace tenon::chat::detail
