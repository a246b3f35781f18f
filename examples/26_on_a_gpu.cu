// The README's engine on an NVIDIA GPU, with one word more. The text is the same as on the CPU, token for token.
#include <tenon/tenon.cuh>

#include <iostream>
#include <string>

int main(int argc, char** argv) try {
  const std::string model = argc == 3 && argv[1] == std::string("--model") ? argv[2] : TENON_DEFAULT_MODEL_DIR;
  if (tenon::cuda::device_count() == 0) {
    std::cout << "skipped: there is no CUDA device, or no driver, on this machine\n";
    return 77;
  }
  const auto files = tenon::load_checkpoint(model);
  // [on_a_gpu]
  using OnGpu = tenon::Engine<tenon::Gpt2, tenon::Device<tenon::Cuda>>;
  using OnCpu = tenon::Engine<tenon::Gpt2>;

  const tenon::Request request{.prompt = "The quick brown fox jumped over the", .options = {.max_new_tokens = 20}};
  const auto there = OnGpu{files}.complete(request), here = OnCpu{files}.complete(request);
  // [/on_a_gpu]
  std::cout << there.text << '\n' << (there.ids == here.ids ? "as on the CPU\n" : "NOT as on the CPU\n");
  return there.ids == here.ids ? 0 : 1;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
