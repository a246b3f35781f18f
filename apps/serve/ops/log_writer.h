// The only thread that writes the server's log. Whoever logs puts a line in a bounded queue and goes on: a reader that
// stops reading costs lines, which are counted, and never a request or the end of the process.
#pragma once
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace serve {

class LogWriter {
 public:
  static constexpr std::size_t kQueueBytes = 1 << 20;  // some 4,000 requests' lines; more are lost

  // Writes to a duplicate of the descriptor. tenon::Error capacity where the system refuses the thread.
  explicit LogWriter(int descriptor);

  // Waits for what is queued as long as the reader takes some of it each second, 5 s at most. The rest is lost.
  ~LogWriter();

  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  // Queues whole lines, each with its newline. Any thread; never waits for the reader. Lines for which there is no room
  // are lost, all of this call.
  void put(std::string_view lines) noexcept;

  // Lines that had no room, could not be written, or were written in part.
  std::uint64_t lost() const;

 private:
  struct State;
  const std::shared_ptr<State> state_;  // the thread's as well: it may be stuck in a write when this is destroyed
};

// Writes at once, for as long as the descriptor takes something within `patience`. False: not all was written.
bool write_in_time(int descriptor, std::string_view text, std::chrono::milliseconds patience) noexcept;

}  // namespace serve
