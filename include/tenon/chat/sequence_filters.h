// Filters of lists and dicts.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/chat/filters.h"
#include "tenon/chat/operators.h"
#include "tenon/chat/sequences.h"
#include "tenon/core/require.h"

namespace tenon::chat::detail {

// The attribute of a value by a path: names and indices with points between them. A null or None path is the value.
inline Value attribute_path(Interpreter& run, Value value, const Value* path, const Value* otherwise = nullptr) {
  if (!path || path->is_none()) return value;
  const auto step = [&](const Value& key) {
    value = run.item(value, key);
    if (otherwise && !otherwise->is_none() && value.is_undefined()) value = *otherwise;
  };
  const MarkedText* const text = path->as_text();
  if (!text) return step(*path), value;
  for (std::size_t begin = 0; begin <= text->size();) {
    const std::size_t end = std::min(text->bytes.find('.', begin), text->size());
    const std::string_view part = std::string_view(text->bytes).substr(begin, end - begin);
    const bool digits = !part.empty() && part.find_first_not_of("0123456789") == kNotFound;
    const auto number = digits ? parse_integer(part) : std::nullopt;
    step(number ? Value(*number) : Value::text(std::string(part), kByTemplate));
    begin = end + 1;
  }
  return value;
}

// The value by which filters compare: a text in lower case, unless case matters.
inline Value comparison_key(Interpreter& run, const Value& value, bool case_sensitive) {
  const MarkedText* const text = value.as_text();
  if (case_sensitive || !text) return value;
  run.meter().charge_text(text->size());
  return Value::text(with_case(*text, LetterCase::lower));
}

// An iterator over what `produce` adds to a list. jinja2 evaluates these filters when they are read, so an error waits
// until then.
template <class Produce>
Value lazily(Interpreter& run, const Produce& produce) {
  ListObject out{.kind = ListObject::Kind::iterator};
  try {
    produce(out.items);
  } catch (RenderFault& fault) {
    if (fault.kind != Error::Kind::invalid_request) throw;
    out.fault = std::move(fault);
  }
  run.meter().charge_items(out.items.size());
  for (const Value& item : out.items) out.depth = std::max(out.depth, 1 + depth_of(item));
  check_depth(out.depth, run.meter());
  return Value(std::shared_ptr<const ListObject>(std::make_shared<ListObject>(std::move(out))));
}

inline Value filter_map(Interpreter& run, const Value& value, const Arguments& arguments) {
  return lazily(run, [&](List& out) {
    if (!is_true(value)) return;
    if (arguments.positional.empty()) {
      const Parameters p("map", {{}, arguments.named}, {"attribute", "default"});
      if (!p[0]) fail("map needs a filter or an attribute");
      for (const Value& item : iterate(value, run.meter())) out.push_back(attribute_path(run, item, p[0], p[1]));
      return;
    }
    const MarkedText* const name = arguments.positional[0].as_text();
    if (!name) fail_type("map needs the name of a filter, not", arguments.positional[0]);
    const Arguments rest{List(arguments.positional.begin() + 1, arguments.positional.end()), arguments.named};
    for (const Value& item : iterate(value, run.meter())) out.push_back(run.call_filter(name->bytes, item, rest));
  });
}

// select, reject, selectattr and rejectattr.
template <bool by_attribute, bool keeps>
Value filter_select(Interpreter& run, const Value& value, const Arguments& arguments) {
  return lazily(run, [&](List& out) {
    if (!is_true(value)) return;
    const std::size_t first = by_attribute ? 1 : 0;
    const List& given = arguments.positional;
    if (given.size() < first) fail("the name of an attribute is missing");
    const MarkedText* const test = given.size() > first ? given[first].as_text() : nullptr;
    if (given.size() > first && !test) fail_type("the name of a test is needed, not", given[first]);
    Arguments rest;
    if (test) rest = {List(given.begin() + static_cast<std::ptrdiff_t>(first) + 1, given.end()), arguments.named};
    for (const Value& item : iterate(value, run.meter())) {
      const Value subject = by_attribute ? attribute_path(run, item, &given[0]) : item;
      if ((test ? run.call_test(test->bytes, subject, rest) : is_true(subject)) == keeps) out.push_back(item);
    }
  });
}

inline Value filter_join(Interpreter& run, const Value& value, const Arguments& arguments) {
  const Parameters p("join", arguments, {"d", "attribute"});
  std::vector<MarkedText> texts;
  for (const Value& item : iterate(value, run.meter()))
    texts.push_back(to_text(attribute_path(run, item, p[1]), run.meter()));
  return Value::text(joined(texts, p[0] ? to_text(*p[0], run.meter()) : MarkedText(), run.meter()));
}

inline Value filter_first(Interpreter& run, const Value& value, const Arguments& arguments) {
  const Parameters p("first", arguments, {});
  if (const ListObject* const list = value.as_list(ListObject::Kind::iterator)) {
    if (list->taken < list->items.size()) return list->items[list->taken++];
    if (list->fault) throw *list->fault;
    return Value::undefined("the first item of an empty list");
  }
  const List items = iterate(value, run.meter());
  return items.empty() ? Value::undefined("the first item of an empty list") : items.front();
}
inline Value filter_last(Interpreter& run, const Value& value, const Arguments& arguments) {
  const Parameters p("last", arguments, {});
  if (value.as_list(ListObject::Kind::iterator)) fail("last got an iterator");
  const List items = iterate(value, run.meter());
  return items.empty() ? Value::undefined("the last item of an empty list") : items.back();
}
inline Value filter_list(Interpreter& run, const Value& value, const Arguments& arguments) {
  const Parameters p("list", arguments, {});
  return make_list(iterate(value, run.meter()), run.meter());
}
inline Value filter_items(Interpreter& run, const Value& value, const Arguments& arguments) {
  const Parameters p("items", arguments, {});
  return lazily(run, [&](List& out) {
    if (value.is_undefined()) return;
    if (!value.as_dict()) fail_type("items got", value);
    out = dict_view(*value.as_dict(), ListObject::Kind::items, run.meter(), value.writer()).as_list()->items;
  });
}
inline Value filter_reverse(Interpreter& run, const Value& value, const Arguments& arguments) {
  const Parameters p("reverse", arguments, {});
  if (value.as_text()) {
    const auto length = static_cast<std::int64_t>(*length_of(value, run.meter()));
    return *slice_of(value, SliceRange(length, {}, {}, -1), run.meter());
  }
  List items = iterate(value, run.meter());
  std::reverse(items.begin(), items.end());
  return value.as_list(ListObject::Kind::iterator) ? make_list(std::move(items), run.meter())
                                                   : make_iterator(std::move(items), run.meter());
}

// Sorts by keys; equal items keep their order, also with `reverse`.
inline List sorted(Interpreter& run, List items, const std::vector<List>& keys, bool reverse) {
  std::vector<std::size_t> order(items.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  merge_sort(order, [&](std::size_t a, std::size_t b) {
    if (reverse) std::swap(a, b);
    for (std::size_t i = 0; i < keys[a].size(); ++i)
      if (!are_equal(keys[a][i], keys[b][i], run.meter())) return is_less(keys[a][i], keys[b][i], run.meter());
    return false;
  });
  List out;
  for (const std::size_t i : order) out.push_back(items[i]);
  return out;
}

inline Value filter_sort(Interpreter& run, const Value& value, const Arguments& arguments) {
  const Parameters p("sort", arguments, {"reverse", "case_sensitive", "attribute"});
  List paths{p[2] ? *p[2] : Value::none()};
  if (p[2] && p[2]->as_text()) paths = split_at(*p[2]->as_text(), {",", kByTemplate}, -1, false, run.meter());
  List items = iterate(value, run.meter());
  std::vector<List> keys;
  for (const Value& item : items) {
    run.meter().charge_items(paths.size());
    List& key = keys.emplace_back();
    for (const Value& path : paths)
      key.push_back(comparison_key(run, attribute_path(run, item, &path), p[1] && is_true(*p[1])));
  }
  return make_list(sorted(run, std::move(items), keys, p[0] && is_true(*p[0])), run.meter());
}
inline Value filter_dictsort(Interpreter& run, const Value& value, const Arguments& arguments) {
  const Parameters p("dictsort", arguments, {"case_sensitive", "by", "reverse"});
  if (!value.as_dict()) fail_type("dictsort got", value);
  const std::string by = p[1] ? p.text(1).bytes : "key";
  if (by != "key" && by != "value") fail("dictsort sorts by \"key\" or \"value\"");
  List pairs = dict_view(*value.as_dict(), ListObject::Kind::items, run.meter(), value.writer()).as_list()->items;
  std::vector<List> keys;
  for (const auto& [key, item] : value.as_dict()->entries)
    keys.push_back({comparison_key(run, by == "key" ? key : item, p[0] && is_true(*p[0]))});
  return make_list(sorted(run, std::move(pairs), keys, p[2] && is_true(*p[2])), run.meter());
}

inline Value filter_unique(Interpreter& run, const Value& value, const Arguments& arguments) {
  return lazily(run, [&](List& out) {
    const Parameters p("unique", arguments, {"case_sensitive", "attribute"});
    DictObject seen;
    for (const Value& item : iterate(value, run.meter())) {
      const Value key = comparison_key(run, attribute_path(run, item, p[1]), p[0] && is_true(*p[0]));
      if (!is_hashable(key)) fail_type("unique cannot compare", key);
      if (find(seen, key, run.meter())) continue;
      seen.entries.emplace_back(key, Value::none());
      out.push_back(item);
    }
  });
}

// min and max.
template <bool largest>
Value filter_extreme(Interpreter& run, const Value& value, const Arguments& arguments) {
  const Parameters p("the filter", arguments, {"case_sensitive", "attribute"});
  const List items = iterate(value, run.meter());
  if (items.empty()) return Value::undefined("the extreme item of an empty list");
  const auto key = [&](const Value& item) {
    return comparison_key(run, attribute_path(run, item, p[1]), p[0] && is_true(*p[0]));
  };
  std::size_t best = 0;
  Value best_key = key(items[0]);
  for (std::size_t i = 1; i < items.size(); ++i) {
    Value other = key(items[i]);
    if (!(largest ? is_less(best_key, other, run.meter(), ">") : is_less(other, best_key, run.meter()))) continue;
    best = i;
    best_key = std::move(other);
  }
  return items[best];
}

inline Value filter_sum(Interpreter& run, const Value& value, const Arguments& arguments) {
  const Parameters p("sum", arguments, {"attribute", "start"});
  Value total = p[1] ? *p[1] : Value(std::int64_t{0});
  if (total.as_text()) fail("sum got a text");
  for (const Value& item : iterate(value, run.meter()))
    total = add(total, attribute_path(run, item, p[0]), run.meter());
  return total;
}

inline Value filter_batch(Interpreter& run, const Value& value, const Arguments& arguments) {
  return lazily(run, [&](List& out) {
    const Parameters p("batch", arguments, {"linecount", "fill_with"}, 1);
    const std::int64_t size = p.integer(0, 0);
    List batch;
    const auto put = [&] {
      out.push_back(make_list(std::move(batch), run.meter()));
      batch = {};
    };
    for (const Value& item : iterate(value, run.meter())) {
      if (static_cast<std::int64_t>(batch.size()) == size) put();
      batch.push_back(item);
    }
    if (batch.empty()) return;
    if (p[1] && !p[1]->is_none() && static_cast<std::int64_t>(batch.size()) < size) {
      run.meter().charge_items(static_cast<std::size_t>(size));
      batch.resize(static_cast<std::size_t>(size), *p[1]);
    }
    put();
  });
}

inline Value filter_slice(Interpreter& run, const Value& value, const Arguments& arguments) {
  return lazily(run, [&](List& out) {
    const Parameters p("slice", arguments, {"slices", "fill_with"}, 1);
    const std::int64_t slices = p.integer(0, 0);
    const List items = iterate(value, run.meter());
    if (slices == 0) fail("division by zero");
    if (slices < 0) return;
    const auto count = static_cast<std::int64_t>(items.size()), each = count / slices, extra = count % slices;
    for (std::int64_t i = 0, begin = 0; i < slices; ++i) {
      const std::int64_t end = begin + each + (i < extra ? 1 : 0);
      List part(items.begin() + begin, items.begin() + end);
      if (p[1] && !p[1]->is_none() && i >= extra) part.push_back(*p[1]);
      out.push_back(make_list(std::move(part), run.meter()));
      begin = end;
    }
  });
}

inline constexpr NamedFilter kSequenceFilters[] = {
    {"batch", filter_batch},
    {"dictsort", filter_dictsort},
    {"first", filter_first},
    {"items", filter_items},
    {"join", filter_join},
    {"last", filter_last},
    {"list", filter_list},
    {"map", filter_map},
    {"max", filter_extreme<true>},
    {"min", filter_extreme<false>},
    {"reject", filter_select<false, false>},
    {"rejectattr", filter_select<true, false>},
    {"reverse", filter_reverse},
    {"select", filter_select<false, true>},
    {"selectattr", filter_select<true, true>},
    {"slice", filter_slice},
    {"sort", filter_sort},
    {"sum", filter_sum},
    {"unique", filter_unique},
};

}  // namespace tenon::chat::detail
