// A line of JSON per request for the operator: numbers about the request, never its texts.
#pragma once
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "serve/ops/log_writer.h"

namespace serve {

// The client's trace and its span around the request, in lower-case hexadecimal digits, as OpenTelemetry names them.
struct TraceContext {
  std::string trace_id, span_id, flags;
};

// No prompt, answer or key has a place here. Fields that are empty or absent are left out of the line.
struct LogLine {
  std::string id, method;
  std::string route;  // the pattern, not what stood in its place: that may hold anything
  int status = 0;
  std::string key = {};  // its name
  std::optional<TraceContext> trace = {};
  std::string adapter = {};  // as the client wrote it
  std::optional<int> prompt_tokens = {};
  std::optional<int> tokens = {};  // generated
  std::string reason = {};         // why it ended
  double ms = 0;                   // from arrival to the end
  std::optional<double> ttft_ms = {};
  std::string error = {};  // its kind, such as validation; not its message, which may quote what was asked
};

class RequestLog {
 public:
  // Without `on` no line is written.
  explicit RequestLog(LogWriter& out, bool on = true) : out_(out), on_(on) {}

  bool on() const { return on_; }

  // Any thread; never waits. A line for which the writer has no room is lost, and counted.
  void write(const LogLine& line) noexcept;

  std::uint64_t lost() const { return out_.lost() + unmade_; }

  // The line with its newline, at that time in milliseconds since 1970.
  static std::string text(const LogLine& line, std::int64_t now_ms);

 private:
  LogWriter& out_;
  const bool on_;
  std::atomic<std::uint64_t> unmade_{0};  // lines for whose text there was no memory
};

}  // namespace serve
