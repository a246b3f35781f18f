// The numbers of a replay by which schedulers are compared: a table, JSON, and pictures of the slots over time.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/lab/replay.h"

namespace tenon::lab {

/// The `percent`-th percentile of ascending values, linear between neighbours (type 7 of Hyndman and Fan, 1996; numpy's
/// default). 0 if there are no values.
double percentile(std::span<const double> sorted, double percent);

/// Jain's index of fairness (Jain, Chiu and Hawe, 1984): (sum x)^2 / (n sum x^2). 1 if all values are equal, 1/n if
/// only one is not 0. 1 if there are no values or all are 0.
double jain_index(std::span<const double> values);

/// Mean and percentiles of a set of values.
struct Spread {
  double mean = 0, p50 = 0, p95 = 0, p99 = 0;
  friend bool operator==(const Spread&, const Spread&) = default;
};

/// The spread of `values`, in any order. Zeros if there are none.
Spread spread(std::vector<double> values);

/// The numbers of one replay. Times are those of served requests, in milliseconds.
struct Report {
  std::string scheduler;
  std::uint64_t requests = 0, refused = 0;          ///< served; refused because the cache could never hold them
  std::uint64_t prompt_tokens = 0, new_tokens = 0;  ///< of served requests
  std::uint64_t steps = 0, preemptions = 0, prefix_hit_tokens = 0;
  double seconds = 0;                                     ///< from the start of the trace to the end of the last step
  double requests_per_second = 0, tokens_per_second = 0;  ///< tokens_per_second counts new tokens
  double occupancy = 0;                                   ///< mean number of sequences in a step
  double busy = 0;                                        ///< share of the time that steps take, 0..1
  Spread queue_ms = {};                                   ///< from arrival to first admission
  Spread first_token_ms = {};                             ///< from arrival to the first token
  Spread per_token_ms = {};                               ///< time between tokens after the first, averaged per request
  Spread latency_ms = {};                                 ///< from arrival to the last token
  double jain = 1;                                        ///< fairness() over adapters
  friend bool operator==(const Report&, const Report&) = default;
};

/// Jain's index over adapters, of the service per second that each received while it was contended: while it and
/// another adapter had unfinished requests. An adapter with fewer requests than its fair share lowers the index, too.
/// Therefore compare policies on one trace; do not compare traces.
double fairness(const ReplayResult& result);

/// The report of a replay under the scheduler of that name.
Report report(std::string scheduler, const ReplayResult& result);

namespace detail {

std::string fixed(double value, int digits);

// The shortest decimal number that reads back as the same double.
std::string shortest(double value);

// A name as a JSON string: printable ASCII, with quotes escaped.
std::string quoted(std::string_view name);

struct Line {
  std::string name;
  std::vector<std::string> cells;
};

}  // namespace detail

/// A table of text with one column per report.
std::string to_table(std::span<const Report> reports);

/// One line of JSON. Its keys are the members of Report.
std::string to_json(const Report& r);

// Slots over time.

/// The header line of slots_csv().
inline constexpr std::string_view kSlotsHeader =
    "scheduler,slot,request,adapter,begin_ms,end_ms,first_step,last_step\n";

/// One CSV line per stay, without the header, for plotting.
std::string slots_csv(std::string_view scheduler, const ReplayResult& result);

/// One line of text per slot. Each of the `columns` characters is an equal part of the time and shows the stay in its
/// middle, or '.' for an empty slot. If the trace has adapters, a letter is an adapter (from A; '-' for none);
/// otherwise it is a request. Letters repeat after z.
std::string slots_picture(const ReplayResult& result, int columns = 100);

}  // namespace tenon::lab

#ifndef TENON_COMPILED
#include "tenon/lab/report-inl.h"
#endif
