// A line of JSON a request, for whoever runs the server: what was asked in numbers, never in words.
#pragma once
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

namespace serve {

// No prompt, answer or key has a place here. What is empty or absent is left out of the line.
struct RequestLine {
  std::string id, method;
  std::string route;  // the pattern, not what stood in its place: that may hold anything
  int status = 0;
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
  // To a file descriptor, which stays the caller's; no `on`: to nowhere.
  explicit RequestLog(int descriptor, bool on = true) : descriptor_(on ? descriptor : -1) {}

  bool on() const { return descriptor_ >= 0; }

  // Any thread; lines do not mix. A line that cannot be written is lost, and counted; so is one that would have to wait, where
  // the thread may not.
  void write(const RequestLine& line, bool may_wait = true) noexcept;

  std::uint64_t lost() const { return lost_; }

  // The line with its newline, at that time in milliseconds since 1970.
  static std::string text(const RequestLine& line, std::int64_t now_ms);

 private:
  const int descriptor_;
  std::mutex mutex_;  // else a line of which the system takes a part at a time would mix with others
  std::atomic<std::uint64_t> lost_{0};
};

}  // namespace serve
