// tenon lab: the scheduler laboratory. Replays a trace with each of several schedulers on a virtual clock.
#include "tenon/lab/report.h"

#include <chrono>
#include <fstream>

#include "commands.h"
#include "output.h"
#include "schedulers.h"
#include "tenon/core/error.h"

namespace program {
namespace {

namespace laboratory = tenon::lab;

void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) throw tenon::Error(tenon::Error::Kind::io, tenon::file_name_of(path), "cannot be written");
}

laboratory::Trace trace_of(const LabCommand& command) {
  return command.trace.empty() ? laboratory::random_trace(command.random) : laboratory::read_trace(command.trace);
}

unsigned long long tokens_of(const laboratory::Trace& trace) {
  unsigned long long tokens = 0;
  for (const laboratory::TraceRequest& r : trace) {
    tokens += static_cast<unsigned>(r.prompt_tokens) + static_cast<unsigned>(r.new_tokens);
  }
  return tokens;
}

}  // namespace

int lab(const LabCommand& command) {
  const laboratory::Trace trace = trace_of(command);
  if (!command.write_trace.empty()) write_file(command.write_trace, laboratory::format_trace(trace));
  const laboratory::ReplayOptions options{.token_budget = command.token_budget,
                                          .cache_tokens = command.cache_tokens,
                                          .prefix_reuse = command.prefix_reuse,
                                          .cost = command.cost};
  const SchedulerOptions scheduling{
      .batch = command.batch,
      .token_budget = command.token_budget,
      .max_wait_ms = command.max_wait_ms,
      .order = command.order == "longest" ? tenon::Order::longest_first : tenon::Order::arrival,
      .patience = std::chrono::milliseconds(command.patience_ms)};
  std::vector<laboratory::Report> reports;
  std::string slots(laboratory::kSlotsHeader), pictures;
  const auto begin = std::chrono::steady_clock::now();
  for (const std::string& word : command.schedulers) {
    const laboratory::ReplayResult result = laboratory::replay(make_scheduler(word, scheduling), trace, options);
    reports.push_back(laboratory::report(word, result));
    if (!command.slots.empty()) slots += laboratory::slots_csv(word, result);
    if (command.draw) pictures += "\n" + word + "\n" + laboratory::slots_picture(result);
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  say(formatted("%zu requests of %s tokens, replayed under %zu scheduler%s in %.2f s", trace.size(),
                with_commas(tokens_of(trace)).c_str(), reports.size(), reports.size() == 1 ? "" : "s", seconds));
  if (!command.slots.empty()) write_file(command.slots, slots);
  Output output;
  if (command.json) {
    for (const laboratory::Report& report : reports) output.write(laboratory::to_json(report));
  } else {
    output.write(laboratory::to_table(reports));
    output.write(pictures);
  }
  output.flush();
  return 0;
}

}  // namespace program
