#pragma once
#include <algorithm>
#include <type_traits>

#include "tenon/core/require.h"
#include "tenon/io/json.h"

namespace tenon::detail {

TENON_INLINE std::size_t JsonText::offset_of(std::size_t count) const {
  return count > fed_ ? text_.size() : count == fed_ ? last_ : before_last_;
}

TENON_INLINE void JsonText::advance() {
  before_last_ = std::exchange(last_, at_);
  ++fed_;
  const char c = text_[at_++];
  if (in_string_) {
    in_string_ = escaped_ || c != '"';
    escaped_ = !escaped_ && c == '\\';
  } else if (c == '"') {
    in_string_ = true;
  } else if (is_space(c)) {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  }
}

}  // namespace tenon::detail

namespace tenon {

TENON_INLINE bool JsonEvents::parse_error(std::size_t position, const std::string&,
                                          const nlohmann::detail::exception& error) {
  // error.what() is "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error ...". refuse_at()
  // says the place, so all before "syntax error" is dropped.
  std::string_view what = error.what();
  for (const std::string_view before_the_point : {"syntax error", "number overflow"})
    if (const auto at = what.find(before_the_point); at != what.npos) what.remove_prefix(at);
  refuse_at(source_.offset_of(position), what);
}

TENON_INLINE void JsonEvents::refuse_at(std::size_t offset, std::string_view what) const {
  const std::string_view before = source_.text().substr(0, offset);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const auto column = 1 + before.size() - (before.rfind('\n') == before.npos ? 0 : before.rfind('\n') + 1);
  refuse("not valid JSON at line " + std::to_string(line) + ", column " + std::to_string(column) + ": " +
         printable(what, 300));
}

TENON_INLINE void parse_json_events(JsonEvents& events) {
  detail::JsonText& source = events.source_;
  if (source.text().starts_with("\xef\xbb\xbf"))
    events.refuse("begins with a byte-order mark (BOM); save it as plain UTF-8");
  // nlohmann's lexer takes a NUL for the end of the input and would accept anything after it.
  if (const auto nul = source.text().find('\0'); nul != std::string_view::npos) events.refuse_at(nul, "a NUL byte");
  if (!Json::sax_parse(detail::JsonText::Iterator{&source}, detail::JsonText::Iterator{},
                       static_cast<nlohmann::json_sax<Json>*>(&events)))
    events.refuse("not valid JSON");
}

namespace detail {

// Builds a document (Json or OrderedJson) from events, within limits.
template <class J>
class JsonBuilder final : public JsonEvents {
 public:
  JsonBuilder(std::string_view text, const std::string& file, const JsonLimits& limits)
      : JsonEvents(text, file, limits.refusal), limits_(limits) {}

  J& document() { return document_; }

  bool null() override { return add(nullptr), true; }
  bool boolean(bool value) override { return add(value), true; }
  bool number_integer(std::int64_t value) override { return add(value), true; }
  bool number_unsigned(std::uint64_t value) override { return add(value), true; }
  // Also sent for integers beyond 64 bits, as tokenizer_config.json has in "model_max_length": 10^30. They are rounded
  // to a double. Fields refuses them as integers, because their type is floating-point.
  bool number_float(double value, const std::string&) override { return add(value), true; }
  bool string(std::string& value) override { return add(std::move(value)), true; }
  bool start_object(std::size_t) override { return open(J::object()), true; }
  bool start_array(std::size_t) override { return open(J::array()), true; }
  bool key(std::string& name) override { return key_ = std::move(name), true; }
  bool end_array() override { return close(), true; }
  bool end_object() override {
    if constexpr (kOrdered) refuse_duplicates(open_.back().value->template get_ref<const typename J::object_t&>());
    return close(), true;
  }

 private:
  static constexpr bool kOrdered = std::is_same_v<J, OrderedJson>;
  struct Open {
    J* value;
    std::string key;  // in the parent
  };

  J* add(J&& value) {
    if (++values_ > limits_.values) refuse("has more than " + std::to_string(limits_.values) + " JSON values");
    if (open_.empty()) return &(document_ = std::move(value));
    J& parent = *open_.back().value;
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    if constexpr (kOrdered) {
      // ordered_map's emplace compares with all keys each time; end_object finds duplicates in O(n log n).
      auto& members = parent.template get_ref<typename J::object_t&>();
      members.J::object_t::Container::emplace_back(key_, std::move(value));
      return &members.back().second;
    } else {
      const auto [place, fresh] = parent.emplace(key_, std::move(value));
      if (!fresh) duplicate(key_);
      return &*place;
    }
  }

  void open(J&& container) {
    if (open_.size() >= static_cast<std::size_t>(limits_.depth))
      refuse("JSON nested deeper than " + std::to_string(limits_.depth) + " levels" + here());
    std::string key = key_;
    J* const value = add(std::move(container));
    open_.push_back({value, std::move(key)});
  }
  void close() { open_.pop_back(); }

  void refuse_duplicates(const OrderedJson::object_t& members) const {
    std::vector<std::string_view> names;
    for (const auto& [name, value] : members) names.push_back(name);
    std::sort(names.begin(), names.end());
    const auto twice = std::adjacent_find(names.begin(), names.end());
    if (twice != names.end()) duplicate(*twice);
  }
  [[noreturn]] void duplicate(std::string_view name) const {
    refuse("duplicate JSON key \"" + printable(name) + "\"" + here());
  }

  // " in a.b[2]": the open containers, outermost first. Empty for the document itself.
  std::string here() const {
    std::string path;
    for (std::size_t i = 1; i < open_.size(); ++i) {
      const J& parent = *open_[i - 1].value;
      // append instead of operator+: g++ 12 reports a false overlap (GCC bug 105651).
      if (parent.is_array())
        path.append("[").append(std::to_string(parent.size() - 1)).append("]");
      else
        path.append(".").append(printable(open_[i].key, 60));
    }
    return path.empty() ? "" : " in " + printable(path.front() == '.' ? path.substr(1) : path, 300);
  }

  JsonLimits limits_;
  J document_;
  std::vector<Open> open_;
  std::string key_;
  std::size_t values_ = 0;
};

}  // namespace detail

template <class J>
J parse_json(std::string_view text, const std::string& file, const JsonLimits& limits) {
  detail::JsonBuilder<J> builder(text, file, limits);
  parse_json_events(builder);
  return std::move(builder.document());
}

}  // namespace tenon
