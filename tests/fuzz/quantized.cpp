// Damaged checkpoints of GPTQ, AWQ, bitsandbytes, compressed-tensors and fp8, as many as you like:
// scripts/fuzz-quantized compiles this with sanitizers and runs it.
//   quantized [--count N] [--first S] [--seconds T]   N folders from seed S on, for at most T seconds
// Each folder is loaded, and all its matrices are decoded. It must load or be refused by tenon::Error.
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <iostream>
#include <map>
#include <random>
#include <set>
#include <string>

#include "../checkpoint/quantized_case.h"
#include "../io/scratch.h"

namespace {

using tenon::test::QuantizedCase;
using tenon::test::TensorFile;

constexpr std::int64_t kEdges[] = {-1, 0, 1, 2, 3, 31, 255, 1 << 20, std::int64_t{1} << 31, std::int64_t{1} << 62};

std::int64_t edge(std::mt19937& random) { return kEdges[random() % std::size(kEdges)]; }

template <class Map>
auto& any_of(Map& map, std::mt19937& random) {
  return *std::next(map.begin(), static_cast<std::ptrdiff_t>(random() % map.size()));
}

// Another value for a member of the config, at any depth.
void damage(nlohmann::json& value, std::mt19937& random) {
  if (value.is_structured() && !value.empty() && random() % 8 != 0) {
    auto member = std::next(value.begin(), static_cast<std::ptrdiff_t>(random() % value.size()));
    return damage(*member, random);
  }
  const nlohmann::json values[] = {
      edge(random), nullptr, "x", true, false, nlohmann::json::array({edge(random)}), 1.5, nlohmann::json::object()};
  value = values[random() % std::size(values)];
}

void damage(TensorFile& file, std::mt19937& random) {
  auto& [name, tensor] = any_of(file.tensors, random);
  switch (random() % 6) {
    case 0: {  // without it
      const std::string gone = name;
      file.tensors.erase(gone);
      return;
    }
    case 1:  // transposed, or flat
      if (tensor.shape.size() == 2 && random() % 2 == 0) {
        std::swap(tensor.shape[0], tensor.shape[1]);
      } else if (tensor.shape.size() == 2) {
        tensor.shape = {tensor.shape[0] * tensor.shape[1]};
      }
      return;
    case 2:  // without its last row
      if (!tensor.shape.empty() && tensor.shape[0] > 0) {
        tensor.bytes.resize(tensor.bytes.size() - tensor.bytes.size() / tensor.shape[0]);
        --tensor.shape[0];
      }
      return;
    case 3: {  // another type of the same size
      using tenon::DType;
      const int bits = tenon::dtype_bits(tensor.dtype);
      const DType types[] = {DType::i8,  DType::u8,   DType::f8_e4m3, DType::i16,
                             DType::f16, DType::bf16, DType::i32,     DType::f32};
      const DType type = types[random() % std::size(types)];
      if (tenon::dtype_bits(type) == bits) tensor.dtype = type;
      return;
    }
    default:  // other bytes
      for (int k = 0; k < 4 && !tensor.bytes.empty(); ++k) {
        const std::size_t at = random() % tensor.bytes.size();
        const std::int64_t value = edge(random);
        if (random() % 2 == 0)
          tensor.bytes[at] = static_cast<std::byte>(random());
        else if (at + sizeof value <= tensor.bytes.size())
          std::memcpy(tensor.bytes.data() + at, &value, sizeof value);
      }
  }
}

void load(const std::filesystem::path& folder) { tenon::test::load_whole(tenon::load_checkpoint(folder)); }

}  // namespace

int main(int argc, char** argv) {
  std::map<std::string, std::uint32_t> options = {{"--count", 2000}, {"--first", 1}, {"--seconds", 1u << 30}};
  for (int i = 1; i + 1 < argc; i += 2) options.at(argv[i]) = static_cast<std::uint32_t>(std::stoul(argv[i + 1]));
  std::vector<QuantizedCase> sound;
  for (const std::string& name : tenon::test::quantized_cases()) {
    load(tenon::test::kQuantizedCases / name);
    sound.emplace_back(name);
  }
  const tenon::test::Scratch scratch;
  const auto begin = std::chrono::steady_clock::now();
  const std::chrono::seconds most(options["--seconds"]);
  std::uint32_t folders = 0, refused = 0;
  std::set<std::string> places;  // of errors, to see that the folders reach far
  for (; folders < options["--count"] && std::chrono::steady_clock::now() - begin < most; ++folders) {
    const std::uint32_t seed = options["--first"] + folders;
    std::mt19937 random(seed);
    QuantizedCase damaged = sound[seed % sound.size()];
    for (int k = static_cast<int>(random() % 2); k >= 0; --k) {
      if (random() % 3 == 0)
        damage(damaged.quantization(), random);
      else
        damage(damaged.file, random);
    }
    alarm(20);
    damaged.write(scratch.folder());
    try {
      load(scratch.folder());
    } catch (const tenon::Error& error) {
      ++refused;
      if (error.kind() == tenon::Error::Kind::internal) throw;
      places.insert(error.where());
    }
  }
  alarm(0);
  std::cout << folders << " folders: " << refused << " refused, at " << places.size() << " places; the others load\n";
}
