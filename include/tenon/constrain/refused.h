// A constraint that cannot be honoured exactly.
#pragma once
#include <string>
#include <utility>

#include "tenon/core/error.h"

namespace tenon::constrain {

// kind unsupported: well-formed, but not enforced exactly, or beyond a limit ("too complex: ..."); invalid_request: no
// constraint, or one that no text satisfies. where() is a JSON pointer (#/properties/a) or a position (character 17).
class Refused : public Error {
 public:
  Refused(Kind kind, std::string at, std::string reason)
      : Error(kind, std::move(at), reason), reason_(std::move(reason)) {}
  const std::string& reason() const noexcept { return reason_; }

 private:
  std::string reason_;
};

[[noreturn]] void refuse_unsupported(std::string at, std::string reason);
[[noreturn]] void refuse_invalid(std::string at, std::string reason);
[[noreturn]] void refuse_complex(std::string what);

}  // namespace tenon::constrain

#ifndef TENON_COMPILED
#include "tenon/constrain/refused-inl.h"
#endif
