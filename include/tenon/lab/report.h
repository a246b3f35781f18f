// What came of a replay, in numbers to compare schedulers by: a table, JSON, and pictures of who sat where.
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

// The value below which so many percent of the values lie, linear between the two nearest (type 7 of Hyndman and Fan,
// 1996; numpy's default). 0 of no values.
double percentile(std::span<const double> sorted, double percent);

// Jain's index of fairness (Jain, Chiu and Hawe, 1984): (sum x)^2 / (n sum x^2). 1 where all have the same, 1/n where
// one has all. 1 of no values, or where nobody has anything.
double jain_index(std::span<const double> values);

struct Spread {
  double mean = 0, p50 = 0, p95 = 0, p99 = 0;
  friend bool operator==(const Spread&, const Spread&) = default;
};

Spread spread(std::vector<double> values);

struct Report {
  std::string scheduler;
  std::uint64_t requests = 0, refused = 0;          // that were served; that the cache could never hold
  std::uint64_t prompt_tokens = 0, new_tokens = 0;  // of those served
  std::uint64_t steps = 0, preemptions = 0, prefix_hit_tokens = 0;
  double seconds = 0;                                     // from the start of the trace to the end of the last step
  double requests_per_second = 0, tokens_per_second = 0;  // new tokens
  double occupancy = 0;                                   // mean sequences of a step
  double busy = 0;                                        // share of the time that was spent in steps
  Spread queue_ms = {};                                   // from arrival to first admission
  Spread first_token_ms = {};                             // from arrival to the first token
  Spread per_token_ms = {};                               // between tokens behind the first, a mean for each request
  Spread latency_ms = {};                                 // from arrival to the last token
  double jain = 1;  // over adapters: service a second (1 a prompt token, 2 a new one) while they had competition
  friend bool operator==(const Report&, const Report&) = default;
};

// Jain's index over adapters, of the service that each got a second of the time in which it and another one had
// requests that were not finished. Who asks for less than a fair share lowers it too: compare policies on one trace,
// not traces.
double fairness(const ReplayResult& result);

Report report(std::string scheduler, const ReplayResult& result);

namespace detail {

std::string fixed(double value, int digits);

// The shortest number that reads back as the same.
std::string shortest(double value);

// A name in JSON: printable ASCII, with its quotes escaped.
std::string quoted(std::string_view name);

struct Line {
  std::string name;
  std::vector<std::string> cells;
};

}  // namespace detail

// A column for each report.
std::string to_table(std::span<const Report> reports);

// One line, keys as the members of Report.
std::string to_json(const Report& r);

// ---- slots over time

inline constexpr std::string_view kSlotsHeader =
    "scheduler,slot,request,adapter,begin_ms,end_ms,first_step,last_step\n";

// A line for each stay, for plotting; without the header.
std::string slots_csv(std::string_view scheduler, const ReplayResult& result);

// A line for each slot, a character for each `columns`-th part of the time: who sat there in the middle of it, '.' for
// nobody. A letter is an adapter (from A on; '-' for none) where there are adapters, else a request; both start anew
// after z.
std::string slots_picture(const ReplayResult& result, int columns = 100);

}  // namespace tenon::lab

#ifndef TENON_COMPILED
#include "tenon/lab/report-inl.h"
#endif
