#pragma once
#include <algorithm>
#include <cmath>

#include "tenon/core/require.h"
#include "tenon/lab/trace.h"

namespace tenon::lab::detail {

TENON_INLINE TraceRequest parse_request(std::string_view line, const std::string& where) {
  constexpr Error::Kind kRefusal = Error::Kind::invalid_file;
  const Json json = parse_json(line, where, {.depth = 4, .refusal = kRefusal});
  const Fields fields(json, where, {}, kRefusal);
  for (const auto& [key, value] : json.items()) {
    constexpr std::string_view kKnown[] = {"arrival_ms", "prompt_tokens", "new_tokens",   "adapter",
                                           "priority",   "prefix",        "prefix_tokens"};
    if (std::find(std::begin(kKnown), std::end(kKnown), key) == std::end(kKnown)) {
      fields.refuse(key,
                    "is an unknown field; known are arrival_ms, prompt_tokens, new_tokens, adapter, priority, "
                    "prefix and prefix_tokens");
    }
  }
  TraceRequest request;
  request.arrival = std::chrono::nanoseconds(std::llround(fields.number("arrival_ms", 0, kLongestMs) * 1e6));
  request.prompt_tokens = fields.integer("prompt_tokens", 1, kMostTokens);
  request.new_tokens = fields.integer("new_tokens", 1, kMostTokens);
  request.adapter = fields.integer("adapter", -1, kMostTokens, -1);
  request.priority = fields.integer("priority", -kMostTokens, kMostTokens, 0);
  request.prefix = fields.integer("prefix", -1, kMostTokens, -1);
  request.prefix_tokens = fields.integer("prefix_tokens", 0, request.prompt_tokens, 0);
  if (request.prefix < 0 && request.prefix_tokens > 0)
    fields.refuse("prefix_tokens", "needs the field prefix beside it");
  return request;
}

TENON_INLINE std::string milliseconds(std::chrono::nanoseconds time) {
  std::string text = std::to_string(time.count() / 1'000'000);
  if (const auto rest = time.count() % 1'000'000; rest != 0) {
    const std::string digits = std::to_string(rest);
    text += "." + std::string(6 - digits.size(), '0') + digits;
    while (text.back() == '0') text.pop_back();
  }
  return text;
}

}  // namespace tenon::lab::detail

namespace tenon::lab {

TENON_INLINE Trace parse_trace(std::string_view text, const std::string& file) {
  Trace trace;
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    trace.push_back(detail::parse_request(line, file + " line " + std::to_string(number)));
  }
  std::stable_sort(trace.begin(), trace.end(), [](const auto& a, const auto& b) { return a.arrival < b.arrival; });
  return trace;
}

TENON_INLINE Trace read_trace(const std::filesystem::path& path) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30;
  return parse_trace(read_text_file(path, kMostBytes), file_name_of(path));
}

TENON_INLINE std::string format_trace(const Trace& trace) {
  std::string text;
  for (const TraceRequest& r : trace) {
    text += "{\"arrival_ms\": " + detail::milliseconds(r.arrival) +
            ", \"prompt_tokens\": " + std::to_string(r.prompt_tokens) +
            ", \"new_tokens\": " + std::to_string(r.new_tokens);
    if (r.adapter >= 0) text += ", \"adapter\": " + std::to_string(r.adapter);
    if (r.priority != 0) text += ", \"priority\": " + std::to_string(r.priority);
    if (r.prefix >= 0) text += ", \"prefix\": " + std::to_string(r.prefix);
    if (r.prefix_tokens > 0) text += ", \"prefix_tokens\": " + std::to_string(r.prefix_tokens);
    text += "}\n";
  }
  return text;
}

}  // namespace tenon::lab

namespace tenon::lab::detail {

TENON_INLINE double uniform(std::uint64_t seed, Draw what, int request) {
  const PhiloxCounter counter = {static_cast<std::uint32_t>(request), static_cast<std::uint32_t>(what), 0x6c6162, 0};
  const auto bits = philox4x32_10(counter, {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
  return static_cast<double>((std::uint64_t{bits[0]} << 21) ^ (bits[1] >> 11)) * 0x1p-53;
}

TENON_INLINE int draw(const Length& length, double uniform) {
  if (length.kind == Length::Kind::fixed) return length.low;
  if (length.kind == Length::Kind::uniform) {
    return length.low + static_cast<int>(uniform * (static_cast<double>(length.high) - length.low + 1));
  }
  const double drawn = std::ceil(exponential(uniform) * length.mean);
  return static_cast<int>(std::clamp(drawn, static_cast<double>(length.low), static_cast<double>(length.high)));
}

TENON_INLINE void check(const Length& length, const char* name) {
  const bool ordered = length.low >= 1 && length.high >= length.low && length.high <= kMostTokens;
  tenon::detail::require(ordered, name, "must be from 1 to 2^30 tokens, with the least at most the most");
  tenon::detail::require(std::isfinite(length.mean) && length.mean >= 0, name, "must have a finite mean, 0 or more");
}

TENON_INLINE void check(const TraceOptions& o) {
  using tenon::detail::require;
  require(o.requests >= 0, "requests", "must be 0 or more");
  require(std::isfinite(o.rate) && o.rate >= 0, "rate", "must be a finite number, 0 (all at once) or more");
  require(o.adapters >= 0, "adapters", "must be 0 (none) or more");
  require(std::isfinite(o.zipf) && o.zipf >= 0, "zipf", "must be a finite number, 0 or more");
  require(o.prefix_tokens >= 0 && o.prefix_tokens <= kMostTokens, "prefix_tokens",
          "must be 0 (none) or more, and at most 2^30");
  check(o.prompt, "prompt");
  check(o.new_tokens, "new_tokens");
}

}  // namespace tenon::lab::detail

namespace tenon::lab {

TENON_INLINE Trace random_trace(const TraceOptions& options) {
  using detail::Draw;
  detail::check(options);
  std::vector<double> shares;  // cumulative shares of adapters
  for (int k = 0; k < options.adapters; ++k) {
    const double share = exact::exp(static_cast<float>(-options.zipf * exact::log(k + 1.0)));
    shares.push_back(share + (shares.empty() ? 0 : shares.back()));
  }
  Trace trace(static_cast<std::size_t>(options.requests));
  std::chrono::nanoseconds now{};
  for (int i = 0; i < options.requests; ++i) {
    const auto uniform = [&](Draw what) { return detail::uniform(options.seed, what, i); };
    TraceRequest& request = trace[static_cast<std::size_t>(i)];
    if (options.rate > 0) {
      const double gap = std::min(detail::exponential(uniform(Draw::gap)) / options.rate,
                                  1e-3 * detail::kLongestMs / options.requests);
      now += std::chrono::nanoseconds(std::llround(gap * 1e9));
    }
    request.arrival = now;
    request.prompt_tokens = detail::draw(options.prompt, uniform(Draw::prompt));
    request.new_tokens = detail::draw(options.new_tokens, uniform(Draw::new_tokens));
    if (options.adapters > 0) {
      const auto drawn = std::upper_bound(shares.begin(), shares.end(), uniform(Draw::adapter) * shares.back());
      request.adapter = static_cast<int>(std::min(drawn, shares.end() - 1) - shares.begin());
    }
    if (options.prefix_tokens > 0) {
      request.prefix = request.adapter + 1;
      request.prefix_tokens = options.prefix_tokens;
      request.prompt_tokens += std::min(options.prefix_tokens, detail::kMostTokens - request.prompt_tokens);
    }
  }
  return trace;
}

}  // namespace tenon::lab
