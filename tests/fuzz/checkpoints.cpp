// Damaged GGUF files and damaged quantised checkpoints in one program, because compiling takes longer than most runs
// and both need the same families and readers: scripts/fuzz-gguf and scripts/fuzz-quantized compile and run it.
//   checkpoints gguf|quantized [--count N] [--first S]   N files from seed S on
#include <iostream>
#include <string_view>

#include "gguf.h"
#include "quantized.h"

int main(int argc, char** argv) {
  const std::string_view reader = argc > 1 ? argv[1] : "";
  if (reader == "gguf") return tenon::test::fuzz_gguf::run(argc - 1, argv + 1);
  if (reader == "quantized") return tenon::test::fuzz_quantized::run(argc - 1, argv + 1);
  std::cerr << "checkpoints: name gguf or quantized first\n";
  return 2;
}
