// The effect of a weight format on a model: the error of its matrices, and perplexity.
#pragma once
#include <tenon/tenon.h>

#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace example {

struct MatrixError {
  std::string name;
  double largest = 0, rms = 0, signal_to_noise_db = 0;
};

// Errors of one matrix [rows, cols] that is encoded in format P.
template <class P>
MatrixError error_of(std::string name, tenon::Shape shape, const std::vector<float>& values) {
  std::vector<std::byte> memory(P::bytes(shape) + 64);
  std::byte* lines = memory.data() + (64 - reinterpret_cast<std::uintptr_t>(memory.data()) % 64);
  const std::span<std::byte> packed{lines, P::bytes(shape)};
  if constexpr (tenon::EncodesWithRange<P>) {
    tenon::ValueRange range;
    range.add(values);
    P::encode(shape, 0, values, packed, range);
  } else {
    P::encode(shape, 0, values, packed);
  }
  const auto view = P::view(shape, packed);
  double noise = 0, signal = 0, largest = 0;
  std::size_t i = 0;
  for (int r = 0; r < shape.rows; ++r) {
    for (int c = 0; c < shape.cols; ++c, ++i) {
      const double w = static_cast<double>(values[i]), off = static_cast<double>(view.at(r, c)) - w;
      noise += off * off;
      signal += w * w;
      largest = std::max(largest, std::abs(off));
    }
  }
  return {std::move(name), largest, std::sqrt(noise / static_cast<double>(i)), 10 * std::log10(signal / noise)};
}

// Errors of every matrix of a GPT-2 checkpoint, in the model's order; the head is the last.
template <class P>
std::vector<MatrixError> errors_of(const tenon::ModelFiles& files) {
  const auto config = tenon::Gpt2::configure(*files.config);
  const tenon::TensorSource source(files, tenon::Gpt2::name_prefix);
  std::vector<MatrixError> errors;
  const auto matrix = [&](const tenon::MatrixSpec& m) {
    if (m.none()) return;
    std::vector<float> values(static_cast<std::size_t>(m.shape.rows) * static_cast<std::size_t>(m.shape.cols));
    source.read(m, 0, m.shape.rows, values.data());
    errors.push_back(error_of<P>(m.parts.front().name, m.shape, values));
  };
  const auto vector = [](const tenon::VectorSpec&) {};
  tenon::visit_parts(tenon::Gpt2::tensors(config), config.tied_head, {matrix, matrix, vector});
  return errors;
}

// The bytes of GPT-2 124M: packed by the library, and as the literature counts them, with every parameter and the
// buffers of causal masks, which the library does not have.
template <class P>
void gpt2_bytes(const char* name, double bytes_each) {
  const auto config = tenon::Gpt2::small();
  std::size_t packed = 0;
  const auto matrix = [&](const tenon::MatrixSpec& m) { packed += P::bytes(m.shape); };
  const auto vector = [&](const tenon::VectorSpec& v) {
    packed += 4 * static_cast<std::size_t>(v.shape.rows * v.shape.cols);
  };
  tenon::visit_parts(tenon::Gpt2::tensors(config), true, {matrix, matrix, vector});
  std::printf("  %-12s %12zu %12.0f\n", name, packed, 124439808 * bytes_each + 12582960);
}

// The text for the perplexity: a file, or a few sentences.
inline std::string text_of(const std::string& file) {
  if (file.empty()) {
    return "Once upon a time there was a little girl who lived with her grandmother at the edge of a great wood. Every "
           "morning "
           "she went to the well for water, and every evening she sat by the fire and listened to the wind. One day an "
           "old man "
           "came to the door, and asked for a piece of bread and a place to sleep.";
  }
  std::ifstream in(file);
  if (!in) throw std::runtime_error(file + ": cannot be read");
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// Perplexity in windows of 512 inputs that do not overlap: each input predicts the next token; the mean over all
// predictions.
template <class Engine>
double perplexity(Engine& engine, const std::string& text) {
  const auto ids = engine.tokenizer()->encode(text);
  std::vector<tenon::Request> windows;
  for (std::size_t first = 0; first + 1 < ids.size(); first += 512) {
    const auto begin = ids.begin() + static_cast<std::ptrdiff_t>(first);
    const auto end = ids.size() - first > 513 ? begin + 513 : ids.end();
    windows.push_back({.input_ids = {begin, end}, .options = {.max_new_tokens = 0, .nll = true}});
  }
  double total = 0;
  std::vector<std::size_t> predictions;
  for (const auto& window : windows) predictions.push_back(window.input_ids.size() - 1);
  const auto answers = engine.complete(std::move(windows));
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (!answers[i].scores) throw std::runtime_error("perplexity: " + answers[i].error);
    total += *answers[i].scores->nll_mean * static_cast<double>(predictions[i]);
  }
  return std::exp(total / static_cast<double>(ids.size() - 1));
}

}  // namespace example
