// Why the server answers a request by itself, with an error, and no handler does.
#pragma once

namespace serve {

struct HttpRefusal {
  int status = 0;        // 0: it does not
  const char* why = "";  // for the client, beyond what the status says
  explicit operator bool() const { return status != 0; }
};

}  // namespace serve
