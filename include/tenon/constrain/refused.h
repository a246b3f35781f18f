// The error of a constraint that cannot be enforced exactly.
#pragma once
#include <string>
#include <utility>

#include "tenon/core/error.h"

namespace tenon::constrain {

/// kind() is unsupported for a valid constraint that is not enforced exactly or exceeds a limit ("too complex: ...").
/// It is invalid_request for an invalid constraint, or one that no text satisfies. where() is a JSON pointer
/// (#/properties/a), a position in a pattern (character 17) or a line of a grammar (line 3).
class Refused : public Error {
 public:
  Refused(Kind kind, std::string at, std::string reason)
      : Error(kind, std::move(at), reason), reason_(std::move(reason)) {}
  /// The text of the error without the place.
  const std::string& reason() const noexcept { return reason_; }

 private:
  std::string reason_;
};

/// Throw Refused: unsupported, invalid_request, or unsupported with "too complex: " at "#".
[[noreturn]] void refuse_unsupported(std::string at, std::string reason);
[[noreturn]] void refuse_invalid(std::string at, std::string reason);
[[noreturn]] void refuse_complex(std::string what);

}  // namespace tenon::constrain

#ifndef TENON_COMPILED
#include "tenon/constrain/refused-inl.h"
#endif
