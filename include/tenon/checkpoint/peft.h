// LoRA adapters as PEFT saves them: adapter_config.json and adapter_model.safetensors, checked against the linears of
// a model.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tenon/checkpoint/dtype.h"
#include "tenon/checkpoint/peft_base.h"
#include "tenon/checkpoint/peft_config.h"
#include "tenon/checkpoint/peft_targets.h"
#include "tenon/checkpoint/safetensors.h"
#include "tenon/core/low_rank.h"
#include "tenon/io/sha256.h"

namespace tenon {

// The factors of one module: y += scale * B (A x).
struct PeftFactors {
  std::size_t module = 0;  // index
  int rank = 0;
  double scale = 0;
  FactorType type = FactorType::float32;
  const TensorInfo* a = nullptr;  // [rank, inputs]
  const TensorInfo* b = nullptr;  // [outputs, rank]
};

// What PeftAdapter::digest says, for whoever reads the factors anyway: of each in turn its scale, then a, then b.
class PeftDigest {
 public:
  explicit PeftDigest(std::size_t factors);
  void add(double scale) { add(std::bit_cast<std::uint64_t>(scale)); }
  void add(const TensorInfo& tensor, std::span<const std::byte> bytes);
  std::string text() const { return "sha256:" + hash_.hex(); }

 private:
  void add(std::uint64_t number) { hash_.update(std::as_bytes(std::span(&number, 1))); }
  Sha256 hash_;
};

// The open files of an adapter: their layout is checked, their values are not yet read. Move-only. Reading is safe from
// many threads.
class PeftAdapter {
 public:
  // `modules`: the linears of the model that can be updated. Every tensor must be a factor of a module that the config
  // targets, and the other way round, or equal the tensor of `base` that it is a copy of. Errors: io where a file is
  // missing, invalid_file where files break the format or do not fit the model, unsupported where they ask for what
  // would change the outputs and is not done.
  static PeftAdapter open(const std::filesystem::path& folder, std::span<const PeftModule> modules,
                          const PeftBase& base = {});

  const PeftConfig& config() const noexcept { return config_; }
  const Checkpoint& tensors() const noexcept { return tensors_; }
  // In the order of the modules. Their tensors live as long as the adapter, wherever it is moved to.
  std::span<const PeftFactors> factors() const noexcept { return factors_; }
  // Names of tensors that equal the model's own.
  std::span<const std::string> copies() const noexcept { return copies_; }

  static std::uint64_t bytes_of(const TensorInfo& tensor) { return tensor.end - tensor.begin; }

  // Bytes of the tensor from `offset` on, a whole number of elements, as they stand in the file. Error invalid_file
  // where one of them is NaN or infinite, io where the file cannot be read. After the last read call
  // tensors().verify_unchanged().
  void read(const TensorInfo& tensor, std::uint64_t offset, std::span<std::byte> out) const;
  void read(const TensorInfo& tensor, std::span<std::byte> out) const;

  // The whole factor as float32. out: as many elements as it has. Errors as `read`.
  void read_floats(const TensorInfo& tensor, std::span<float> out) const;

  // Names what the adapter does to the model, for caches of what was computed under it: equal where and only where
  // modules, ranks, scales, types and values are equal, whatever else the config says. "sha256:" and 64 hexadecimal
  // digits. Reads all tensors; errors as `read`.
  std::string digest() const;

 private:
  PeftAdapter(PeftConfig config, Checkpoint tensors) : config_(std::move(config)), tensors_(std::move(tensors)) {}

  void find_factors(std::span<const PeftModule> modules, std::span<const PeftTarget> targets, const PeftBase& base);

  // The name in keys such as lora_A.default.weight, which trainers write that save the model's state themselves; empty
  // where no key has one. PEFT reads such keys as they are. Error invalid_file where there are several.
  std::string adapter_name() const;

  // A tensor that is no factor: one of the model's own, unchanged, or an error.
  void pass_over(const TensorInfo& tensor, const PeftBase& base);

  // `stem`: up to lora_A or lora_B; the adapter's name may stand behind it.
  const TensorInfo& factor(const std::string& stem, const std::string& adapter, const std::vector<std::uint64_t>& shape,
                           int rank) const;

  static FactorType type_of(DType type);

  static bool all_finite_bytes(std::span<const std::byte> bytes, DType type);
  // Whether no word has all bits of the exponent. By integers, so that no compiler flag can reason it away.
  template <class Word, Word exponent>
  static bool all_below(std::span<const std::byte> bytes) {
    unsigned found = 0;
    for (std::size_t at = 0; at + sizeof(Word) <= bytes.size(); at += sizeof(Word)) {
      Word word;
      std::memcpy(&word, bytes.data() + at, sizeof word);
      found |= unsigned{(word & exponent) == exponent};
    }
    return found == 0;
  }

  PeftConfig config_;
  Checkpoint tensors_;
  std::vector<PeftFactors> factors_;
  std::vector<std::string> copies_;
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/checkpoint/peft-inl.h"
#endif
