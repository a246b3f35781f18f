// The kind and the text of an exception.
#pragma once
#include <exception>
#include <optional>
#include <string>

#include "tenon/core/error.h"
#include "tenon/core/request.h"

namespace tenon::detail {

struct Failure {
  Error::Kind kind = Error::Kind::internal;
  std::string what;

  Failure(Error::Kind k, const char* text) noexcept : kind(k) {
    try {
      what = *text ? text : "threw without a message";
    } catch (...) {  // no memory for a message: it stays empty
    }
  }

  // The last event of a request that fails so.
  Event event(RequestId request) const {
    return {.kind = Event::Kind::error,
            .request = request,
            .last = true,
            .reason = FinishReason::error,
            .error = what,
            .error_kind = kind};
  }
};

// Runs action(); what it throws, if anything.
template <class Action>
std::optional<Failure> attempt(Action&& action) noexcept {
  try {
    action();
    return std::nullopt;
  } catch (const Error& error) {
    return Failure(error.kind(), error.what());
  } catch (const std::exception& error) {
    return Failure(Error::Kind::internal, error.what());
  } catch (...) {
    return Failure(Error::Kind::internal, "threw something that is no std::exception");
  }
}

}  // namespace tenon::detail
