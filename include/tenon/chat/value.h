// The values of templates, which behave like Python's.
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tenon/chat/marked_text.h"
#include "tenon/chat/render_fault.h"
#include "tenon/core/require.h"

namespace tenon::chat::detail {

class Value;
struct Statement;
class Scope;
class LoopState;

struct UndefinedValue {
  std::string name;  // for messages
};
struct NoneValue {};

// A text; `safe` is that of the filter of this name.
struct TextObject {
  MarkedText text;
  bool safe = false;
};

// The type of a ListObject.
enum class ListKind { list, tuple, range, keys, values, items, iterator };
struct ListObject;
struct DictObject;
struct NamespaceObject;

struct MacroObject {
  const Statement* definition;
  Scope* scope;  // where it was defined
};

// A method with its object.
struct MethodObject;

// A function that templates call by name.
struct FunctionValue {
  std::string_view name;
};

// A value, and who wrote it.
class Value {
 public:
  using Data = std::variant<UndefinedValue, NoneValue, bool, std::int64_t, double, std::shared_ptr<const TextObject>,
                            std::shared_ptr<const ListObject>, std::shared_ptr<const DictObject>,
                            std::shared_ptr<NamespaceObject>, MacroObject, std::shared_ptr<const MethodObject>,
                            FunctionValue, std::shared_ptr<LoopState>>;

  Value() = default;
  template <class T>
  requires std::constructible_from<Data, T>
  explicit(false) Value(T data, char by = kByTemplate) : data_(std::move(data)), writer_(by) {}

  static Value none(char by = kByTemplate) { return Value(NoneValue{}, by); }
  static Value undefined(std::string_view name) { return Value(UndefinedValue{std::string(name)}); }
  static Value text(MarkedText text, bool safe = false) {
    return Value(std::shared_ptr<const TextObject>(std::make_shared<TextObject>(TextObject{std::move(text), safe})));
  }
  static Value text(std::string bytes, char by) { return text(MarkedText(std::move(bytes), by)); }

  template <class T>
  const T* as() const {
    return std::get_if<T>(&data_);
  }
  bool is_undefined() const { return as<UndefinedValue>() != nullptr; }
  bool is_none() const { return as<NoneValue>() != nullptr; }
  const MarkedText* as_text() const {
    const auto* object = as<std::shared_ptr<const TextObject>>();
    return object ? &(*object)->text : nullptr;
  }
  bool is_safe() const {
    const auto* object = as<std::shared_ptr<const TextObject>>();
    return object && (*object)->safe;
  }
  const ListObject* as_list() const {
    const auto* object = as<std::shared_ptr<const ListObject>>();
    return object ? object->get() : nullptr;
  }
  // Null where it is a list of another kind.
  const ListObject* as_list(ListKind kind) const;
  const DictObject* as_dict() const {
    const auto* object = as<std::shared_ptr<const DictObject>>();
    return object ? object->get() : nullptr;
  }
  const MethodObject* as_method() const {
    const auto* object = as<std::shared_ptr<const MethodObject>>();
    return object ? object->get() : nullptr;
  }
  // bool counts as an integer, as in Python.
  std::optional<std::int64_t> as_integer() const {
    if (const auto* number = as<std::int64_t>()) return *number;
    if (const auto* truth = as<bool>()) return *truth ? 1 : 0;
    return std::nullopt;
  }
  std::optional<double> as_number() const {
    if (const auto* number = as<double>()) return *number;
    if (const auto number = as_integer()) return static_cast<double>(*number);
    return std::nullopt;
  }

  // Who wrote it; of a text, each byte has its own writer.
  char writer() const {
    const MarkedText* const own = as_text();
    return own ? own->writer() : writer_;
  }

  const Data& data() const { return data_; }

 private:
  Data data_;
  char writer_ = kByTemplate;
};

// A list, or something else that is iterated over.
struct ListObject {
  using Kind = ListKind;

  Kind kind = Kind::list;
  std::vector<Value> items = {};
  int depth = 1;                                    // 1 more than that of its deepest item
  bool hashable = false;                            // of a tuple: all its items are
  std::int64_t start = 0, stop = 0, stride = 1;     // of a range
  mutable std::size_t taken = 0;                    // of an iterator: the items before it have been read
  std::optional<RenderFault> fault = std::nullopt;  // of an iterator: raised after its last item
};

// Entries in the order of insertion.
struct DictObject {
  std::vector<std::pair<Value, Value>> entries = {};
  int depth = 1;
};

// namespace() of templates: the one value that changes. Its attributes are cleared when rendering ends, which breaks
// cycles.
struct NamespaceObject {
  DictObject attributes;
};

inline const ListObject* Value::as_list(ListKind kind) const {
  const ListObject* const list = as_list();
  return list && list->kind == kind ? list : nullptr;
}

struct MethodObject {
  Value self;
  std::string name;
};

using List = std::vector<Value>;

inline int depth_of(const Value& value) {
  if (const ListObject* const list = value.as_list()) return list->depth;
  if (const DictObject* const dict = value.as_dict()) return dict->depth;
  if (const MethodObject* const method = value.as_method()) return 1 + depth_of(method->self);
  return 0;
}

// Whether a dict may have the value as a key.
inline bool is_hashable(const Value& value) {
  const ListObject* const list = value.as_list();
  if (!list) return value.as_dict() == nullptr;
  if (list->kind == ListKind::tuple) return list->hashable;
  return list->kind == ListKind::range || list->kind == ListKind::values || list->kind == ListKind::iterator;
}

inline void check_depth(int depth, const Meter& meter) {
  if (depth > meter.limits().value_depth)
    exceed("a value nests more than " + std::to_string(meter.limits().value_depth) + " levels");
}

inline Value make_list(List items, Meter& meter, ListObject::Kind kind = ListObject::Kind::list,
                       char by = kByTemplate) {
  meter.charge_items(items.size());
  ListObject list{.kind = kind, .items = std::move(items)};
  list.hashable = true;
  for (const Value& item : list.items) {
    list.depth = std::max(list.depth, 1 + depth_of(item));
    list.hashable = list.hashable && is_hashable(item);
  }
  check_depth(list.depth, meter);
  return Value(std::shared_ptr<const ListObject>(std::make_shared<ListObject>(std::move(list))), by);
}
inline Value make_tuple(List items, Meter& meter, char by = kByTemplate) {
  return make_list(std::move(items), meter, ListObject::Kind::tuple, by);
}
inline Value make_iterator(List items, Meter& meter) {
  return make_list(std::move(items), meter, ListObject::Kind::iterator);
}
inline Value make_dict(DictObject dict, Meter& meter, char by = kByTemplate) {
  meter.charge_items(2 * dict.entries.size());
  for (const auto& [key, value] : dict.entries)
    dict.depth = std::max({dict.depth, 1 + depth_of(key), 1 + depth_of(value)});
  check_depth(dict.depth, meter);
  return Value(std::shared_ptr<const DictObject>(std::make_shared<DictObject>(std::move(dict))), by);
}

// Python's name of the type.
inline std::string_view type_name(const Value& value) {
  struct Names {
    std::string_view operator()(const UndefinedValue&) const { return "Undefined"; }
    std::string_view operator()(const NoneValue&) const { return "NoneType"; }
    std::string_view operator()(bool) const { return "bool"; }
    std::string_view operator()(std::int64_t) const { return "int"; }
    std::string_view operator()(double) const { return "float"; }
    std::string_view operator()(const std::shared_ptr<const TextObject>&) const { return "str"; }
    std::string_view operator()(const std::shared_ptr<const ListObject>& list) const {
      constexpr std::string_view names[] = {"list",        "tuple",      "range",   "dict_keys",
                                            "dict_values", "dict_items", "iterator"};
      return names[static_cast<std::size_t>(list->kind)];
    }
    std::string_view operator()(const std::shared_ptr<const DictObject>&) const { return "dict"; }
    std::string_view operator()(const std::shared_ptr<NamespaceObject>&) const { return "Namespace"; }
    std::string_view operator()(const MacroObject&) const { return "Macro"; }
    std::string_view operator()(const std::shared_ptr<const MethodObject>&) const { return "method"; }
    std::string_view operator()(const FunctionValue&) const { return "function"; }
    std::string_view operator()(const std::shared_ptr<LoopState>&) const { return "LoopContext"; }
  };
  return std::visit(Names{}, value.data());
}

// Raises jinja2's error for a use of an undefined value.
[[noreturn]] inline void fail_undefined(const Value& value) {
  const std::string& name = value.as<UndefinedValue>()->name;
  fail(name.empty() ? "a value is undefined" : "\"" + name + "\" is undefined");
}

[[noreturn]] inline void fail_type(std::string_view where, const Value& value) {
  if (value.is_undefined()) fail_undefined(value);
  fail(std::string(where) + " a value of type " + std::string(type_name(value)));
}

// The arguments of a call.
struct Arguments {
  List positional;
  std::vector<std::pair<std::string, Value>> named;
};

// Arguments bound to the parameters of a function of the interpreter.
class Parameters {
 public:
  // The first `required` parameters must be given.
  Parameters(std::string_view callee, const Arguments& arguments, std::initializer_list<std::string_view> names,
             std::size_t required = 0)
      : callee_(callee), values_(names.size()), names_(names) {
    if (arguments.positional.size() > names.size())
      fail(std::string(callee) + " takes at most " + std::to_string(names.size()) + " arguments");
    for (std::size_t i = 0; i < arguments.positional.size(); ++i) values_[i] = arguments.positional[i];
    for (const auto& [name, value] : arguments.named) {
      const auto found = std::find(names_.begin(), names_.end(), name);
      const auto at = static_cast<std::size_t>(found - names_.begin());
      if (found == names_.end() || values_[at])
        fail(std::string(callee) + " got an unexpected argument \"" + name + "\"");
      values_[at] = value;
    }
    for (std::size_t i = 0; i < required; ++i)
      if (!values_[i]) fail(std::string(callee) + " needs the argument \"" + std::string(names_[i]) + "\"");
  }

  const Value* operator[](std::size_t i) const { return values_[i] ? &*values_[i] : nullptr; }

  // An integer, or the default where it was not given.
  std::int64_t integer(std::size_t i, std::int64_t otherwise) const {
    if (!values_[i]) return otherwise;
    const auto number = values_[i]->as_integer();
    if (!number) fail_type(std::string(callee_) + " got, as " + std::string(names_[i]) + ",", *values_[i]);
    return *number;
  }
  const MarkedText& text(std::size_t i) const {
    const MarkedText* const text = values_[i]->as_text();
    if (!text) fail_type(std::string(callee_) + " got, as " + std::string(names_[i]) + ",", *values_[i]);
    return *text;
  }

 private:
  std::string_view callee_;
  std::vector<std::optional<Value>> values_;
  std::vector<std::string_view> names_;
};

}  // namespace tenon::chat::detail
