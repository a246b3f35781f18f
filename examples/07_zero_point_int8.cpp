// Experiment 7: weights as 8-bit integers with a zero point. The literature has one scale per tensor and truncates. The
// library's default has one scale per row and rounds. It needs a quarter of the memory, writes nearly the same text,
// and never dequantises a whole matrix.
#include <tenon/tenon.h>

#include <string>
#include <vector>

#include "common/example.h"
#include "common/quality.h"

using namespace tenon;

// [policies]
using Whole = Engine<Gpt2>;
using ByTensor = Engine<Gpt2, Weights<ZeroPointInt8Of<PerTensor>>>;
using ByRow = Engine<Gpt2, Weights<ZeroPointInt8>>;
// [/policies]

// The five weights of the literature's example.
bool five_numbers() {
  const std::vector<float> values = {3.14063f, 2.90192f, 0.57782f, -0.14590f, -1.29091f};
  ValueRange range;
  range.add(values);
  CodeBlock block;
  Int8Code<PerTensor>::encode(5, values, range, block);
  std::printf("      value   code   q x scale + min\n");
  std::vector<int> codes;
  for (int i = 0; i < 5; ++i) {
    codes.push_back(static_cast<int>(block.codes[static_cast<std::size_t>(i)]));
    std::printf("  %9.5f  %5d  %16.5f\n", static_cast<double>(values[static_cast<std::size_t>(i)]), codes.back(),
                static_cast<double>(Int8Code<PerTensor>::value(block, 0, i)));
  }
  return codes == std::vector<int>{255, 241, 107, 65, 0};
}

struct Result {
  std::size_t bytes = 0;
  double perplexity = 0;
  std::string text;
};

template <class Engine>
Result run(const char* name, const ModelFiles& files, const std::string& text) {
  Engine engine{files};
  const auto errors = example::errors_of<typename Engine::WeightP>(files);
  double worst = errors.front().signal_to_noise_db, largest = 0;
  for (const auto& e : errors) worst = std::min(worst, e.signal_to_noise_db), largest = std::max(largest, e.largest);
  Result result{engine.weight_bytes(), example::perplexity(engine, text), {}};
  for (auto& token : engine.generate(example::kPrompt, {.max_new_tokens = 16})) result.text += token.text;
  std::printf("  %-12s %12zu %13.4f %14.1f %11.2f\n", name, result.bytes, largest, worst, result.perplexity);
  return result;
}

int main(int argc, char** argv) try {
  const example::Arguments arguments(argc, argv, {{"--text", ""}});
  example::Csv csv(arguments.text("--csv"), "matrix,tensor_db,row_db,tensor_largest,row_largest");
  const auto files = load_checkpoint(arguments.text("--model"));
  const std::string text = example::text_of(arguments.text("--text"));
  const bool literature = five_numbers();
  std::printf("\n  GPT-2 124M       our bytes     course's\n");
  example::gpt2_bytes<Float32>("float32", 4);
  example::gpt2_bytes<ZeroPointInt8Of<PerTensor>>("int8, tensor", 1);
  example::gpt2_bytes<ZeroPointInt8>("int8, rows", 1);
  std::printf("\n  this model      our bytes largest error  worst SNR, dB  perplexity\n");
  const Result whole = run<Whole>("float32", files, text), tensor = run<ByTensor>("int8, tensor", files, text),
               row = run<ByRow>("int8, rows", files, text);
  for (const auto* each : {&whole, &tensor, &row})
    std::printf("\n  %s%s", example::kPrompt.c_str(), each->text.c_str());
  const auto by_tensor = example::errors_of<ZeroPointInt8Of<PerTensor>>(files),
             by_row = example::errors_of<ZeroPointInt8>(files);
  for (std::size_t i = 0; i < by_row.size(); ++i) {
    csv.row(by_row[i].name, by_tensor[i].signal_to_noise_db, by_row[i].signal_to_noise_db, by_tensor[i].largest,
            by_row[i].largest);
  }
  // A few sentences are too little text for a perplexity.
  const double limit = arguments.text("--text").empty() ? 1.02 : 1.003;
  const bool close = row.perplexity < limit * whole.perplexity &&
                     3.4 * static_cast<double>(row.bytes) < static_cast<double>(whole.bytes);
  std::printf("\n");
  return example::verdict("the literature's codes, a quarter of the bytes, and perplexity as it was",
                          literature && close);
} catch (const std::exception& error) {
  return example::failed(error);
}
