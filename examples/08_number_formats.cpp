// Experiment 8: number formats compared: their range and precision, the size of a model, the error of its weights, its
// perplexity, and its speed.
#include <tenon/tenon.h>

#include <limits>
#include <string>

#include "common/example.h"
#include "common/quality.h"

using namespace tenon;

// A floating-point format: its largest number, its smallest normal number, and the step after 1.
struct Reach {
  double largest = 0, smallest = 0, step = 0;
};
template <class P>
inline constexpr Reach reach{};
template <>
inline constexpr Reach reach<Float32>{3.4028235e38, 1.1754944e-38, 1.1920929e-7};
template <>
inline constexpr Reach reach<BFloat16>{3.3895314e38, 1.1754944e-38, 0.0078125};
template <>
inline constexpr Reach reach<BFloat16Dot> = reach<BFloat16>;
template <>
inline constexpr Reach reach<Float16>{65504, 6.1035156e-5, 0.0009765625};
template <>
inline constexpr Reach reach<Float8<E4M3>>{448, 0.015625, 0.125};
template <>
inline constexpr Reach reach<Float8<E5M2>>{57344, 6.1035156e-5, 0.25};

// [run]
template <class P>
double run(const char* name, const ModelFiles& files, const std::string& text, int tokens, example::Csv& csv) {
  Engine<Gpt2, Weights<P>> engine{files};
  const double perplexity = example::perplexity(engine, text);
  double noise = std::numeric_limits<double>::infinity();  // in dB, of the worst matrix
  for (const auto& e : example::errors_of<P>(files)) noise = std::min(noise, e.signal_to_noise_db);
  engine.complete({.prompt = example::kPrompt, .options = {.max_new_tokens = tokens, .ignore_eos = true}});
  const example::Stopwatch watch;
  engine.complete({.prompt = example::kPrompt, .options = {.max_new_tokens = tokens, .ignore_eos = true}});
  const double rate = 1e3 * tokens / watch.ms(), megabytes = 1e-6 * static_cast<double>(engine.weight_bytes());
  std::string range = "      whole numbers, with scales";
  if constexpr (reach<P>.largest > 0) {
    char line[64];
    std::snprintf(line, sizeof line, "%9.3g %9.3g %10.3g", reach<P>.largest, reach<P>.smallest, reach<P>.step);
    range = line;
  }
  std::printf("  %-13s %-31s %7.1f %8.1f %11.3f %8.0f\n", name, range.c_str(), megabytes, noise, perplexity, rate);
  csv.row(name, megabytes, std::isfinite(noise) ? std::to_string(noise) : "", perplexity, rate);
  return perplexity;
}
// [/run]

int main(int argc, char** argv) try {
  const example::Arguments arguments(argc, argv, {{"--text", ""}, {"--new", "32"}});
  example::Csv csv(arguments.text("--csv"), "format,megabytes,snr_db,perplexity,tokens_per_s");
  const auto files = load_checkpoint(arguments.text("--model"));
  const std::string text = example::text_of(arguments.text("--text"));
  const int tokens = arguments.number("--new");
  std::printf("  format          largest  smallest  step at 1       MB  SNR, dB  perplexity  tokens/s\n");
  const auto of = [&]<class P>(P, const char* name) { return run<P>(name, files, text, tokens, csv); };
  const double whole = of(Float32{}, "float32"), brain = of(BFloat16{}, "bfloat16");
  of(BFloat16Dot{}, "bfloat16_dot");
  of(Float16{}, "float16");
  of(Float8<E4M3>{}, "float8_e4m3");
  of(Float8<E5M2>{}, "float8_e5m2");
  const double rows = of(ZeroPointInt8{}, "int8");
  of(ZeroPointInt8Of<PerTensor>{}, "int8_tensor");
  of(ZeroPointInt8Act8{}, "int8_act8");
  of(GroupInt4{}, "int4");
  of(GroupInt4Act8{}, "int4_act8");
  // A few sentences are too little text for a perplexity.
  const double few = arguments.text("--text").empty() ? 0.02 : 0;
  const bool close = std::abs(brain / whole - 1) < 0.001 + few && std::abs(rows / whole - 1) < 0.003 + few;
  return example::verdict("bfloat16 and int8 keep the perplexity of float32", close);
} catch (const std::exception& error) {
  return example::failed(error);
}
