/// The one error type of the library: what went wrong, where (a file, a field, a request's parameter), and what to do.
#pragma once
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "tenon/core/require.h"

namespace tenon {

/// An error with a kind and a place.
class Error : public std::runtime_error {
 public:
  enum class Kind {
    invalid_file,     ///< a checkpoint, tokenizer or adapter that is not what its format says
    invalid_request,  ///< a parameter out of range, a prompt too long
    unsupported,      ///< well-formed, but this build does not do it
    io,               ///< the operating system refused
    capacity,         ///< would fit if the cache or memory were larger
    overloaded,       ///< the queue is full or closing: the same request may be accepted later
    internal,         ///< a broken invariant: report it
  };

  /// where: the file and field, or the request's parameter. what: what is wrong, and what is needed.
  Error(Kind kind, std::string where, std::string_view what)
      : std::runtime_error(where.empty() ? std::string(what) : where + ": " + std::string(what)),
        kind_(kind),
        where_(std::move(where)) {}

  Kind kind() const noexcept { return kind_; }
  const std::string& where() const noexcept { return where_; }

 private:
  Kind kind_;
  std::string where_;
};

}  // namespace tenon
