// LoRA adapters as PEFT saves them: adapter_config.json and adapter_model.safetensors, checked against the linears of
// a model.
#pragma once
#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "tenon/checkpoint/dtype.h"
#include "tenon/checkpoint/peft_config.h"
#include "tenon/checkpoint/safetensors.h"
#include "tenon/core/error.h"
#include "tenon/core/finite.h"
#include "tenon/core/low_rank.h"
#include "tenon/core/sha256.h"

namespace tenon {

// A linear of the model, under the path that PEFT knows it by: "transformer.h.0.attn.c_attn".
struct PeftModule {
  std::string path;
  int inputs = 0, outputs = 0;
  bool head = false;  // the output layer, which all-linear leaves out
};

// A module that the adapter updates.
struct PeftTarget {
  std::size_t module = 0;  // index
  int rank = 0;
  double scale = 0;  // y += scale * B (A x)
};

namespace detail {

// Whether re.match(rf"(.*\.)?({key})$", path), where a dot of the literal key is any character.
inline bool matches_pattern(std::string_view path, std::string_view key) {
  if (key.size() > path.size()) return false;
  const std::size_t start = path.size() - key.size();
  return (start == 0 || path[start - 1] == '.') &&
         std::equal(key.begin(), key.end(), path.begin() + static_cast<std::ptrdiff_t>(start),
                    [](char k, char p) { return k == p || k == '.'; });
}

// Whether the path is the name, or ends with a dot and the name.
inline bool matches_name(std::string_view path, std::string_view name) {
  return path == name ||
         (path.size() > name.size() && path.ends_with(name) && path[path.size() - name.size() - 1] == '.');
}
inline bool matches_any(std::string_view path, std::span<const std::string> names) {
  return std::any_of(names.begin(), names.end(), [&](const std::string& each) { return matches_name(path, each); });
}

// The number from `at` on, if digits and then a dot stand there.
inline std::optional<int> number_at(std::string_view path, std::size_t at) {
  const std::size_t dot = path.find('.', at);
  int number = 0;
  if (dot == path.npos || dot == at || path[at] < '0' || path[at] > '9') return std::nullopt;
  const auto [end, code] = std::from_chars(path.data() + at, path.data() + dot, number);
  return code == std::errc{} && end == path.data() + dot ? std::optional(number) : std::nullopt;
}

// The layer that a path belongs to: the first number behind one of the patterns, as re.match(rf"(?:^|.*?\.){pattern}\.
// (\d+)\.") finds it, or without patterns r".*?\.[^.]*\.(\d+)\.", which asks for two names before the number.
inline std::optional<int> layer_of(std::string_view path, std::span<const std::string> patterns) {
  if (patterns.empty()) {
    std::size_t dot = path.find('.');
    while (dot != path.npos && (dot = path.find('.', dot + 1)) != path.npos)
      if (const auto layer = number_at(path, dot + 1)) return layer;
    return std::nullopt;
  }
  for (const std::string& pattern : patterns) {
    for (std::size_t start = 0; start != path.npos;) {
      const std::size_t end = start + pattern.size();
      if (end < path.size() && path[end] == '.' && matches_pattern(path.substr(start, pattern.size()), pattern))
        if (const auto layer = number_at(path, end + 1)) return layer;
      const std::size_t dot = path.find('.', start);
      start = dot == path.npos ? path.npos : dot + 1;
    }
  }
  return std::nullopt;
}

// check_target_module_exists of PEFT. A path that is listed whole is taken whatever its layer.
inline bool is_peft_target(const PeftConfig& config, const PeftModule& module) {
  const std::string& path = module.path;
  if (matches_any(path, config.exclude_modules)) return false;
  if (config.all_linear) return !module.head;
  const auto& names = config.target_modules;
  if (std::find(names.begin(), names.end(), path) != names.end()) return true;
  if (!matches_any(path, names)) return false;
  const auto& layers = config.layers_to_transform;
  if (layers.empty()) return true;
  const auto layer = layer_of(path, config.layers_pattern);
  return layer && std::find(layers.begin(), layers.end(), *layer) != layers.end();
}

// Error: the field does not fit the model.
[[noreturn]] inline void refuse_misfit(const std::string& field, std::string_view what) {
  refuse_peft(field, what, Error::Kind::invalid_file);
}

// What PEFT passes over in silence, and what is most often a mistake: names and layers that the model has not.
inline void require_peft_modules(const PeftConfig& config, std::span<const PeftModule> modules) {
  for (const std::string& name : config.target_modules)
    if (std::none_of(modules.begin(), modules.end(), [&](const auto& each) { return matches_name(each.path, name); }))
      refuse_misfit("target_modules", "\"" + printable(name, 60) + "\" names no linear of the model");
  if (config.layers_to_transform.empty()) return;
  std::vector<int> layers;
  for (const PeftModule& each : modules)
    if (const auto layer = layer_of(each.path, config.layers_pattern)) layers.push_back(*layer);
  if (layers.empty() && !config.layers_pattern.empty())
    refuse_misfit("layers_pattern", "names nothing in the model that holds layers");
  for (const int layer : config.layers_to_transform)
    if (std::find(layers.begin(), layers.end(), layer) == layers.end())
      refuse_misfit("layers_to_transform", "the model has no layer " + std::to_string(layer));
}

// A rank above both dimensions of every linear that it is for: a mistake, found before any tensor is looked at.
inline void require_peft_ranks(const PeftConfig& config, std::span<const PeftModule> modules,
                               std::span<const PeftTarget> targets,
                               std::span<const std::size_t> sources) {  // [targets], into rank_pattern or its size
  std::vector<int> widest(config.rank_pattern.size() + 1, 0);
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const PeftModule& module = modules[targets[i].module];
    widest[sources[i]] = std::max({widest[sources[i]], module.inputs, module.outputs});
  }
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (targets[i].rank <= widest[sources[i]]) continue;
    const bool pattern = sources[i] < config.rank_pattern.size();
    refuse_misfit(pattern ? "rank_pattern." + config.rank_pattern[sources[i]].first : "r",
                  "the rank " + std::to_string(targets[i].rank) +
                      " is above both dimensions of every linear that it is "
                      "for; the widest has " +
                      std::to_string(widest[sources[i]]));
  }
}

}  // namespace detail

// The modules that the adapter updates, in their order. Error invalid_file where a name or layer is none of the
// model's, no module is left, or a rank or scale cannot be meant.
inline std::vector<PeftTarget> peft_targets(const PeftConfig& config, std::span<const PeftModule> modules) {
  detail::require_peft_modules(config, modules);
  const auto first_match = [](const auto& pattern, const std::string& path) {
    return std::find_if(pattern.begin(), pattern.end(),
                        [&](const auto& each) { return detail::matches_pattern(path, each.first); });
  };
  std::vector<PeftTarget> targets;
  std::vector<std::size_t> ranks;  // where each target has its rank from
  for (std::size_t i = 0; i < modules.size(); ++i) {
    const PeftModule& module = modules[i];
    if (!detail::is_peft_target(config, module)) continue;
    if (module.head && config.tied_to_embedding)
      detail::refuse_peft("ensure_weight_tying", "a head with the factors of the embedding is not supported");
    const auto rank_at = first_match(config.rank_pattern, module.path);
    const auto alpha_at = first_match(config.alpha_pattern, module.path);
    const int rank = rank_at == config.rank_pattern.end() ? config.r : rank_at->second;
    const double alpha = alpha_at == config.alpha_pattern.end() ? config.alpha : alpha_at->second;
    const double scale = alpha / (config.rslora ? std::sqrt(static_cast<double>(rank)) : rank);
    if (!(std::abs(scale) <= std::numeric_limits<float>::max()))
      detail::refuse_misfit(alpha_at == config.alpha_pattern.end() ? "lora_alpha" : "alpha_pattern." + alpha_at->first,
                            "gives a scale beyond the range of float32");
    targets.push_back({i, rank, scale});
    ranks.push_back(static_cast<std::size_t>(rank_at - config.rank_pattern.begin()));
  }
  if (targets.empty()) detail::refuse_misfit("target_modules", "no linear is left of those that are named");
  detail::require_peft_ranks(config, modules, targets, ranks);
  return targets;
}

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
  // `modules`: all linears of the model. Every tensor must be a factor of a module that the config targets, and the
  // other way round. Errors: io where a file is missing, invalid_file where files break the format or do not fit the
  // model, unsupported where they ask for what would change the outputs and is not done.
  static PeftAdapter open(const std::filesystem::path& folder, std::span<const PeftModule> modules) {
    PeftConfig config = read_peft_config(folder);
    const std::vector<PeftTarget> targets = peft_targets(config, modules);  // before a file of tensors is opened
    PeftAdapter adapter(std::move(config), Checkpoint::open(folder, "adapter_model"));
    adapter.find_factors(modules, targets);
    return adapter;
  }

  const PeftConfig& config() const noexcept { return config_; }
  const Checkpoint& tensors() const noexcept { return tensors_; }
  // In the order of the modules. Their tensors live as long as the adapter, wherever it is moved to.
  std::span<const PeftFactors> factors() const noexcept { return factors_; }

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
    if (!all_finite(out)) detail::refuse_file(tensors_.where(tensor), "holds NaN or infinity; every value must be finite");
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

  void find_factors(std::span<const PeftModule> modules, std::span<const PeftTarget> targets) {
    const std::vector<TensorInfo>& all = tensors_.tensors();
    std::vector<bool> known(all.size());
    for (const PeftTarget& target : targets) {
      const PeftModule& module = modules[target.module];
      const auto inputs = static_cast<std::uint64_t>(module.inputs),
                 outputs = static_cast<std::uint64_t>(module.outputs);
      const auto rank = static_cast<std::uint64_t>(target.rank);
      const std::string stem = "base_model.model." + module.path;
      const TensorInfo& a = factor(stem + ".lora_A.weight", {rank, inputs}, target.rank);
      const TensorInfo& b = factor(stem + ".lora_B.weight", {outputs, rank}, target.rank);
      if (a.dtype != b.dtype)
        throw Error(Error::Kind::unsupported, tensors_.where(b),
                    "is " + std::string(dtype_name(b.dtype)) + ", and lora_A is " + std::string(dtype_name(a.dtype)) +
                        ": both factors of a module must be of one type");
      factors_.push_back({target.module, target.rank, target.scale, type_of(a.dtype), &a, &b});
      for (const TensorInfo* each : {&a, &b}) known[static_cast<std::size_t>(each - all.data())] = true;
    }
    for (std::size_t i = 0; i < all.size(); ++i)
      if (!known[i])
        detail::refuse_file(tensors_.where(all[i]), "is neither lora_A.weight nor lora_B.weight of a linear that " +
                                                        std::string(kPeftConfigName) + " targets");
  }

  const TensorInfo& factor(const std::string& name, const std::vector<std::uint64_t>& shape, int rank) const {
    const TensorInfo* tensor = tensors_.find(name);
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
};

}  // namespace tenon
