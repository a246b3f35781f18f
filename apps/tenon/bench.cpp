// tenon bench: prefill and decode on this machine, compared with the machine's ceilings in the same run.
#include <algorithm>
#include <chrono>
#include <unordered_map>
#include <utility>

#include "ceilings.h"
#include "commands.h"
#include "exits.h"
#include "output.h"
#include "progress.h"
#include "shapes.h"
#include "tenon/core/error.h"
#include "tenon/model/random.h"
#include "tenon/weights/int8_exact.h"
#include "traffic.h"

namespace program {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kPrefillTokens = 512;
constexpr double kEnoughMs = 1000;  // a shorter run is repeated until its steps take this long

// The measurements of one case, in whole steps.
struct Measured {
  std::string_view name;
  int batch = 0;
  double tokens = 0;  // per step
  StepSize step;
  double ms = 0;         // the median
  Ceiling ceiling = {};  // in the same seconds
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return values.empty() ? 0 : *middle;
}

class Bench {
 public:
  Bench(tenon::AnyEngine& engine, std::uint64_t seed) : engine_(engine), seed_(seed) {}

  // Measures steps in which every sequence writes one token, without the first two steps of each run.
  Measured decode(int batch, int prompt, int new_tokens) {
    std::vector<Step> steps;
    for (double total = 0, runs = 0; runs == 0 || (total < kEnoughMs && runs < 20); ++runs) {
      const std::size_t before = steps.size();
      decode_once(batch, prompt, new_tokens, steps);
      for (std::size_t i = before; i < steps.size(); ++i) total += steps[i].ms;
    }
    if (steps.empty())
      throw tenon::Error(tenon::Error::Kind::invalid_request, "--new", "is too small: no step had only decoding rows");
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
            .step = {.rows = rows, .logit_rows = tokens, .sequences = tokens, .context = context},
            .ms = median(ms)};
  }

  // Measures a prompt and its first token: the time of all their steps.
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
            .step = {.rows = prompt / steps,
                     .logit_rows = 1 / steps,
                     .sequences = 1,
                     .context = static_cast<double>(prompt)},
            .ms = median(ms) / steps};
  }

 private:
  struct Step {
    double ms = 0;
    int tokens = 0;
    double rows = 0;     // equals `tokens` if there is a cache
    double context = 0;  // mean over its sequences
  };

  tenon::RequestId submit(int prompt, int new_tokens) {
    const auto vocab = static_cast<std::uint64_t>(engine_.config().vocab);
    std::vector<tenon::TokenId> ids;
    for (int i = 0; i < prompt; ++i) ids.push_back(static_cast<tenon::TokenId>(tenon::mix(seed_ ^ drawn_++) % vocab));
    return engine_.submit({.input_ids = std::move(ids), .options = {.max_new_tokens = new_tokens, .ignore_eos = true}});
  }

  // The events of a step, and its time in `ms`.
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

Traffic traffic_of(const tenon::ModelConfig& config, const ModelOptions& options) {
  const auto named = [](auto formats, const std::string& name) {
    return *std::find_if(formats.begin(), formats.end(), [&](const auto& f) { return f.name == name; });
  };
  return {config, named(weight_formats(), options.weights), named(kv_formats(), options.kv),
          options.head == "int8_exact" ? tenon::Int8Exact::Approximation::bytes : nullptr};
}

std::string json_row(const Measured& m, const ModelOptions& options, const Traffic& traffic, Instruction instruction) {
  const double bytes = traffic.bytes(m.step);
  // Rows have the field only if the head differs from the weights, so that usual rows keep the usual fields.
  const std::string& head = options.head;
  const std::string head_field = head == "same" ? "" : "\"head\": \"" + head + "\", ";
  return formatted(
      "{\"case\": \"%s\", \"weights\": \"%s\", %s\"device\": \"%s\", \"threads\": %d, \"batch\": %d, \"tok_s\": %.6g, "
      "\"ms_per_step\": %.6g, \"bytes_per_step\": %.0f, \"gb_s\": %.6g, \"ceiling_gb_s\": %.6g, \"peak_gops\": %.6g}\n",
      std::string(m.name).c_str(), options.weights.c_str(), head_field.c_str(), options.device.c_str(),
      thread_count(options), m.batch, 1e3 * m.tokens / m.ms, m.ms, bytes, bytes / m.ms * 1e-6, m.ceiling.read_gb_s,
      m.ceiling.peak_gops(instruction));
}

// The table. A row's shares are relative to the ceilings of its own seconds.
std::string table(const std::vector<Measured>& rows, const ModelOptions& options, const Traffic& traffic,
                  const Ceilings& ceilings) {
  const Instruction instruction = ceilings.instruction_of(options.weights);
  Ceiling best;
  for (const Measured& m : rows) best.add(m.ceiling);
  std::string text =
      formatted("%s%s on %s, %d threads (%s); ceilings of this run: read %.1f GB/s", options.weights.c_str(),
                options.head == "same" ? "" : (", head " + options.head).c_str(), options.device.c_str(),
                thread_count(options), tenon::to_string(ceilings.isa()), best.read_gb_s);
  for (int i = 0; i < kInstructions; ++i) {
    const auto each = static_cast<Instruction>(i);
    if (ceilings.has(each)) text += formatted(", %s %.0f", to_string(each), best.peak_gops(each));
  }
  text += formatted(" GOP/s; these weights multiply by %s\n\n", to_string(instruction));
  text += formatted("case     batch     tok/s   ms/step   MB/step    GB/s  of read    GOP/s  of %s\n",
                    to_string(instruction));
  for (const Measured& m : rows) {
    const double gb_s = traffic.bytes(m.step) / m.ms * 1e-6, gops = traffic.operations(m.step) / m.ms * 1e-6;
    text += formatted("%-8s %5d %9.1f %9.3f %9.1f %7.2f %7.0f%% %8.1f %6.0f%%\n", std::string(m.name).c_str(), m.batch,
                      1e3 * m.tokens / m.ms, m.ms, traffic.bytes(m.step) * 1e-6, gb_s, 100 * gb_s / m.ceiling.read_gb_s,
                      gops, 100 * gops / m.ceiling.peak_gops(instruction));
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

// Cache tokens for the largest batch, in whole blocks of any size. If every sequence has a slot for the longest text,
// the library's default bounds the memory.
int cache_tokens(const BenchCommand& command) {
  if (command.model.cache_tokens > 0 || command.model.cache == "contiguous") return command.model.cache_tokens;
  const long long batch = *std::max_element(command.batches.begin(), command.batches.end());
  const long long each = (command.prompt + command.new_tokens + 63) / 64 * 64;
  return static_cast<int>(std::min<long long>(std::max<long long>(batch * each, 2 * kPrefillTokens), 1 << 30));
}

}  // namespace

int bench(const BenchCommand& command) {
  if (command.model.device != words::device[0]) {
    throw tenon::Error(tenon::Error::Kind::unsupported, "--device " + command.model.device,
                       "bench measures the ceilings of the CPU only and cannot judge other devices");
  }
  const tenon::ModelFiles files = files_of(command);
  ModelOptions options = with_stored_weights(command.model, files);
  options.batch = *std::max_element(command.batches.begin(), command.batches.end());
  options.cache_tokens = cache_tokens(command);
  options.draft = "none";  // each step gives one token
  const auto engine = make_engine(options, files);
  engine->set_draining(true);

  Ceilings ceilings(options.threads);
  const auto several = [&] {
    Ceiling best;
    for (int i = 0; i < 3; ++i) best.add(ceilings.measure());
    return best;
  };
  Ceiling before = several();
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
    const Ceiling after = several();
    rows.back().ceiling = std::exchange(before, after);
    rows.back().ceiling.add(after);
    progress.update(rows.size(), engine->stats().tokens);
  }
  progress.clear();

  const Traffic traffic = traffic_of(engine->config(), options);
  Output output;
  if (command.json) {
    for (const Measured& m : rows)
      output.write(json_row(m, options, traffic, ceilings.instruction_of(options.weights)));
  } else {
    output.write(table(rows, options, traffic, ceilings));
  }
  output.flush();
  return 0;
}

}  // namespace program
