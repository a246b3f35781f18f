// A progress bar on stderr, if that is a terminal.
#pragma once
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>

#include "output.h"

namespace program {

class Progress {
 public:
  Progress(std::string what, std::size_t total)
      : what_(std::move(what)), total_(total), shown_(::isatty(STDERR_FILENO) == 1) {}
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `done` of `total`, and the tokens generated since the start. Draws at most ten times per second.
  void update(std::size_t done, std::uint64_t tokens) {
    if (!due()) return;
    const double seconds = std::chrono::duration<double>(drawn_ - begin_).count();
    draw(done, formatted(", %.0f tokens/s", static_cast<double>(tokens) / seconds));
  }
  void update(std::size_t done) {
    if (due()) draw(done, "");
  }

  void clear() {
    if (drawn_once_) std::fputs("\r\033[K", stderr);
    drawn_once_ = false;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t kWidth = 30;

  bool due() {
    const auto now = Clock::now();
    if (!shown_ || now - drawn_ < std::chrono::milliseconds(100)) return false;
    drawn_ = now;
    return true;
  }

  void draw(std::size_t done, const std::string& rate) {
    const std::size_t filled = total_ == 0 ? kWidth : std::min(kWidth, done * kWidth / total_);
    const std::string line = "\r[" + std::string(filled, '#') + std::string(kWidth - filled, '.') +
                             formatted("] %zu/%zu %s%s\033[K", done, total_, what_.c_str(), rate.c_str());
    std::fwrite(line.data(), 1, line.size(), stderr);
    std::fflush(stderr);
    drawn_once_ = true;
  }

  std::string what_;
  std::size_t total_;
  bool shown_, drawn_once_ = false;
  Clock::time_point begin_ = Clock::now(), drawn_ = begin_;
};

// Progress in megabytes, of a total that the first call knows.
class ByteProgress {
 public:
  void operator()(std::uint64_t done, std::uint64_t total) {
    constexpr std::uint64_t kMegabyte = 1'000'000;
    if (!bar_) bar_.emplace("MB", total / kMegabyte);
    bar_->update(done / kMegabyte);
  }
  void clear() { bar_.reset(); }

 private:
  std::optional<Progress> bar_;
};

}  // namespace program
