// Experiment 5: how long a batch should wait for more requests. Requests arrive at random (a Poisson process). A static
// batch starts when it has n members, or when its first member has waited long enough. The laboratory runs the real
// queue and scheduler on the clock of a small server, so the numbers are the same on every machine.
#include <tenon/lab/report.h>
#include <tenon/schedule/continuous.h>
#include <tenon/schedule/static.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/example.h"

namespace lab = tenon::lab;

void print(const char* name, int n, int wait_ms, const lab::Report& r, example::Csv& csv) {
  std::printf("%-10s %3d %13d %13.1f %13.1f %13.1f %11.2f %8.1f\n", name, n, wait_ms, r.queue_ms.mean,
              r.latency_ms.mean, r.latency_ms.p95, r.occupancy, 100 * r.busy);
  csv.row(name, n, wait_ms, r.queue_ms.mean, r.latency_ms.mean, r.latency_ms.p95, r.occupancy, 100 * r.busy);
}

int main(int argc, char** argv) try {
  const example::Arguments arguments(argc, argv, {{"--requests", "2000"}, {"--rate", "12"}, {"--new", "10"}});
  example::Csv csv(arguments.text("--csv"), "policy,n,max_wait_ms,queued_ms,latency_ms,latency_p95_ms,occupancy,busy");
  // [trace]
  const lab::Trace trace = lab::random_trace({.requests = arguments.number("--requests"),
                                              .rate = static_cast<double>(arguments.number("--rate")),
                                              .prompt = lab::Length::fixed(7),
                                              .new_tokens = lab::Length::fixed(arguments.number("--new")),
                                              .seed = 5});
  // [/trace]
  std::printf("%zu requests, %s a second; means over requests, and over steps\n\n", trace.size(),
              arguments.text("--rate").c_str());
  std::printf("policy       n  max_wait, ms    queued, ms   latency, ms   its p95, ms   occupancy  busy, %%\n");
  bool fuller = true;
  double soonest = 1e9;
  for (const int n : {1, 4, 8, 16}) {
    double occupancy = 0;
    for (const int wait_ms : {0, 50, 100, 200, 400, 800}) {
      if (n == 1 && wait_ms > 0) continue;  // a batch of one is full at once
      // [policy]
      const tenon::StaticPolicy policy{.n = n, .max_wait = std::chrono::milliseconds(wait_ms)};
      const lab::Report report = lab::report("static", lab::replay(policy, trace));
      // [/policy]
      print("static", n, wait_ms, report, csv);
      fuller = fuller && report.occupancy > std::exchange(occupancy, report.occupancy);
      soonest = std::min(soonest, report.latency_ms.mean);
    }
  }
  const auto continuous = lab::report("continuous", lab::replay(tenon::ContinuousPolicy{.max_batch = 16}, trace));
  print("continuous", 16, 0, continuous, csv);
  const bool sooner = continuous.latency_ms.mean < soonest;
  return example::verdict("who waits longer fills the batch, and who need not wait answers soonest", fuller && sooner);
} catch (const std::exception& error) {
  return example::failed(error);
}
