// Shared by the numbered examples: command line options, a clock, and CSV files for the figures of the docs.
#pragma once
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>

#ifndef TENON_DEFAULT_MODEL_DIR
#define TENON_DEFAULT_MODEL_DIR "examples/models/tales"
#endif

namespace example {

inline const std::string kPrompt = "The quick brown fox jumped over the";

// Options as `--name value`. Every example has --model and --csv; its other options are named with their defaults.
class Arguments {
 public:
  Arguments(int argc, char** argv, std::map<std::string, std::string> own = {}) : values_(std::move(own)) {
    values_.insert({{"--model", TENON_DEFAULT_MODEL_DIR}, {"--csv", ""}});
    for (int i = 1; i < argc; i += 2) {
      if (argv[i] == std::string("--help")) usage(argv[0]);
      if (!values_.contains(argv[i])) throw std::runtime_error(std::string(argv[i]) + ": no such option; see --help");
      if (i + 1 == argc) throw std::runtime_error(std::string(argv[i]) + ": needs a value");
      values_[argv[i]] = argv[i + 1];
    }
  }
  const std::string& text(const std::string& name) const { return values_.at(name); }
  int number(const std::string& name) const { return std::stoi(values_.at(name)); }

 private:
  [[noreturn]] void usage(const char* program) const {
    std::printf("%s, options and their defaults:\n", program);
    for (const auto& [name, value] : values_) std::printf("  %s \"%s\"\n", name.c_str(), value.c_str());
    std::exit(0);
  }
  std::map<std::string, std::string> values_;
};

class Stopwatch {
 public:
  double ms() const { return std::chrono::duration<double, std::milli>(Clock::now() - begin_).count(); }
  // Milliseconds since the last lap.
  double lap() {
    const double passed = ms();
    begin_ = Clock::now();
    return passed;
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin_ = Clock::now();
};

// Writes rows of numbers to a file for scripts/plot-examples. Without a file name it writes nothing.
class Csv {
 public:
  Csv(const std::string& file, const char* header) {
    if (file.empty()) return;
    out_.open(file);
    if (!out_) throw std::runtime_error(file + ": cannot be written");
    out_ << header << '\n';
  }
  template <class First, class... Rest>
  void row(const First& first, const Rest&... rest) {
    out_ << first;
    ((out_ << ',' << rest), ...);
    out_ << '\n';
  }
  void lines(const std::string& text) { out_ << text; }  // complete lines

 private:
  std::ofstream out_;
};

// A progress bar on standard error if that is a terminal. The destructor removes it.
class Progress {
 public:
  explicit Progress(int total) : total_(total), shown_(isatty(STDERR_FILENO) != 0) {}
  ~Progress() {
    if (shown_) std::fprintf(stderr, "\r\033[K");
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void advance() {
    ++done_;
    const std::string bar(static_cast<std::size_t>(40 * done_ / total_), '#');
    if (shown_) std::fprintf(stderr, "\r[%-40s] %d/%d", bar.c_str(), done_, total_);
  }

 private:
  int total_, done_ = 0;
  bool shown_;
};

// Prints whether the example's claim holds, and returns the exit status.
inline int verdict(const char* claim, bool holds) {
  std::printf("\n%s: %s\n", claim, holds ? "yes" : "NO");
  return holds ? 0 : 1;
}

inline int failed(const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}

}  // namespace example
