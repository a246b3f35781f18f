// tenon bench: prefill and decode on this machine, beside what the machine can do at best in the same run.
#include <algorithm>
#include <chrono>
#include <unordered_map>

#include "ceilings.h"
#include "commands.h"
#include "exits.h"
#include "families.h"
#include "output.h"
#include "progress.h"
#include "shapes.h"
#include "tenon/core/error.h"
#include "tenon/model/random.h"

namespace program {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kPrefillTokens = 512;
constexpr double kEnoughMs = 1000;  // of measured steps, where one run is shorter than that

// What whole steps of one case came to.
struct Measured {
  std::string_view name;
  int batch = 0;
  double tokens = 0, rows = 0, logit_rows = 0;  // of a step
  double sequences = 0, context = 0;            // that a step reads keys and values of, and their mean length
  double ms = 0;                                // the median
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return values.empty() ? 0 : *middle;
}

class Bench {
 public:
  Bench(tenon::AnyEngine& engine, std::uint64_t seed) : engine_(engine), seed_(seed) {}

  // Steps in which every sequence writes one token, but for the first two of each run.
  Measured decode(int batch, int prompt, int new_tokens) {
    std::vector<Step> steps;
    for (double total = 0, runs = 0; runs == 0 || (total < kEnoughMs && runs < 20); ++runs) {
      const std::size_t before = steps.size();
      decode_once(batch, prompt, new_tokens, steps);
      for (std::size_t i = before; i < steps.size(); ++i) total += steps[i].ms;
    }
    if (steps.empty())
      throw tenon::Error(tenon::Error::Kind::invalid_request, "--new", "is too small: no step was decoding alone");
    const int most =
        std::max_element(steps.begin(), steps.end(), [](auto& a, auto& b) { return a.tokens < b.tokens; })->tokens;
    std::erase_if(steps, [&](const Step& step) { return step.tokens < most; });
    if (most < batch)
      say(formatted("decode, batch %d: at most %d sequences ran at once (--scheduler, --cache-tokens)", batch, most));
    std::vector<double> ms;
    double rows = 0, context = 0;
    for (const Step& step : steps) {
      ms.push_back(step.ms);
      rows += step.rows / static_cast<double>(steps.size());
      context += step.context / static_cast<double>(steps.size());
    }
    const double tokens = most;
    return {.name = "decode",
            .batch = batch,
            .tokens = tokens,
            .rows = rows,
            .logit_rows = tokens,
            .sequences = tokens,
            .context = context,
            .ms = median(ms)};
  }

  // A prompt and its first token; the time of all steps that it takes.
  Measured prefill() {
    const int prompt = std::min(kPrefillTokens, engine_.config().positions);
    std::vector<double> ms;
    double steps = 1;
    prefill_once(prompt);  // warm-up
    for (double total = 0; ms.size() < 5 || (total < kEnoughMs && ms.size() < 200); total += ms.back()) {
      const std::uint64_t before = engine_.stats().steps;
      ms.push_back(prefill_once(prompt));
      steps = static_cast<double>(engine_.stats().steps - before);
    }
    return {.name = "prefill",
            .batch = 1,
            .tokens = prompt / steps,
            .rows = prompt / steps,
            .logit_rows = 1 / steps,
            .sequences = 1,
            .context = static_cast<double>(prompt),
            .ms = median(ms) / steps};
  }

 private:
  struct Step {
    double ms = 0;
    int tokens = 0;
    double rows = 0;     // as many as tokens, but where no cache keeps what was computed
    double context = 0;  // mean over its sequences
  };

  tenon::RequestId submit(int prompt, int new_tokens) {
    const auto vocab = static_cast<std::uint64_t>(engine_.config().vocab);
    std::vector<tenon::TokenId> ids;
    for (int i = 0; i < prompt; ++i) ids.push_back(static_cast<tenon::TokenId>(tenon::mix(seed_ ^ drawn_++) % vocab));
    return engine_.submit({.input_ids = std::move(ids), .options = {.max_new_tokens = new_tokens, .ignore_eos = true}});
  }

  // The events of a step and its duration.
  std::span<const tenon::Event> timed_step(double& ms) {
    const auto begin = Clock::now();
    const auto events = engine_.step();
    ms = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
    for (const tenon::Event& event : events) {
      if (event.kind == tenon::Event::Kind::error)
        throw tenon::Error(tenon::Error::Kind::internal, "bench", event.error);
    }
    return events;
  }

  void decode_once(int batch, int prompt, int new_tokens, std::vector<Step>& steps) {
    std::unordered_map<tenon::RequestId, int> written;
    for (int i = 0; i < batch; ++i) written[submit(prompt, new_tokens)] = 0;
    int warm_up = std::min(2, (new_tokens - 1) / 2);
    while (!engine_.idle()) {
      Step step;
      const std::uint64_t rows_before = engine_.stats().rows;
      const auto events = timed_step(step.ms);
      step.rows = static_cast<double>(engine_.stats().rows - rows_before);
      bool decodes = true;
      for (const tenon::Event& event : events) {
        if (event.kind != tenon::Event::Kind::token) continue;
        int& count = written.at(event.request);
        decodes = decodes && count > 0;
        step.context += prompt + count;
        ++step.tokens;
        ++count;
      }
      step.context /= std::max(step.tokens, 1);
      if (decodes && step.tokens > 0 && warm_up-- <= 0) steps.push_back(step);
    }
  }

  double prefill_once(int prompt) {
    submit(prompt, 1);
    double total = 0, ms = 0;
    for (; !engine_.idle(); total += ms) timed_step(ms);
    return total;
  }

  tenon::AnyEngine& engine_;
  std::uint64_t seed_, drawn_ = 0;
};

// Bytes and operations of a step, by count.
class Traffic {
 public:
  Traffic(const tenon::ModelConfig& config, const ModelOptions& options) : config_(config) {
    const auto named = [](auto formats, const std::string& name) {
      return *std::find_if(formats.begin(), formats.end(), [&](const auto& f) { return f.name == name; });
    };
    count_ = with_family(config.model_type, [&](auto family) {
      const WeightFormat format = named(weight_formats(), options.weights);
      return count_weights(decltype(family)::tensors(config), config.tied_head, format);
    });
    kv_bytes_ = static_cast<double>(named(kv_formats(), options.kv).token_bytes(config.kv()));
  }

  // Blocks and head once; of the embedding and the positions the rows that are looked up; keys and values at the mean
  // context.
  double bytes(const Measured& m) const {
    const double row = static_cast<double>(config_.hidden) * sizeof(float);
    const double embedding_row = static_cast<double>(count_.embedding_bytes) / config_.vocab;
    return static_cast<double>(count_.matrix_bytes + count_.vector_bytes + count_.head_bytes) +
           m.rows * (embedding_row + (count_.position_bytes > 0 ? row : 0)) + m.sequences * seen(m.context) * kv_bytes_;
  }

  double seen(double context) const { return config_.window > 0 ? std::min<double>(context, config_.window) : context; }

  // Of the matrix products: what attention adds is small at these lengths.
  double operations(const Measured& m) const {
    const double head = static_cast<double>(config_.vocab) * config_.hidden;
    return 2 * (static_cast<double>(count_.matrix_parameters) * m.rows + head * m.logit_rows);
  }

 private:
  const tenon::ModelConfig& config_;
  WeightCount count_;
  double kv_bytes_ = 0;  // of one token
};

std::string json_row(const Measured& m, const BenchCommand& command, const Traffic& traffic, const Ceilings& ceilings) {
  const double bytes = traffic.bytes(m);
  return formatted(
      "{\"case\": \"%s\", \"weights\": \"%s\", \"device\": \"%s\", \"threads\": %d, \"batch\": %d, \"tok_s\": %.6g, "
      "\"ms_per_step\": %.6g, \"bytes_per_step\": %.0f, \"gb_s\": %.6g, \"ceiling_gb_s\": %.6g, \"peak_gops\": %.6g}\n",
      std::string(m.name).c_str(), command.model.weights.c_str(), command.model.device.c_str(),
      thread_count(command.model), m.batch, 1e3 * m.tokens / m.ms, m.ms, bytes, bytes / m.ms * 1e-6,
      ceilings.read_gb_s(), ceilings.fma_gflops());
}

std::string table(const std::vector<Measured>& rows, const BenchCommand& command, const Traffic& traffic,
                  const Ceilings& ceilings) {
  std::string text =
      formatted("%s on %s, %d threads (%s); ceilings of this run: read %.1f GB/s, float32 FMA %.0f GFLOP/s\n\n",
                command.model.weights.c_str(), command.model.device.c_str(), thread_count(command.model),
                tenon::to_string(ceilings.isa()), ceilings.read_gb_s(), ceilings.fma_gflops());
  text += "case     batch     tok/s   ms/step   MB/step    GB/s  of read  GFLOP/s  of FMA\n";
  for (const Measured& m : rows) {
    const double gb_s = traffic.bytes(m) / m.ms * 1e-6, gflops = traffic.operations(m) / m.ms * 1e-6;
    text += formatted("%-8s %5d %9.1f %9.3f %9.1f %7.2f %7.0f%% %8.1f %6.0f%%\n", std::string(m.name).c_str(), m.batch,
                      1e3 * m.tokens / m.ms, m.ms, traffic.bytes(m) * 1e-6, gb_s, 100 * gb_s / ceilings.read_gb_s(),
                      gflops, 100 * gflops / ceilings.fma_gflops());
  }
  return text;
}

tenon::ModelFiles files_of(const BenchCommand& command) {
  if (command.random.empty()) return open_model(command.model);
  std::string list;
  for (const KnownShape& shape : known_shapes()) {
    if (shape.name == command.random) return tenon::random_checkpoint(shape.config(), command.model.seed);
    list += (list.empty() ? "" : ", ") + std::string(shape.name);
  }
  throw UsageError("--random knows no shape " + command.random + "; known: " + list);
}

// Cache for the largest batch, whole blocks of any size; where every sequence has a slot for the longest text, the
// library's default bounds the memory.
int cache_tokens(const BenchCommand& command) {
  if (command.model.cache_tokens > 0 || command.model.cache == "contiguous") return command.model.cache_tokens;
  const long long batch = *std::max_element(command.batches.begin(), command.batches.end());
  const long long each = (command.prompt + command.new_tokens + 63) / 64 * 64;
  return static_cast<int>(std::min<long long>(std::max<long long>(batch * each, 2 * kPrefillTokens), 1 << 30));
}

}  // namespace

int bench(const BenchCommand& command) {
  ModelOptions options = command.model;
  options.batch = *std::max_element(command.batches.begin(), command.batches.end());
  options.cache_tokens = cache_tokens(command);
  const auto engine = make_engine(options, files_of(command));
  engine->set_draining(true);

  Ceilings ceilings(options.threads);
  for (int i = 0; i < 5; ++i) ceilings.measure();
  Bench bench(*engine, options.seed);
  std::vector<Measured> rows;
  std::vector<std::pair<std::string, int>> cases;
  for (const auto& name : command.cases) {
    if (name == "prefill")
      cases.emplace_back(name, 1);
    else
      for (const int batch : command.batches) cases.emplace_back(name, batch);
  }
  Progress progress("cases", cases.size());
  for (const auto& [name, batch] : cases) {
    rows.push_back(name == "prefill" ? bench.prefill() : bench.decode(batch, command.prompt, command.new_tokens));
    for (int i = 0; i < 2; ++i) ceilings.measure();
    progress.update(rows.size(), engine->stats().tokens);
  }
  progress.clear();

  const Traffic traffic(engine->config(), options);
  Output output;
  if (command.json) {
    for (const Measured& m : rows) output.write(json_row(m, command, traffic, ceilings));
  } else {
    output.write(table(rows, command, traffic, ceilings));
  }
  output.flush();
  return 0;
}

}  // namespace program
