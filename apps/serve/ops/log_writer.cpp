#include "serve/ops/log_writer.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <string>
#include <utility>

#include "serve/threads.h"

namespace serve {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kStuck{1}, kLongestEnd{5};

std::uint64_t lines_of(std::string_view text) {
  return static_cast<std::uint64_t>(std::count(text.begin(), text.end(), '\n'));
}

// As many whole lines as a pipe takes in one piece, so that lines of other writers do not come between; a longer line
// as it is.
std::string_view first_piece(std::string_view text) {
  const std::size_t end = text.substr(0, PIPE_BUF).rfind('\n');
  return text.substr(0, end == text.npos ? std::min(text.find('\n'), text.size() - 1) + 1 : end + 1);
}

void wait_for_room(int descriptor) {
  pollfd fd{descriptor, POLLOUT, 0};
  ::poll(&fd, 1, -1);
}

}  // namespace

struct LogWriter::State {
  explicit State(int to) : descriptor(::fcntl(to, F_DUPFD_CLOEXEC, 0)) {}
  ~State() {
    if (descriptor >= 0) ::close(descriptor);
  }

  void run();
  bool take(std::string& batch);
  void write(std::string_view batch);
  bool write_piece(std::string_view piece);

  const int descriptor;  // -1: there is none, and every line is lost
  std::mutex mutex;      // guards the next five
  std::string queue;
  bool ending = false;       // no line will come
  bool abandoned = false;    // nobody waits for the thread
  bool ended = false;        // all was written
  std::uint64_t pieces = 0;  // written so far
  std::condition_variable came, went;
  std::atomic<std::uint64_t> lost{0};
};

// False: there will be none.
bool LogWriter::State::take(std::string& batch) {
  batch.clear();
  std::unique_lock lock(mutex);
  came.wait(lock, [this] { return ending || !queue.empty(); });
  batch.swap(queue);
  ended = batch.empty();
  return !ended;
}

// False: the rest of the batch is for nobody.
bool LogWriter::State::write_piece(std::string_view piece) {
  std::string_view rest = piece;
  while (!rest.empty()) {
    const ssize_t count = ::write(descriptor, rest.data(), rest.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      wait_for_room(descriptor);
    } else if (count <= 0) {
      lost += lines_of(rest);
      break;
    } else {
      rest.remove_prefix(static_cast<std::size_t>(count));
    }
  }
  std::lock_guard lock(mutex);
  ++pieces;
  went.notify_all();
  return !abandoned;
}

void LogWriter::State::write(std::string_view batch) {
  while (!batch.empty()) {
    const std::string_view piece = first_piece(batch);
    if (!write_piece(piece)) return;
    batch.remove_prefix(piece.size());
  }
}

void LogWriter::State::run() {
  std::string batch;
  while (take(batch)) write(batch);
  std::lock_guard lock(mutex);
  went.notify_all();
}

LogWriter::LogWriter(int descriptor) : state_(std::make_shared<State>(descriptor)) {
  begin_thread("writes the log", [state = state_] { state->run(); }).detach();
}

LogWriter::~LogWriter() {
  std::unique_lock lock(state_->mutex);
  state_->ending = true;
  state_->came.notify_all();
  const auto end = Clock::now() + kLongestEnd;
  while (!state_->ended) {
    const std::uint64_t before = state_->pieces;
    const bool moved = state_->went.wait_until(lock, std::min(end, Clock::now() + kStuck),
                                               [&] { return state_->ended || state_->pieces != before; });
    if (!moved || Clock::now() >= end) break;
  }
  state_->abandoned = true;
}

void LogWriter::put(std::string_view lines) noexcept {
  try {
    std::lock_guard lock(state_->mutex);
    if (state_->queue.size() + lines.size() <= kQueueBytes) {
      state_->queue += lines;
      state_->came.notify_one();
      return;
    }
  } catch (...) {  // no memory
  }
  state_->lost += lines_of(lines);
}

std::uint64_t LogWriter::lost() const { return state_->lost; }

bool write_in_time(int descriptor, std::string_view text, std::chrono::milliseconds patience) noexcept {
  while (!text.empty()) {
    pollfd fd{descriptor, POLLOUT, 0};
    if (::poll(&fd, 1, static_cast<int>(patience.count())) <= 0 && errno != EINTR) return false;
    if ((fd.revents & POLLOUT) == 0) return false;
    // A pipe that is writable takes this much without waiting.
    const ssize_t count = ::write(descriptor, text.data(), std::min<std::size_t>(text.size(), PIPE_BUF));
    if (count > 0)
      text.remove_prefix(static_cast<std::size_t>(count));
    else if (count == 0 || errno != EINTR)
      return false;
  }
  return true;
}

}  // namespace serve
