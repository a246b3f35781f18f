// tenon as a peer of bench/compare, with the lines of bench/peers/work.py. An answer also has the bytes and operations
// per second of its steps, and the machine's ceilings in the same seconds.
//   tenon_peer DIR FORMAT
#include <tenon/tenon.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "../../apps/common/ceilings.h"
#include "../formats.h"
#include "engine_work.h"
#include "line_time.h"
#include "peer.h"

namespace {

using namespace tenon;
using Made = std::unique_ptr<AnyEngine>;

constexpr int kThreads = 2;

// A weight format and its engine. The engine is an AnyEngine, so that the work is compiled once for all formats.
struct FormatEngine {
  program::WeightFormat weights;
  Made (*make)(const ModelFiles&, const AnyScheduler&, const EngineOptions&);
};

std::vector<FormatEngine> choices() {
  std::vector<FormatEngine> all;
  bench::for_each_format([&]<class P>(bench::Format<P> format) {
    using Served = Engine<AnyFamily<>, Weights<P>, Scheduler<AnyScheduler>>;
    all.push_back({{format.name, [](Shape shape) { return P::bytes(shape); }},
                   [](const ModelFiles& files, const AnyScheduler& scheduler, const EngineOptions& options) -> Made {
                     return std::make_unique<EngineBox<Served>>(files, scheduler, options);
                   }});
  });
  return all;
}

// No prefix reuse: a round must not reuse the prompts of the previous round. No guesses: rates are of plain steps.
EngineOptions engine_options(int token_budget) {
  return {.token_budget = token_budget,
          .batch = 128,
          .cache_tokens = 128 * 64,
          .threads = kThreads,
          .prefix_reuse = false,
          .draft_tokens = 0};
}

// 32 requests, batch 8; every eighth has 100 new tokens, the others 10.
bench::Result experiment6(AnyEngine& engine) {
  int tokens = 0;
  for (int i = 0; i < 32; ++i) {
    const int new_tokens = i % 8 == 0 ? 100 : 10;
    engine.submit(bench::request(bench::kPrompt, new_tokens));
    tokens += new_tokens;
  }
  engine.set_draining(true);
  return {.tok_s = tokens / bench::seconds_of([&] { bench::finish(engine); })};
}

class Peer {
 public:
  Peer(const ModelFiles& files, const FormatEngine& choice)
      : files_(files),
        choice_(choice),
        engine_(choice.make(files, AnyScheduler(ContinuousPolicy{.max_batch = 128, .token_budget = 1024}),
                            engine_options(1024))),
        traffic_(engine_->config(), choice.weights,
                 {"float32", [](const KvShape& s) { return s.tile_bytes<float>(); }}),
        ceilings_(kThreads) {}

  nlohmann::json answer(const nlohmann::json& ask) {
    const std::string name = ask["case"];
    if (name == "line") return {{"line_ns", bench::line_ns()}};
    program::Ceiling ceiling = ceilings_.measure();
    const bench::Result result = run(name, ask["batch"], ask["tokens"]);
    ceiling.add(ceilings_.measure());
    nlohmann::json row = ask;
    row.update({{"peer", "tenon"},
                {"format", choice_.weights.name},
                {"tok_s", result.tok_s},
                {"weight_bytes", engine_->weight_bytes()},
                {"isa", to_string(ceilings_.isa())}});
    if (result.steps_s == 0) return row;
    row.update({{"gb_s", traffic_.bytes(result.step) * result.steps_s * 1e-9},
                {"gops", traffic_.operations(result.step) * result.steps_s * 1e-9},
                {"instruction", to_string(ceilings_.instruction_of(choice_.weights.name))},
                {"ceiling_gb_s", ceiling.read_gb_s}});
    for (int i = 0; i < program::kInstructions; ++i) {
      const auto instruction = static_cast<program::Instruction>(i);
      if (ceilings_.has(instruction)) row["peak_gops"][to_string(instruction)] = ceiling.peak_gops(instruction);
    }
    return row;
  }

 private:
  bench::Result run(const std::string& name, int batch, int tokens) {
    if (name == "decode") return bench::decode(*engine_, batch, tokens);
    if (name == "prefill") return bench::prefill(*engine_, tokens);
    const AnyScheduler scheduler = name == "experiment6_static" ? AnyScheduler(StaticPolicy{.n = 8})
                                                                : AnyScheduler(ContinuousPolicy{.max_batch = 8});
    return experiment6(*choice_.make(files_, scheduler, engine_options(512)));
  }

  const ModelFiles& files_;
  const FormatEngine& choice_;
  Made engine_;
  program::Traffic traffic_;
  program::Ceilings ceilings_;
};

}  // namespace

int main(int argc, char** argv) {
  const auto all = choices();
  const FormatEngine* choice =
      bench::chosen(argc, argv, "tenon_peer DIR FORMAT", all, [](const FormatEngine& c) { return c.weights.name; });
  if (!choice) return 2;
  const auto files = load_checkpoint(argv[1]);
  Peer peer(files, *choice);
  bench::answer_all([&](const nlohmann::json& ask) { return peer.answer(ask); });
}
