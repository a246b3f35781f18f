// Experiment 5: how long should a batch wait for company? Requests arrive at random (a Poisson process); a static batch
// departs when it has n members, or when the first of them has waited long enough.
#include <tenon/tenon.h>

#include <chrono>
#include <map>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "common/example.h"

using Engine = tenon::Engine<tenon::Gpt2, tenon::Scheduler<tenon::StaticPolicy>>;

struct Result {
  double queued_ms = 0, latency_ms = 0, occupancy = 0;  // means over requests, and over steps
};

// Submits a request at each of the times, and steps the engine meanwhile: what a server's loop does.
Result serve(Engine& engine, const std::vector<double>& arrival_ms, const tenon::Request& request) {
  example::Stopwatch since_start;
  std::map<tenon::RequestId, double> arrived;
  std::set<tenon::RequestId> queued;
  Result sum;
  double steps = 0;
  for (std::size_t next = 0; next < arrival_ms.size() || !engine.idle();) {
    // [loop]
    while (next < arrival_ms.size() && arrival_ms[next] <= since_start.ms()) {
      const auto id = engine.submit(request);
      arrived[id] = arrival_ms[next++];
      queued.insert(id);
    }
    engine.set_draining(next == arrival_ms.size());  // nobody else will come: waiting for company would be vain
    const double begin = since_start.ms();
    const auto events = engine.step();
    // [/loop]
    for (const auto& event : events) {
      if (queued.erase(event.request)) sum.queued_ms += begin - arrived[event.request];
      if (event.kind != tenon::Event::Kind::token) sum.latency_ms += since_start.ms() - arrived[event.request];
    }
    if (events.empty())
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    else
      sum.occupancy += engine.stats().running, ++steps;
  }
  const auto requests = static_cast<double>(arrival_ms.size());
  return {sum.queued_ms / requests, sum.latency_ms / requests, sum.occupancy / steps};
}

int main(int argc, char** argv) try {
  const example::Arguments arguments(argc, argv, {{"--requests", "16"}, {"--load", "2"}, {"--new", "10"}});
  example::Csv csv(arguments.text("--csv"), "n,max_wait_ms,queued_ms,latency_ms,occupancy");
  const auto files = tenon::load_checkpoint(arguments.text("--model"));
  const tenon::Request request{.prompt = example::kPrompt,
                               .options = {.max_new_tokens = arguments.number("--new"), .ignore_eos = true}};

  // Times are multiples of what a request takes alone, so that the table looks alike on every machine.
  Engine warm{files, tenon::StaticPolicy{.n = 1}};
  const double alone_ms = (serve(warm, {0, 0, 0, 0}, request), serve(warm, {0}, request).latency_ms);
  std::mt19937 random(1);
  std::exponential_distribution<double> gap(arguments.number("--load") / alone_ms);
  std::vector<double> arrival_ms(static_cast<std::size_t>(arguments.number("--requests")));
  for (double at = 0; double& arrival : arrival_ms) arrival = at += gap(random);

  std::printf("a request takes %.1f ms alone; %d arrive in that time\n\n", alone_ms, arguments.number("--load"));
  std::printf("   n   max_wait, ms   queued, ms   latency, ms   occupancy\n");
  for (const auto& [n, wait] : {std::pair{1, 0.0}, {4, 0.25}, {4, 1.0}, {4, 4.0}, {16, 0.25}, {16, 1.0}, {16, 4.0}}) {
    // [policy]
    const auto max_wait = std::chrono::microseconds(static_cast<int>(1000 * wait * alone_ms));
    Engine engine{files, tenon::StaticPolicy{.n = n, .max_wait = max_wait}};
    // [/policy]
    const Result r = serve(engine, arrival_ms, request);
    std::printf("%4d %14.1f %12.1f %13.1f %11.2f\n", n, wait * alone_ms, r.queued_ms, r.latency_ms, r.occupancy);
    csv.row(n, wait * alone_ms, r.queued_ms, r.latency_ms, r.occupancy);
  }
} catch (const std::exception& error) {
  return example::failed(error);
}
