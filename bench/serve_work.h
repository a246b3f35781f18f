// The workload of bench/serve for a server and for an engine in process, and the report of both.
#pragma once
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace bench {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;
using Time = Clock::time_point;

inline double seconds_between(Time from, Time to) { return std::chrono::duration<double>(to - from).count(); }
inline Clock::duration seconds(double count) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(count));
}

// A random number that depends on the arguments only (the finalizer of splitmix64).
inline std::uint64_t draw(std::uint64_t seed, std::uint64_t a, std::uint64_t b = 0) {
  std::uint64_t x =
      seed * 0x9e3779b97f4a7c15U + a * 0xbf58476d1ce4e5b9U + b * 0x94d049bb133111ebU + 0x2545f4914f6cdd1dU;
  for (int i = 0; i < 2; ++i)
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U, x = (x ^ (x >> 27)) * 0x94d049bb133111ebU, x ^= x >> 31;
  return x;
}
// Uniform in [0, 1).
inline double draw_unit(std::uint64_t seed, std::uint64_t a, std::uint64_t b = 0) {
  return static_cast<double>(draw(seed, a, b) >> 11) * 0x1p-53;
}

// One request of a workload.
struct Asked {
  std::string prompt = {};
  int new_tokens = 0;
  std::string adapter = {};  // empty: none
};

// Request i depends on the seed and i only: its length by the shares, its adapter by Zipf's law.
class Work {
 public:
  explicit Work(const Json& ask)
      : seed_(ask.value("seed", std::uint64_t{1})), adapters_(ask.value("adapters", std::vector<std::string>{})) {
    for (const Json& each : ask.value("lengths", Json::array({{{"share", 1}, {"words", 12}, {"new_tokens", 64}}}))) {
      lengths_.push_back({each.at("share"), each.at("words"), each.at("new_tokens")});
    }
    double sum = 0;
    for (const Length& each : lengths_) sum += each.share;
    for (Length& each : lengths_) each.share /= sum;
    for (std::size_t i = 0; i < adapters_.size(); ++i) {
      zipf_.push_back((i == 0 ? 0 : zipf_.back()) + std::pow(static_cast<double>(i + 1), -ask.value("zipf", 1.0)));
    }
  }

  Asked request(std::uint64_t i) const {
    const Length& length = length_of(draw_unit(seed_, i, 1));
    Asked asked{.adapter = adapter_of(draw_unit(seed_, i, 2))};
    // 0.5 to 1.5 times the length, so that requests do not end together.
    asked.new_tokens = std::max(1, static_cast<int>(length.new_tokens * (0.5 + draw_unit(seed_, i, 3))));
    for (int w = 0; w < length.words; ++w) {
      asked.prompt += (w ? " " : "") + word(draw(seed_, i, static_cast<std::uint64_t>(w) + 4));
    }
    return asked;
  }

 private:
  struct Length {
    double share;
    int words, new_tokens;
  };

  static std::string word(std::uint64_t drawn) {
    static constexpr const char* words[] = {
        "the",   "old",   "king",   "said", "that",  "his",  "ship",   "was",  "lost",  "at",      "sea",
        "and",   "no",    "man",    "knew", "where", "it",   "lay",    "but",  "one",   "morning", "a",
        "boy",   "came",  "down",   "to",   "shore", "with", "bird",   "on",   "hand",  "which",   "could",
        "speak", "every", "tongue", "of",   "land",  "rain", "fell",   "upon", "house", "all",     "night",
        "while", "she",   "sat",    "by",   "fire",  "read", "from",   "book", "great", "many",    "years",
        "ago",   "there", "lived",  "in",   "wood",  "poor", "miller", "had",  "three"};
    return words[drawn % std::size(words)];
  }
  const Length& length_of(double unit) const {
    for (const Length& each : lengths_) {
      if (unit < each.share) return each;
      unit -= each.share;
    }
    return lengths_.back();
  }
  std::string adapter_of(double unit) const {
    if (adapters_.empty()) return {};
    const auto at = std::upper_bound(zipf_.begin(), zipf_.end(), unit * zipf_.back()) - zipf_.begin();
    return adapters_[std::min(static_cast<std::size_t>(at), adapters_.size() - 1)];
  }

  std::uint64_t seed_;
  std::vector<std::string> adapters_;
  std::vector<double> zipf_;  // cumulative sums of 1 / rank^s
  std::vector<Length> lengths_;
};

inline double rounded(double value) { return std::round(value * 1000) / 1000; }

inline Json quantiles(std::vector<double>& values) {
  if (values.empty()) return {{"n", 0}};
  std::sort(values.begin(), values.end());
  const auto at = [&](std::size_t percent) {
    return rounded(values[std::min(values.size() - 1, values.size() * percent / 100)]);
  };
  return {{"n", values.size()}, {"p50", at(50)}, {"p95", at(95)}, {"p99", at(99)}, {"max", rounded(values.back())}};
}

// The times of one request. Without a stream, the first token is the last.
struct Course {
  Time asked{}, first{}, last{};
  int tokens = 0;

  void token(Time now) {
    if (tokens++ == 0) first = now;
    last = now;
  }
};

// Requests and tokens of a time window.
class Tally {
 public:
  Tally(const Json& ask, Time begin, Time end)
      : begin_(begin),
        end_(end),
        slo_ttft_(ask.value("slo_ttft_ms", 500.0)),
        slo_tpot_(ask.value("slo_tpot_ms", 50.0)) {}

  bool holds(Time moment) const { return moment >= begin_ && moment < end_; }
  Time end() const { return end_; }

  void token(Time before, Time now, int count = 1) {
    if (!holds(now)) return;
    tokens_ += count;
    if (before != Time{}) gap_.push_back(1e3 * seconds_between(before, now));
  }
  // Records a complete answer.
  void request(const Course& c) {
    if (!holds(c.last)) return;
    const double ttft = 1e3 * seconds_between(c.asked, c.first);
    const double tpot = c.tokens > 1 ? 1e3 * seconds_between(c.first, c.last) / (c.tokens - 1) : 0;
    ttft_.push_back(ttft);
    if (c.first != c.last) tpot_.push_back(tpot);
    total_.push_back(1e3 * seconds_between(c.asked, c.last));
    good_ += ttft <= slo_ttft_ && tpot <= slo_tpot_;
  }
  void refused(Time now) { refused_ += holds(now); }
  void failed(Time now) { failed_ += holds(now); }

  void add(const Tally& more) {
    tokens_ += more.tokens_, good_ += more.good_, refused_ += more.refused_, failed_ += more.failed_;
    const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
    append(ttft_, more.ttft_), append(tpot_, more.tpot_), append(gap_, more.gap_), append(total_, more.total_);
  }

  // Times in milliseconds, rates per second. goodput: rate of the requests within both limits of the service level.
  Json row() {
    const double time = seconds_between(begin_, end_);
    const auto rate = [&](auto count) { return rounded(static_cast<double>(count) / time); };
    return {{"seconds", time},
            {"tok_s", rate(tokens_)},
            {"req_s", rate(total_.size())},
            {"goodput", rate(good_)},
            {"refused", refused_},
            {"failed", failed_},
            {"ttft_ms", quantiles(ttft_)},
            {"tpot_ms", quantiles(tpot_)},
            {"gap_ms", quantiles(gap_)},
            {"total_ms", quantiles(total_)}};
  }

 private:
  Time begin_, end_;
  double slo_ttft_, slo_tpot_;
  long tokens_ = 0, good_ = 0, refused_ = 0, failed_ = 0;
  std::vector<double> ttft_, tpot_, gap_, total_;
};

// Processor time of this process in seconds.
inline double cpu_seconds() {
  rusage use{};
  ::getrusage(RUSAGE_SELF, &use);
  const auto of = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return of(use.ru_utime) + of(use.ru_stime);
}

}  // namespace bench
