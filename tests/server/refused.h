// The refusal of a body, for tests.
#pragma once
#include <string>

#include "serve/api/api_error.h"

namespace serve::test {

struct Refused {
  int lorax = 200, openai = 200;  // status
  std::string param, message;
};

// What `act` throws; 200 where it throws nothing.
template <class Act>
Refused refused(Act act) {
  try {
    act();
  } catch (const ApiError& error) {
    return {status(error.kind, Dialect::lorax), status(error.kind, Dialect::openai), error.param, error.what()};
  }
  return {};
}

inline bool mentions(const std::string& text, const std::string& words) { return text.find(words) != text.npos; }

// {"depth": [[[...]]]}, the list nested so deep.
inline std::string nested(int depth) {
  return R"("deep": )" + std::string(static_cast<std::size_t>(depth), '[') +
         std::string(static_cast<std::size_t>(depth), ']');
}

// "a", "a", ...
inline std::string times(int count, const std::string& text) {
  std::string out;
  for (int i = 0; i < count; ++i) out += (i == 0 ? "" : ", ") + text;
  return out;
}

}  // namespace serve::test
