// What the laboratory replays: when requests come, how long they are, whose they are. From a file, or drawn at random:
// a seed gives the same trace on every machine.
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

struct TraceRequest {
  std::chrono::nanoseconds arrival{};  // from the start of the trace
  int prompt_tokens = 1, new_tokens = 1;
  int adapter = -1;  // -1: none
  int priority = 0;
  int prefix = -1;        // requests with the same one begin with the same tokens; -1: with nobody else's
  int prefix_tokens = 0;  // so many of the prompt
  friend bool operator==(const TraceRequest&, const TraceRequest&) = default;
};

using Trace = std::vector<TraceRequest>;  // in order of arrival

// ---- files: JSON lines, a request a line, with the fields of TraceRequest. Times are in milliseconds:
//   {"arrival_ms": 0.5, "prompt_tokens": 120, "new_tokens": 32, "adapter": 3, "priority": 0}
//   {"arrival_ms": 0.5, "prompt_tokens": 120, "new_tokens": 32, "prefix": 7, "prefix_tokens": 64}
// The first three are needed. Lines may come in any order of arrival; blank ones are skipped.

namespace detail {

inline constexpr int kMostTokens = 1 << 30;
inline constexpr double kLongestMs = 1e9;  // eleven days, in which a double still tells nanoseconds apart

// A time in milliseconds, to the nanosecond: 12.000034
std::string milliseconds(std::chrono::nanoseconds time);

}  // namespace detail

// The trace in a text; `file` names it in errors, which tell the line and the field.
Trace parse_trace(std::string_view text, const std::string& file);

Trace read_trace(const std::filesystem::path& path);

// The text of a file; what is as it is by default is left out. Reading it gives the same trace.
std::string format_trace(const Trace& trace);

// ---- at random

// A number of tokens.
struct Length {
  enum class Kind { fixed, uniform, exponential };
  Kind kind = Kind::fixed;
  int low = 1, high = 1;  // both included; fixed is low; an exponential one is cut off at high
  double mean = 1;        // exponential

  static Length fixed(int tokens) { return {Kind::fixed, tokens, tokens, 0}; }
  static Length uniform(int low, int high) { return {Kind::uniform, low, high, 0}; }
  static Length exponential(double mean, int high) { return {Kind::exponential, 1, high, mean}; }
};

struct TraceOptions {
  int requests = 1000;
  double rate = 1;   // a second, a Poisson process: gaps are exponential and independent; 0: all come at once
  int adapters = 0;  // 0: no request has one
  double zipf = 1;   // adapter k is drawn in proportion to 1 / (k + 1)^zipf; 0: all alike
  Length prompt = Length::uniform(16, 256);
  Length new_tokens = Length::uniform(16, 128);
  int prefix_tokens = 0;  // that all prompts of an adapter begin with, beside `prompt`: a system prompt
  std::uint64_t seed = 0;
};

namespace detail {

// What is drawn for a request depends on (seed, what, request) alone: another length leaves the arrivals as they were,
// so that two traces differ in what was changed, and in nothing else.
enum class Draw : std::uint32_t { gap, adapter, prompt, new_tokens };

// In [0, 1), a multiple of 2^-53.
double uniform(std::uint64_t seed, Draw what, int request);

// Exponential with mean 1. exact::log, for libm's differ.
inline double exponential(double uniform) { return -exact::log(1 - uniform); }

int draw(const Length& length, double uniform);

void check(const Length& length, const char* name);

void check(const TraceOptions& o);

}  // namespace detail

Trace random_trace(const TraceOptions& options);

}  // namespace tenon::lab

#ifndef TENON_COMPILED
#include "tenon/lab/trace-inl.h"
#endif
