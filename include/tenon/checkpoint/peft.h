// LoRA adapters as PEFT saves them: adapter_config.json and adapter_model.safetensors, checked against the linears of
// a model.
#pragma once
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/checkpoint/dtype.h"
#include "tenon/checkpoint/peft_base.h"
#include "tenon/checkpoint/peft_config.h"
#include "tenon/checkpoint/peft_targets.h"
#include "tenon/checkpoint/safetensors.h"
#include "tenon/core/error.h"
#include "tenon/core/finite.h"
#include "tenon/core/low_rank.h"
#include "tenon/core/sha256.h"

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
  explicit PeftDigest(std::size_t factors) {
    hash_.update("tenon adapter 1\n");
    add(std::uint64_t{factors});
  }
  void add(double scale) { add(std::bit_cast<std::uint64_t>(scale)); }
  void add(const TensorInfo& tensor, std::span<const std::byte> bytes) {
    const std::string layout =
        tensor.name + '\n' + std::string(dtype_name(tensor.dtype)) + ' ' + shape_text(tensor.shape) + '\n';
    add(std::uint64_t{layout.size()});  // the size of the values follows from the layout: no two adapters give one text
    hash_.update(layout);
    hash_.update(bytes);
  }
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
                          const PeftBase& base = {}) {
    PeftConfig config = read_peft_config(folder);
    const std::vector<PeftTarget> targets =
        peft_targets(config, modules, base.others());  // before a file of tensors is opened
    PeftAdapter adapter(std::move(config), Checkpoint::open(folder, "adapter_model"));
    adapter.find_factors(modules, targets, base);
    return adapter;
  }

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
  void read(const TensorInfo& tensor, std::uint64_t offset, std::span<std::byte> out) const {
    constexpr std::size_t block = 256 * 1024;  // still in the cache when it is checked
    for (std::size_t done = 0; done < out.size(); done += block) {
      const auto part = out.subspan(done, std::min(block, out.size() - done));
      tensors_.read_bytes(tensor, offset + done, part);
      if (!all_finite_bytes(part, tensor.dtype))
        detail::refuse_file(tensors_.where(tensor), "holds NaN or infinity; every value must be finite");
    }
  }
  void read(const TensorInfo& tensor, std::span<std::byte> out) const {
    if (out.size() != bytes_of(tensor))
      throw Error(Error::Kind::internal, tensors_.where(tensor), "a room of another size was given to read it into");
    read(tensor, 0, out);
  }

  // The whole factor as float32. out: as many elements as it has. Errors as `read`.
  void read_floats(const TensorInfo& tensor, std::span<float> out) const {
    tensors_.read_all(tensor, out.data());
    if (!all_finite(out))
      detail::refuse_file(tensors_.where(tensor), "holds NaN or infinity; every value must be finite");
  }

  // Names what the adapter does to the model, for caches of what was computed under it: equal where and only where
  // modules, ranks, scales, types and values are equal, whatever else the config says. "sha256:" and 64 hexadecimal
  // digits. Reads all tensors; errors as `read`.
  std::string digest() const {
    PeftDigest all(factors_.size());
    std::vector<std::byte> bytes;
    for (const PeftFactors& each : factors_) {
      all.add(each.scale);
      for (const TensorInfo* tensor : {each.a, each.b}) {
        bytes.resize(static_cast<std::size_t>(bytes_of(*tensor)));
        read(*tensor, bytes);
        all.add(*tensor, bytes);
      }
    }
    return all.text();
  }

 private:
  PeftAdapter(PeftConfig config, Checkpoint tensors) : config_(std::move(config)), tensors_(std::move(tensors)) {}

  void find_factors(std::span<const PeftModule> modules, std::span<const PeftTarget> targets, const PeftBase& base) {
    const std::string name = adapter_name();
    std::vector<bool> known(tensors_.tensors().size());
    for (const PeftTarget& target : targets) {
      const PeftModule& module = modules[target.module];
      const auto inputs = static_cast<std::uint64_t>(module.inputs),
                 outputs = static_cast<std::uint64_t>(module.outputs);
      const auto rank = static_cast<std::uint64_t>(target.rank);
      const std::string stem = "base_model.model." + module.path;
      const TensorInfo& a = factor(stem + ".lora_A", name, {rank, inputs}, target.rank);
      const TensorInfo& b = factor(stem + ".lora_B", name, {outputs, rank}, target.rank);
      if (a.dtype != b.dtype)
        throw Error(Error::Kind::unsupported, tensors_.where(b),
                    "is " + std::string(dtype_name(b.dtype)) + ", and lora_A is " + std::string(dtype_name(a.dtype)) +
                        ": both factors of a module must be of one type");
      factors_.push_back({target.module, target.rank, target.scale, type_of(a.dtype), &a, &b});
      for (const TensorInfo* each : {&a, &b}) known[static_cast<std::size_t>(each - tensors_.tensors().data())] = true;
    }
    for (std::size_t i = 0; i < known.size(); ++i)
      if (!known[i]) pass_over(tensors_.tensors()[i], base);
  }

  // The name in keys such as lora_A.default.weight, which trainers write that save the model's state themselves; empty
  // where no key has one. PEFT reads such keys as they are. Error invalid_file where there are several.
  std::string adapter_name() const {
    std::set<std::string> names;
    for (const TensorInfo& tensor : tensors_.tensors()) {
      constexpr std::string_view end = ".weight";
      std::string_view rest = tensor.name;
      if (!rest.ends_with(end)) continue;
      rest.remove_suffix(end.size());
      for (const std::string_view factor : {".lora_A.", ".lora_B."})
        if (const auto at = rest.rfind(factor); at != rest.npos) {
          const std::string_view name = rest.substr(at + factor.size());
          if (!name.empty() && name.find('.') == name.npos) names.emplace(name);
        }
    }
    if (names.size() > 1)
      detail::refuse_file(tensors_.name(), "holds factors of several adapters: " + printable(*names.begin(), 60) +
                                               " and " + printable(*names.rbegin(), 60));
    return names.empty() ? "" : *names.begin();
  }

  // A tensor that is no factor: one of the model's own, unchanged, or an error.
  void pass_over(const TensorInfo& tensor, const PeftBase& base) {
    const TensorInfo* own = base.find(tensor.name);
    if (own == nullptr)
      detail::refuse_file(tensors_.where(tensor), "is neither lora_A.weight nor lora_B.weight of a linear that " +
                                                      std::string(kPeftConfigName) + " targets");
    if (!base.holds(tensors_, tensor, *own))
      throw Error(Error::Kind::unsupported, tensors_.where(tensor),
                  "differs from " + printable(own->name) + " of the model (" + shape_text(own->shape) + " " +
                      std::string(dtype_name(own->dtype)) + "): replaced weights are not supported");
    copies_.push_back(tensor.name);
  }

  // `stem`: up to lora_A or lora_B; the adapter's name may stand behind it.
  const TensorInfo& factor(const std::string& stem, const std::string& adapter, const std::vector<std::uint64_t>& shape,
                           int rank) const {
    const std::string name = stem + ".weight";
    const TensorInfo* tensor = tensors_.find(name);
    const TensorInfo* named = adapter.empty() ? nullptr : tensors_.find(stem + "." + adapter + ".weight");
    if (tensor != nullptr && named != nullptr)
      detail::refuse_file(tensors_.where(*named), "stands there without the adapter's name, too");
    if (tensor == nullptr) tensor = named;
    if (tensor == nullptr)
      detail::refuse_file(tensors_.name() + ": " + printable(name),
                          "the tensor is missing; " + std::string(kPeftConfigName) + " targets its module");
    if (!is_weight(tensor->dtype))
      throw Error(Error::Kind::unsupported, tensors_.where(*tensor),
                  "is " + std::string(dtype_name(tensor->dtype)) + "; factors can be F32, F16 or BF16");
    if (tensor->shape != shape)
      detail::refuse_file(tensors_.where(*tensor), "has shape " + shape_text(tensor->shape) + ", needs " +
                                                       shape_text(shape) + ": " + kPeftConfigName +
                                                       " gives its module the rank r = " + std::to_string(rank));
    return *tensor;
  }

  static FactorType type_of(DType type) {
    return type == DType::f32 ? FactorType::float32 : type == DType::f16 ? FactorType::float16 : FactorType::bfloat16;
  }

  static bool all_finite_bytes(std::span<const std::byte> bytes, DType type) {
    if (type == DType::f32) return all_below<std::uint32_t, 0x7f800000u>(bytes);
    return type == DType::f16 ? all_below<std::uint16_t, 0x7c00u>(bytes) : all_below<std::uint16_t, 0x7f80u>(bytes);
  }
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
