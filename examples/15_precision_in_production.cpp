// Experiment 15: the cost of a format in production. Shows peak memory of loading and running, the time per token, and
// the memory that the process still has after the engine. Rows are encoded in blocks, so no matrix ever exists in
// float32.
#include <tenon/tenon.h>
#include <tenon/testing/process_memory.h>

#include "common/precision.h"

using namespace tenon;

template <class P>
example::PrecisionCost cost(const ModelFiles& files, int tokens) {
  const double before = tenon::testing::resident_megabytes();
  tenon::testing::forget_peak();
  return example::precision_cost<Engine<Gpt2, Weights<P>>>(
      files, tokens, [&](const auto&) { return tenon::testing::peak_megabytes() - before; },
      [&] { return tenon::testing::resident_megabytes() - before; });
}

int main(int argc, char** argv) try {
  const example::Arguments arguments(argc, argv, {{"--shape", "model"}, {"--new", "32"}});
  example::Csv csv(arguments.text("--csv"), example::kPrecisionColumns);
  const auto files = example::precision_model(arguments);
  example::precision_heading();
  // Blocks of rows on their way to the encoder take 8 MB, and encoded rows as much again. A second copy of the default
  // model's weights would take 24 MB.
  const double slack = example::is_gpt2_shape(arguments) ? 32 : 16;
  bool lean = true;
  const auto of = [&]<class P>(P, const char* name) {
    lean = example::precision_row(csv, name, cost<P>(files, arguments.number("--new")), slack) && lean;
  };
  of(Float32{}, "float32");
  of(BFloat16{}, "bfloat16");
  of(Float16{}, "float16");
  of(Float8<E4M3>{}, "float8_e4m3");
  of(ZeroPointInt8{}, "int8");
  of(ZeroPointInt8Act8{}, "int8_act8");
  of(GroupInt4{}, "int4");
  return example::verdict(example::kPrecisionClaim, lean);
} catch (const std::exception& error) {
  return example::failed(error);
}
