// tenon as a peer of bench/compare --adapters: batches whose requests have adapters on c_attn, and the time to the
// first token if clients use more adapters than there are slots.
//   adapters_peer DIR FORMAT
#include <tenon/tenon.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "../../apps/common/ceilings.h"
#include "adapter_batches.h"
#include "line_time.h"
#include "peer.h"

namespace {

using namespace tenon;
using Made = std::unique_ptr<AnyEngine>;

constexpr int kThreads = 2;

struct FormatEngine {
  const char* name;
  Made (*make)(const ModelFiles&, const ContinuousPolicy&, const EngineOptions&);
};

template <class P, class H = P>
Made made(const ModelFiles& files, const ContinuousPolicy& scheduler, const EngineOptions& options) {
  return std::make_unique<EngineBox<Engine<Gpt2, Weights<P>, Head<H>, Scheduler<ContinuousPolicy>>>>(files, scheduler,
                                                                                                     options);
}
constexpr FormatEngine kChoices[] = {{"float32", made<Float32>},
                                     {"float32_int8_exact", made<Float32, Int8Exact>},
                                     {"int8", made<ZeroPointInt8>},
                                     {"int8_int8_exact", made<ZeroPointInt8, Int8ExactOf<ZeroPointInt8>>},
                                     {"int8_act8", made<ZeroPointInt8Act8>}};

class Peer {
 public:
  Peer(const ModelFiles& files, const FormatEngine& choice)
      : files_(files),
        choice_(choice),
        engine_(choice.make(
            files, {.max_batch = 64},
            {.batch = 64, .cache_tokens = 64 * 64, .threads = kThreads, .prefix_reuse = false, .draft_tokens = 0})),
        batches_(*engine_),
        ceilings_(kThreads) {}

  nlohmann::json answer(const nlohmann::json& ask) {
    const std::string kind = ask["case"];
    if (kind == "line") return {{"line_ns", bench::line_ns()}};
    nlohmann::json row = ask;
    row.update({{"peer", "tenon"}, {"format", choice_.name}});
    row.update(kind.starts_with("slots:") ? slots(kind, ask["batch"], ask["tokens"])
                                          : decode(kind, ask["batch"], ask["tokens"]));
    return row;
  }

 private:
  nlohmann::json decode(const std::string& kind, int batch, int new_tokens) {
    program::Ceiling ceiling = ceilings_.measure();
    nlohmann::json row = batches_.decode(kind, batch, new_tokens);
    ceiling.add(ceilings_.measure());
    row["ceiling_gb_s"] = ceiling.read_gb_s;
    return row;
  }

  // "slots:S:C": C clients, each of which uses one of 16 adapters after another, in an engine of batch 8 with S slots.
  nlohmann::json slots(const std::string& kind, int batch, int new_tokens) {
    constexpr int kAdapters = 16, kEach = 16;
    const int count = std::stoi(kind.substr(6)), clients = std::stoi(kind.substr(kind.rfind(':') + 1));
    auto owned = choice_.make(
        files_, {.max_batch = batch},
        {.batch = batch, .threads = kThreads, .adapters = {.count = count}, .prefix_reuse = false, .draft_tokens = 0});
    AnyEngine& engine = *owned;
    Service<AnyEngine> service(std::move(owned));
    const auto name = [&](std::uint64_t draw) {
      return batches_.adapters().folder(static_cast<int>(draw % kAdapters), bench::kRank);
    };
    for (int i = 0; i < kAdapters; ++i) {
      const AdapterUse use{name(static_cast<std::uint64_t>(i))};
      engine.lease({&use, 1});
    }
    std::vector<std::vector<double>> waited(static_cast<std::size_t>(clients));
    std::vector<std::thread> threads;
    for (int c = 0; c < clients; ++c) {
      threads.emplace_back([&, c] {
        for (int i = 0; i < kEach; ++i) {
          const std::uint64_t draw = mix64(static_cast<std::uint64_t>(c * kEach + i));
          const int length = new_tokens / 2 +
                             static_cast<int>(draw / kAdapters %
                                              static_cast<std::uint64_t>(
                                                  new_tokens));  // random lengths, so that requests do not end together
          Request request{.adapters = {{name(draw)}}, .options = {.max_new_tokens = length, .ignore_eos = true}};
          for (TokenId t = 0; t < 32; ++t) request.input_ids.push_back((c * kEach + i) * 37 + t * 7919 % 5000);
          const auto begin = Clock::now();
          auto stream = service.submit(std::move(request), {.adapter_wait = std::chrono::minutes(1)});
          for (bool first = true; stream.next(); first = false) {
            if (first)
              waited[static_cast<std::size_t>(c)].push_back(
                  std::chrono::duration<double>(Clock::now() - begin).count());
          }
        }
      });
    }
    for (auto& thread : threads) thread.join();
    std::vector<double> all;
    for (const auto& each : waited) all.insert(all.end(), each.begin(), each.end());
    std::sort(all.begin(), all.end());
    const double mean = std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size());
    return {{"ttft_ms", 1e3 * mean}, {"ttft_p95_ms", 1e3 * all[all.size() * 95 / 100]}};
  }

  const ModelFiles& files_;
  const FormatEngine& choice_;
  Made engine_;
  bench::AdapterBatches batches_;
  program::Ceilings ceilings_;
};

}  // namespace

int main(int argc, char** argv) {
  const FormatEngine* choice =
      bench::chosen(argc, argv, "adapters_peer DIR FORMAT", kChoices, [](const FormatEngine& c) { return c.name; });
  if (!choice) return 2;
  const auto files = load_checkpoint(argv[1]);
  Peer peer(files, *choice);
  bench::answer_all([&](const nlohmann::json& ask) { return peer.answer(ask); });
}
