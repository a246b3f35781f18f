// Damaged files of torch.save: scripts/fuzz-torch-file compiles this with sanitizers and runs it.
//   torch_file [--count N] [--first S]   N files from seed S on; file S is the same on every machine
// All tensors of each file are read. It must be read or refused by tenon::Error.
#include <cstring>
#include <string>
#include <string_view>

#include "../io/scratch.h"
#include "seeds.h"
#include "tenon/checkpoint/torch_file.h"

namespace {

// Bytes of pickles and archives, in places where others stood.
template <class Random>
std::string damaged(std::string bytes, Random& random) {
  constexpr std::string_view kCodes = "}](.)tesauqhrjQRbN0cXKMJ\x8a\x85\x86\x87\x88\x93\x94\x95";
  constexpr std::uint64_t edges[] = {
      0, 1, 255, 0xffff, 1u << 31, 0xffffffff, std::uint64_t{1} << 62, ~std::uint64_t{0}};
  for (int k = static_cast<int>(random() % 4); k >= 0; --k) {
    const std::size_t at = random() % bytes.size();
    const auto kind = random() % 4;
    if (kind == 0 && at + 8 < bytes.size()) {
      const std::uint64_t value = edges[random() % std::size(edges)];
      std::memcpy(bytes.data() + at, &value, std::size_t{2} << random() % 3);
    } else if (kind == 1) {
      bytes[at] = kCodes[random() % kCodes.size()];
    } else {
      bytes[at] = static_cast<char>(random());
    }
  }
  if (random() % 8 == 0) bytes.resize(random() % bytes.size());
  return bytes;
}

void load(const std::filesystem::path& path) {
  const tenon::File file(path);
  for (const tenon::TorchTensor& tensor : tenon::read_torch_file(file))
    tenon::read_torch_tensor(file, tensor, [](std::uint64_t, std::span<const std::byte>) {});
}

}  // namespace

int main(int argc, char** argv) {
  const std::filesystem::path cases = TENON_SOURCE_DIR "/tests/checkpoint/torch_cases";
  const auto read = [&](const char* name) { return tenon::read_text_file(cases / name, 1 << 20); };
  const std::string sound[] = {read("archive.bin"), read("before_1_6.bin"), read("module.bin"),
                               read("archive_protocol_4.bin")};
  const tenon::test::MemoryFile memory;
  for (const std::string& bytes : sound) load(memory.write(bytes));
  return tenon::test::run_seeds(argc, argv, [&](auto& random, std::uint32_t seed) {
    load(memory.write(damaged(sound[seed % std::size(sound)], random)));
  });
}
