// Strict JSON from untrusted sources, over nlohmann-json's event parser (which is iterative; so is its destructor).
// Refused beyond the grammar: a byte-order mark, NUL bytes, duplicate keys, numbers past the range of a double, depth
// and size past the limits. Every refusal is a tenon::Error that says where.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "tenon/core/error.h"
#include "tenon/core/file.h"

namespace tenon {

using Json = nlohmann::json;                 // keys sorted: an insertion is O(log n)
using OrderedJson = nlohmann::ordered_json;  // keys as written: for the few places where their order means something

struct JsonLimits {
  int depth = 64;  // nested objects and lists
  std::size_t values =
      4'000'000;  // up to 160 bytes of memory each (`"a":{}`); the largest tokenizer.json has 2 million
  Error::Kind refusal = Error::Kind::invalid_file;  // invalid_request for a body of HTTP
};

namespace detail {

// Hands a text to nlohmann's lexer, each run of white space outside strings as one space. The lexer keeps what it has
// read since the last string or number, for its messages, and spells a newline there as <U+000A>: 60 MB of newlines and
// then an error took 30 s and 2 GB.
class JsonText {
 public:
  explicit JsonText(std::string_view text) : text_(text) {}

  // A single-pass iterator over a JsonText, or the end.
  struct Iterator {
    using iterator_category = std::input_iterator_tag;
    using value_type = char;
    using difference_type = std::ptrdiff_t;
    using pointer = const char*;
    using reference = char;

    JsonText* of = nullptr;

    char operator*() const { return of->current(); }
    Iterator& operator++() { return of->advance(), *this; }
    friend bool operator==(Iterator a, Iterator b) { return a.at_end() == b.at_end(); }
    bool at_end() const { return of == nullptr || of->at_ == of->text_.size(); }
  };

  std::string_view text() const { return text_; }
  // The lexer counts what it was handed, and the end as one more; it may have put the last one back.
  std::size_t offset_of(std::size_t count) const {
    return count > handed_ ? text_.size() : count == handed_ ? last_ : before_last_;
  }

 private:
  static bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

  char current() const { return !in_string_ && is_space(text_[at_]) ? ' ' : text_[at_]; }
  void advance() {
    before_last_ = std::exchange(last_, at_);
    ++handed_;
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

  std::string_view text_;
  std::size_t at_ = 0, last_ = 0, before_last_ = 0, handed_ = 0;
  bool in_string_ = false, escaped_ = false;
};

}  // namespace detail

// What every receiver of parser events shares: a syntax error becomes an Error with line and column. Receivers are
// virtual, so that a program has the parser once.
class JsonEvents : public nlohmann::json_sax<Json> {
 public:
  JsonEvents(std::string_view text, std::string file, Error::Kind refusal)
      : source_(text), file_(std::move(file)), refusal_(refusal) {}

  bool binary(Json::binary_t&) final { refuse("binary data in text"); }  // never sent for text
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& error) final {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error ...": the place is said below.
    std::string_view what = error.what();
    for (const std::string_view before_the_point : {"syntax error", "number overflow"})
      if (const auto at = what.find(before_the_point); at != what.npos) what.remove_prefix(at);
    refuse_at(source_.offset_of(position), what);
  }

  // Throws: `what` is wrong at byte `offset` of the text.
  [[noreturn]] void refuse_at(std::size_t offset, std::string_view what) const {
    const std::string_view before = source_.text().substr(0, offset);
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const auto column = 1 + before.size() - (before.rfind('\n') == before.npos ? 0 : before.rfind('\n') + 1);
    refuse("not valid JSON at line " + std::to_string(line) + ", column " + std::to_string(column) + ": " +
           printable(what, 300));
  }
  [[noreturn]] void refuse(std::string_view what) const { throw Error(refusal_, file_, what); }

 private:
  friend void parse_json_events(JsonEvents& events);

  detail::JsonText source_;
  std::string file_;
  Error::Kind refusal_;
};

// Sends the events of one JSON document, the whole text of `events`, to it. Once only.
inline void parse_json_events(JsonEvents& events) {
  detail::JsonText& source = events.source_;
  if (source.text().starts_with("\xef\xbb\xbf"))
    events.refuse("begins with a byte-order mark (BOM); save it as plain UTF-8");
  // nlohmann's lexer takes a NUL for the end of the input, and would accept whatever follows it.
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
  // Also sent for integers beyond 64 bits: they stay, rounded, because tokenizer_config.json holds
  // "model_max_length": 10^30. Fields refuses them as integers, because they are of floating-point type.
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
    std::string key;  // under which it stands in its parent
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
      // ordered_map's own emplace looks through all keys each time; end_object finds duplicates in O(n log n).
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

  // " in a.b[2]": the containers that are open, outermost first; nothing for the document itself.
  std::string here() const {
    std::string path;
    for (std::size_t i = 1; i < open_.size(); ++i) {
      const J& parent = *open_[i - 1].value;
      // append, not "[" + ...: g++ 12 sees a false overlap in that (GCC bug 105651)
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

// The document in `text`; `file` names it in errors.
template <class J = Json>
J parse_json(std::string_view text, const std::string& file, const JsonLimits& limits = {}) {
  detail::JsonBuilder<J> builder(text, file, limits);
  parse_json_events(builder);
  return std::move(builder.document());
}

// The document in a file of at most max_bytes.
template <class J = Json>
J read_json_file(const std::filesystem::path& path, std::uint64_t max_bytes, const JsonLimits& limits = {}) {
  return parse_json<J>(read_text_file(path, max_bytes), file_name_of(path), limits);
}

}  // namespace tenon
