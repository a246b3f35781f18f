// What /metrics tells: counted here as requests come and go, and rendered for Prometheus with what the service says.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "serve/ops/histogram.h"
#include "tenon/adapter/options.h"
#include "tenon/core/request.h"
#include "tenon/engine/service_inbox.h"

namespace serve {

// The values of err in lorax_request_failure.
enum class FailureKind {
  validation,
  overloaded,
  generation,
  incomplete,
  dropped,
  download_adapter,
  load_adapter,
  offload_adapter
};
inline constexpr std::size_t kFailureKinds = 8;

// A request that was answered in full. Durations in seconds, of a monotonic clock.
struct Finished {
  std::string key = {};      // its name; empty: the server has none
  std::string adapter = {};  // empty: none
  int prompt_tokens = 0;
  int generated_tokens = 0;  // of all its choices
  int max_new_tokens = 0;
  tenon::FinishReason reason = tenon::FinishReason::length;
  double total = 0;  // from arrival, before tokenizing, to the last token
  double validation = 0;
  double queue = 0;             // from submission until it first ran
  double inference = 0;         // from then on
  double first_token = 0;       // from arrival
  double per_output_token = 0;  // (last - first) / (n - 1); 0 where n is 1, and then not counted
};

// What is asked of others when somebody looks.
struct Snapshot {
  tenon::ServiceStats service;
  tenon::AdapterStats adapters;
  std::vector<std::string> resident = {};                                 // names of adapters in memory
  std::vector<std::string> running_adapters = {}, waiting_adapters = {};  // of requests, where that is known
  int adapter_slots = 0;                                                  // 0: any number
  std::uint64_t log_lines_lost = 0;
  std::string model;
  bool vllm = true;  // with vLLM's names
};

// How busy the engine is, as the metrics say and the page shows.
struct Load {
  int running = 0;        // requests whose answer has begun
  int waiting = 0;        // of whose answer nothing has come yet
  double cache_used = 0;  // part of the cache, from 0 to 1
};
Load load_of(const tenon::ServiceStats& service, const tenon::AdapterStats& adapters);

// Any thread; nothing waits for longer than a few additions, or a copy of some kilobytes while somebody looks.
class Metrics {
 public:
  void request_begins();
  void request_failed(FailureKind kind);
  void request_finished(const Finished& request);
  void token_gap(double seconds);          // between two tokens of a stream
  void fields_ignored(std::size_t count);  // of a request to a lenient server
  void rate_limited(const std::string& key);

  // Prometheus text, version 0.0.4. An adapter that is no longer resident counts as `other` from here on: its own
  // counter begins anew if it comes back, and that of `other` never falls.
  std::string text(const Snapshot& snapshot) const;

 private:
  // Pairs of a key and an adapter with counters of their own between two looks; the rest is the key's `other`.
  static constexpr std::size_t kMostUses = 1024;

  struct Use {
    std::uint64_t requests = 0, prompt_tokens = 0, generated_tokens = 0;

    Use& operator+=(const Use& more);
  };

  struct Counts {
    std::uint64_t begun = 0, prompt_tokens = 0, generated_tokens = 0, ignored_fields = 0;
    std::array<std::uint64_t, kFailureKinds> failures{};
    std::array<std::uint64_t, 6> finished{};  // by tenon::FinishReason
    Histogram duration{kLoraxSeconds}, validation{kLoraxSeconds}, queue{kLoraxSeconds}, inference{kLoraxSeconds},
        per_token{kLoraxSeconds};
    Histogram input_length{kTokenCounts}, max_new_tokens{kTokenCounts}, generated_length{kTokenCounts};
    Histogram first_token{kFirstTokenSeconds}, gap{kGapSeconds}, output_token{kGapSeconds};
    Histogram latency{kRequestSeconds}, queue_time{kRequestSeconds}, prefill{kRequestSeconds}, decode{kRequestSeconds};
    std::map<std::pair<std::string, std::string>, Use> uses;  // by key and adapter; the adapter "" is the model alone
    std::map<std::string, Use> others;                        // by key
    std::map<std::string, std::uint64_t> rate_limited;        // by key
  };

  Counts copy(const Snapshot& snapshot) const;

  mutable std::mutex mutex_;
  mutable Counts counts_;
};

}  // namespace serve
