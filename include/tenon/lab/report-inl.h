#pragma once
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <utility>

#include "tenon/core/require.h"
#include "tenon/lab/report.h"

namespace tenon::lab {

TENON_INLINE double percentile(std::span<const double> sorted, double percent) {
  if (sorted.empty()) return 0;
  const double place = percent / 100 * static_cast<double>(sorted.size() - 1);
  const auto below = std::min(static_cast<std::size_t>(place), sorted.size() - 1);
  const auto above = std::min(below + 1, sorted.size() - 1);
  return std::fma(place - static_cast<double>(below), sorted[above] - sorted[below], sorted[below]);
}

TENON_INLINE double jain_index(std::span<const double> values) {
  double sum = 0, squares = 0;
  for (const double x : values) {
    sum += x;
    squares = std::fma(x, x, squares);
  }
  return squares > 0 ? sum * sum / (static_cast<double>(values.size()) * squares) : 1;
}

TENON_INLINE Spread spread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  double sum = 0;
  for (const double v : values) sum += v;
  return {values.empty() ? 0 : sum / static_cast<double>(values.size()), percentile(values, 50), percentile(values, 95),
          percentile(values, 99)};
}

TENON_INLINE double fairness(const ReplayResult& result) {
  std::vector<double> rates;
  for (const AdapterResult& a : result.adapters) {
    if (a.contended.count() > 0)
      rates.push_back(a.contended_service / (1e-9 * static_cast<double>(a.contended.count())));
  }
  return jain_index(rates);
}

TENON_INLINE Report report(std::string scheduler, const ReplayResult& result) {
  const auto ms = [](std::chrono::nanoseconds time) { return 1e-6 * static_cast<double>(time.count()); };
  Report r{.scheduler = std::move(scheduler)};
  std::vector<double> queued, first, per_token, latency;
  for (const RequestResult& request : result.requests) {
    if (request.refused) {
      ++r.refused;
      continue;
    }
    ++r.requests;
    r.prompt_tokens += static_cast<std::uint64_t>(request.prompt_tokens);
    r.new_tokens += static_cast<std::uint64_t>(request.new_tokens);
    queued.push_back(ms(request.admitted - request.arrival));
    first.push_back(ms(request.first_token - request.arrival));
    latency.push_back(ms(request.finished - request.arrival));
    if (request.new_tokens > 1)
      per_token.push_back(ms(request.finished - request.first_token) / (request.new_tokens - 1));
  }
  r.queue_ms = spread(std::move(queued));
  r.first_token_ms = spread(std::move(first));
  r.per_token_ms = spread(std::move(per_token));
  r.latency_ms = spread(std::move(latency));
  r.steps = result.steps;
  r.preemptions = result.preemptions;
  r.prefix_hit_tokens = result.prefix_hit_tokens;
  r.seconds = 1e-3 * ms(result.end);
  if (r.seconds > 0) {
    r.requests_per_second = static_cast<double>(r.requests) / r.seconds;
    r.tokens_per_second = static_cast<double>(r.new_tokens) / r.seconds;
    r.busy = static_cast<double>(result.busy.count()) / static_cast<double>(result.end.count());
  }
  if (r.steps > 0) r.occupancy = static_cast<double>(result.sequences) / static_cast<double>(result.steps);
  r.jain = fairness(result);
  return r;
}

}  // namespace tenon::lab

namespace tenon::lab::detail {

TENON_INLINE std::string fixed(double value, int digits) {
  char text[64];
  const int size = std::snprintf(text, sizeof text, "%.*f", digits, value);
  return {text, static_cast<std::size_t>(std::clamp(size, 0, static_cast<int>(sizeof text) - 1))};
}

TENON_INLINE std::string shortest(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

TENON_INLINE std::string quoted(std::string_view name) {
  std::string text = "\"";
  for (const char c : printable(name)) {
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  return text + "\"";
}

}  // namespace tenon::lab::detail

namespace tenon::lab {

TENON_INLINE std::string to_table(std::span<const Report> reports) {
  using detail::fixed;
  std::vector<detail::Line> lines;
  const auto line = [&](std::string name, auto value) {
    lines.push_back({std::move(name), {}});
    for (const Report& r : reports) lines.back().cells.push_back(value(r));
  };
  const auto spreads = [&](const std::string& name, Spread Report::*member, int digits) {
    line(name + " mean", [&](const Report& r) { return fixed((r.*member).mean, digits); });
    line("  p50", [&](const Report& r) { return fixed((r.*member).p50, digits); });
    line("  p95", [&](const Report& r) { return fixed((r.*member).p95, digits); });
    line("  p99", [&](const Report& r) { return fixed((r.*member).p99, digits); });
  };
  line("", [](const Report& r) { return printable(r.scheduler, 40); });
  line("requests", [](const Report& r) { return std::to_string(r.requests); });
  line("refused", [](const Report& r) { return std::to_string(r.refused); });
  line("seconds", [](const Report& r) { return fixed(r.seconds, 2); });
  line("requests/s", [](const Report& r) { return fixed(r.requests_per_second, 2); });
  line("new tokens/s", [](const Report& r) { return fixed(r.tokens_per_second, 1); });
  line("steps", [](const Report& r) { return std::to_string(r.steps); });
  line("occupancy", [](const Report& r) { return fixed(r.occupancy, 2); });
  line("busy, %", [](const Report& r) { return fixed(100 * r.busy, 1); });
  line("preemptions", [](const Report& r) { return std::to_string(r.preemptions); });
  line("prefix hit tokens", [](const Report& r) { return std::to_string(r.prefix_hit_tokens); });
  line("Jain's index", [](const Report& r) { return fixed(r.jain, 3); });
  spreads("in the queue, ms,", &Report::queue_ms, 1);
  spreads("first token, ms,", &Report::first_token_ms, 1);
  spreads("a token, ms,", &Report::per_token_ms, 2);
  spreads("latency, ms,", &Report::latency_ms, 1);
  std::size_t width = 12;
  for (const detail::Line& l : lines) {
    for (const std::string& cell : l.cells) width = std::max(width, cell.size());
  }
  std::string text;
  for (const detail::Line& l : lines) {
    text += l.name + std::string(24 - std::min<std::size_t>(l.name.size(), 24), ' ');
    for (const std::string& cell : l.cells) text += "  " + std::string(width - cell.size(), ' ') + cell;
    text += '\n';
  }
  return text;
}

TENON_INLINE std::string to_json(const Report& r) {
  using detail::shortest;
  std::string text = "{\"scheduler\": " + detail::quoted(r.scheduler);
  const auto count = [&](const char* key, std::uint64_t value) {
    text += ", \"" + std::string(key) + "\": " + std::to_string(value);
  };
  const auto number = [&](const char* key, double value) {
    text += ", \"" + std::string(key) + "\": " + shortest(value);
  };
  const auto spreads = [&](const char* key, const Spread& s) {
    text += ", \"" + std::string(key) + "\": {\"mean\": " + shortest(s.mean) + ", \"p50\": " + shortest(s.p50) +
            ", \"p95\": " + shortest(s.p95) + ", \"p99\": " + shortest(s.p99) + "}";
  };
  count("requests", r.requests);
  count("refused", r.refused);
  count("prompt_tokens", r.prompt_tokens);
  count("new_tokens", r.new_tokens);
  count("steps", r.steps);
  count("preemptions", r.preemptions);
  count("prefix_hit_tokens", r.prefix_hit_tokens);
  number("seconds", r.seconds);
  number("requests_per_second", r.requests_per_second);
  number("tokens_per_second", r.tokens_per_second);
  number("occupancy", r.occupancy);
  number("busy", r.busy);
  spreads("queue_ms", r.queue_ms);
  spreads("first_token_ms", r.first_token_ms);
  spreads("per_token_ms", r.per_token_ms);
  spreads("latency_ms", r.latency_ms);
  number("jain", r.jain);
  return text + "}\n";
}

TENON_INLINE std::string slots_csv(std::string_view scheduler, const ReplayResult& result) {
  std::string text;
  for (const Stay& s : result.stays) {
    text += std::string(scheduler) + "," + std::to_string(s.slot) + "," + std::to_string(s.request) + "," +
            std::to_string(result.requests[static_cast<std::size_t>(s.request)].adapter) + "," +
            detail::milliseconds(s.begin) + "," + detail::milliseconds(s.end) + "," + std::to_string(s.first_step) +
            "," + std::to_string(s.last_step) + "\n";
  }
  return text;
}

TENON_INLINE std::string slots_picture(const ReplayResult& result, int columns) {
  static constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  const auto names = [](const RequestResult& r) { return r.adapter >= 0; };
  const bool adapters = std::any_of(result.requests.begin(), result.requests.end(), names);
  int slots = 0;
  for (const Stay& s : result.stays) slots = std::max(slots, s.slot + 1);
  const auto width = static_cast<std::size_t>(std::max(columns, 1));
  std::vector<std::string> lines(static_cast<std::size_t>(slots), std::string(width, '.'));
  const double column = static_cast<double>(result.end.count()) / static_cast<double>(width);
  for (const Stay& s : result.stays) {
    const int who = adapters ? result.requests[static_cast<std::size_t>(s.request)].adapter : s.request;
    const char letter = who < 0 ? '-' : kLetters[static_cast<std::size_t>(who) % kLetters.size()];
    // The columns whose middle lies in [begin, end).
    const auto first =
        static_cast<std::size_t>(std::max(0.0, std::ceil(static_cast<double>(s.begin.count()) / column - 0.5)));
    for (std::size_t c = first;
         c < width && (static_cast<double>(c) + 0.5) * column < static_cast<double>(s.end.count()); ++c)
      lines[static_cast<std::size_t>(s.slot)][c] = letter;
  }
  std::string text;
  for (const std::string& l : lines) text += l + "\n";
  return text;
}

}  // namespace tenon::lab
