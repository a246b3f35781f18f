// Why the server answers a request by itself, with an error, and no handler does.
#pragma once
#include <cstddef>
#include <limits>

namespace serve {

struct HttpRefusal {
  int status = 0;        // 0: it does not
  const char* why = "";  // for the client, beyond what the status says
  explicit operator bool() const { return status != 0; }
};

// What a request's head alone decides.
struct HttpAdmission {
  HttpRefusal refusal = {};
  std::size_t body_bytes = std::numeric_limits<std::size_t>::max();  // more: 413
};

}  // namespace serve
