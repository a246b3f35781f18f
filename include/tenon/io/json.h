// Strict JSON from untrusted sources, over nlohmann-json's event parser. Parser and destructor are iterative, so deep
// nesting cannot overflow the stack. Also refused: byte-order marks, NUL bytes, duplicate keys, numbers beyond the
// range of a double, and documents over the limits of depth and size. Every refusal is a tenon::Error that says where.
#pragma once
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/core/error.h"
#include "tenon/io/file.h"
#include "tenon/io/json_fwd.h"

namespace tenon {

/// Limits of a document, and the kind of the errors.
struct JsonLimits {
  int depth = 64;  ///< levels of nested objects and lists
  /// Values in the document, each up to 160 bytes of memory (`"a":{}`). The largest tokenizer.json has 2 million.
  std::size_t values = 4'000'000;
  Error::Kind refusal = Error::Kind::invalid_file;  ///< kind of all errors; invalid_request for HTTP bodies
};

namespace detail {

// Feeds a text to nlohmann's lexer, with each run of white space outside strings as one space. The lexer keeps its
// input since the last string or number for its messages, and spells a newline there as <U+000A>: 60 MB of newlines
// and then an error took 30 s and 2 GB.
class JsonText {
 public:
  explicit JsonText(std::string_view text) : text_(text) {}

  // Single-pass iterator over a JsonText. A default-constructed one is the end.
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
  // Offset in the text of the `count`-th character fed to the lexer, counted from 1. The end counts as one more
  // character. `count` must be one of the last two: the lexer may put its last character back, so two offsets are kept.
  std::size_t offset_of(std::size_t count) const;

 private:
  static bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

  char current() const { return !in_string_ && is_space(text_[at_]) ? ' ' : text_[at_]; }
  void advance();

  std::string_view text_;
  std::size_t at_ = 0, last_ = 0, before_last_ = 0, fed_ = 0;
  bool in_string_ = false, escaped_ = false;
};

}  // namespace detail

/// Base class of receivers of parser events. It turns a syntax error into an Error with line and column. The functions
/// are virtual, so that a program holds one copy of the parser.
class JsonEvents : public nlohmann::json_sax<Json> {
 public:
  /// `text` must outlive the receiver. `file` names the text in errors; `refusal` is their kind.
  JsonEvents(std::string_view text, std::string file, Error::Kind refusal)
      : source_(text), file_(std::move(file)), refusal_(refusal) {}

  bool binary(Json::binary_t&) final { refuse("binary data in text"); }  ///< never sent for text
  /// Called by nlohmann on a syntax error. Throws an Error with line and column.
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& error) final;

  /// Throws an Error that says `what` is wrong, with the line and column of byte `offset` of the text.
  [[noreturn]] void refuse_at(std::size_t offset, std::string_view what) const;
  /// Throws an Error that says `what` is wrong and names the file, without a position.
  [[noreturn]] void refuse(std::string_view what) const { throw Error(refusal_, file_, what); }

 private:
  friend void parse_json_events(JsonEvents& events);

  detail::JsonText source_;
  std::string file_;
  Error::Kind refusal_;
};

/// Parses the text of `events` as one JSON document and calls its functions. Call it once for each receiver.
void parse_json_events(JsonEvents& events);

/// Parses the document in `text`. `file` names it in errors of the kind limits.refusal. J: Json or OrderedJson.
template <class J = Json>
J parse_json(std::string_view text, const std::string& file, const JsonLimits& limits = {});

#ifdef TENON_COMPILED
extern template Json parse_json<Json>(std::string_view text, const std::string& file, const JsonLimits& limits);
extern template OrderedJson parse_json<OrderedJson>(std::string_view text, const std::string& file,
                                                    const JsonLimits& limits);
#endif

/// The document in a file of at most max_bytes. Errors: those of read_text_file and parse_json.
template <class J = Json>
J read_json_file(const std::filesystem::path& path, std::uint64_t max_bytes, const JsonLimits& limits = {}) {
  return parse_json<J>(read_text_file(path, max_bytes), file_name_of(path), limits);
}

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/io/json-inl.h"
#endif
