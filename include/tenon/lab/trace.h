// Traces for the laboratory: when requests arrive, how long they are, and which adapter they use. A trace comes from a
// file or from a random generator. A seed gives the same trace on every machine.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/core/exact_math.h"
#include "tenon/core/request.h"
#include "tenon/io/fields.h"
#include "tenon/io/file.h"
#include "tenon/io/json.h"
#include "tenon/sample/philox.h"

namespace tenon::lab {

/// One request of a trace.
struct TraceRequest {
  std::chrono::nanoseconds arrival{};  ///< since the start of the trace
  int prompt_tokens = 1, new_tokens = 1;
  int adapter = -1;  ///< -1: none
  int priority = 0;
  int prefix = -1;        ///< requests with the same number begin with the same tokens; -1: no shared prefix
  int prefix_tokens = 0;  ///< length of the shared prefix, part of prompt_tokens
  friend bool operator==(const TraceRequest&, const TraceRequest&) = default;
};

using Trace = std::vector<TraceRequest>;  ///< in order of arrival

namespace detail {

inline constexpr int kMostTokens = 1 << 30;
inline constexpr double kLongestMs = 1e9;  // 11.6 days; a double of this size still resolves nanoseconds

// A time in milliseconds, to the nanosecond, such as 12.000034.
std::string milliseconds(std::chrono::nanoseconds time);

}  // namespace detail

/// Parses a trace and sorts it by arrival. The text is JSON lines, one request per line, with the fields of
/// TraceRequest:
///
///     {"arrival_ms": 0.5, "prompt_tokens": 120, "new_tokens": 32, "adapter": 3, "priority": 0}
///     {"arrival_ms": 0.5, "prompt_tokens": 120, "new_tokens": 32, "prefix": 7, "prefix_tokens": 64}
///
/// The first three fields are required. Lines may be in any order; blank lines are skipped. Error invalid_file, which
/// names `file`, the line and the field.
Trace parse_trace(std::string_view text, const std::string& file);

/// Reads a trace from a file of at most 1 GiB. Errors: those of read_text_file and parse_trace.
Trace read_trace(const std::filesystem::path& path);

/// The text of a trace file. It omits default values. parse_trace() of it returns the same trace.
std::string format_trace(const Trace& trace);

/// A distribution of numbers of tokens.
struct Length {
  enum class Kind { fixed, uniform, exponential };
  Kind kind = Kind::fixed;
  int low = 1, high = 1;  ///< inclusive; fixed uses `low`; exponential is cut off at `high`
  double mean = 1;        ///< used by exponential

  /// Every number is `tokens`.
  static Length fixed(int tokens) { return {Kind::fixed, tokens, tokens, 0}; }
  /// Uniform in low..high, both included.
  static Length uniform(int low, int high) { return {Kind::uniform, low, high, 0}; }
  /// Exponential with this mean, rounded up, at most `high`.
  static Length exponential(double mean, int high) { return {Kind::exponential, 1, high, mean}; }
};

/// Options of random_trace().
struct TraceOptions {
  int requests = 1000;  ///< of the whole trace
  double rate = 1;      ///< mean arrivals per second, a Poisson process; 0: all requests arrive at once
  int adapters = 0;     ///< 0: requests have no adapter
  double zipf = 1;      ///< adapter k is drawn in proportion to 1 / (k + 1)^zipf; 0: uniformly
  Length prompt = Length::uniform(16, 256);      ///< tokens of a prompt
  Length new_tokens = Length::uniform(16, 128);  ///< tokens of an answer
  int prefix_tokens = 0;   ///< length of a system prompt that an adapter's requests share, in addition to `prompt`
  std::uint64_t seed = 0;  ///< equal seeds give equal traces
};

namespace detail {

// A draw depends on (seed, what, request) alone. If only the lengths change, the arrivals stay the same, so two traces
// differ only in what was changed.
enum class Draw : std::uint32_t { gap, adapter, prompt, new_tokens };

// In [0, 1), a multiple of 2^-53.
double uniform(std::uint64_t seed, Draw what, int request);

// Exponential with mean 1. It uses exact::log because the results of libm differ between machines.
inline double exponential(double uniform) { return -exact::log(1 - uniform); }

int draw(const Length& length, double uniform);

void check(const Length& length, const char* name);

void check(const TraceOptions& o);

}  // namespace detail

/// Draws a trace: equal options give an equal trace on every machine. Error invalid_request if an option is out of
/// range.
Trace random_trace(const TraceOptions& options);

}  // namespace tenon::lab

#ifndef TENON_COMPILED
#include "tenon/lab/trace-inl.h"
#endif
