// How much of a server's time, memory and threads clients can take.
#pragma once
#include <chrono>
#include <cstddef>
#include <limits>

namespace serve {

using HttpClock = std::chrono::steady_clock;

struct HttpLimits {
  std::size_t body_bytes = 2'000'000;           ///< more: 413
  int header_lines = 100;                       ///< more: 431
  std::size_t header_bytes = 32 << 10;          ///< of all header lines together; more: 431
  std::size_t request_line_bytes = 8 << 10;     ///< more: 414
  std::chrono::milliseconds header_read{5000};  ///< from a request's first byte to the end of its head; for a handshake
  std::chrono::milliseconds body_read{30000};   ///< from there to the end of its body
  std::chrono::milliseconds idle{65000};        ///< between two requests of a connection
  std::chrono::milliseconds write{10000};       ///< without any progress
  int threads = 72;  ///< requests that are answered at once; requests that are being read hold none
  int waiting = 64;  ///< complete requests beyond those; more: 503 at once
  int requests_a_connection = 100;
  int connections =
      2048;  ///< fewer if descriptors are few; more: an idle one closes, or the newest is refused with 503
  std::size_t request_bytes = 256u << 20;  ///< of all bodies together, until they are answered; more: 503
  std::size_t answer_bytes = 256u << 20;   ///< of all answers that wait for their readers; more: those are cut
  /// For a complete answer, or a write of a stream, however it progresses; and as much again for each MiB that it has.
  std::chrono::milliseconds write_total{60000};
  std::chrono::milliseconds write_total_of(std::size_t bytes) const { return write_total * (1 + (bytes >> 20)); }
};

/// Why the server answers a request itself, with an error, and no handler does.
struct HttpRefusal {
  int status = 0;        ///< 0: a handler answers
  const char* why = "";  ///< for the client, in addition to what the status says
  explicit operator bool() const { return status != 0; }
};

/// Decision by a request's head alone.
struct HttpAdmission {
  HttpRefusal refusal = {};
  std::size_t body_bytes = std::numeric_limits<std::size_t>::max();  ///< more: 413
};

}  // namespace serve
