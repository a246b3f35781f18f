#pragma once
#include <algorithm>
#include <optional>
#include <set>
#include <string_view>

#include "tenon/checkpoint/peft.h"
#include "tenon/checkpoint/peft_selection.h"
#include "tenon/core/error.h"
#include "tenon/core/finite.h"
#include "tenon/core/require.h"

namespace tenon {

TENON_INLINE PeftDigest::PeftDigest(const PeftConfig& config, std::size_t factors) {
  hash_.update("tenon adapter 1\n");
  add(std::uint64_t{factors});
  if (config.invocation_tokens.empty()) return;
  hash_.update("invocation\n");
  for (const std::int32_t token : config.invocation_tokens) add(static_cast<std::uint64_t>(token));
}

TENON_INLINE void PeftDigest::add(const TensorInfo& tensor, const TensorInfo* gain, std::span<const std::byte> bytes) {
  const std::string layout = (gain ? gain->name + ' ' : std::string()) + tensor.name + '\n' +
                             std::string(dtype_name(tensor.dtype)) + ' ' + shape_text(tensor.shape) + '\n';
  // The number of values follows from the layout and, for a part of a tensor, from the module: no two adapters of a
  // model hash the same bytes.
  add(std::uint64_t{layout.size()});
  hash_.update(layout);
  hash_.update(bytes);
}

TENON_INLINE PeftAdapter PeftAdapter::open(const std::filesystem::path& folder, std::span<const PeftModule> modules,
                                           const PeftBase& base) {
  PeftConfig config = read_peft_config(folder);
  std::vector<PeftModule> all(modules.begin(), modules.end());
  PeftBase seen = base.for_task(config.task);
  if (!config.names("embed_out")) seen.rename_head("embed_out", "lm_head");
  if (!seen.tied_head) config.tied_to_embedding = false;  // PEFT warns that there is nothing to tie
  std::optional<PeftAdapter> adapter;
  const auto open_tensors = [&] {
    Checkpoint tensors = Checkpoint::open(folder, "adapter_model");
    base.rename_older(tensors);
    adapter.emplace(PeftAdapter(config, std::move(tensors)));
  };
  if (config.task == AdapterTask::embed) {  // names as in AutoModel, or as in a model with a head
    open_tensors();
    if (!adapter->has_prefix(base.prefix)) seen.leave_prefix_out(all);
  }
  for (PeftModule& table : seen.tables()) all.push_back(std::move(table));
  std::vector<PeftTarget> targets = peft_targets(config, all, seen.others());  // mostly before a tensor file is opened
  // PEFT gives a tied head the factors of the embedding, and a scale by the patterns and r of the head's own name. It
  // ties tables of this name alone (EMBEDDING_LAYER_NAMES), so none of GPT-2.
  if (config.tied_to_embedding && seen.tied_head && !seen.head.empty() && !targets.empty() &&
      targets.back().module == modules.size() && detail::matches_name(seen.embedding, "embed_tokens")) {
    std::uint64_t budget = detail::kRegexBudget;
    const double scale = detail::PeftScales(config).of(seen.head, budget).scale;
    targets.push_back({targets.back().module + 1, targets.back().rank, scale, false});
  }
  if (!adapter) open_tensors();
  adapter->find_factors(all, targets, seen);
  return std::move(*adapter);
}

TENON_INLINE void PeftAdapter::read(const TensorInfo& tensor, std::uint64_t offset, std::span<std::byte> out) const {
  constexpr std::size_t block = 256 * 1024;  // small enough to be in cache when it is checked
  for (std::size_t done = 0; done < out.size(); done += block) {
    const auto part = out.subspan(done, std::min(block, out.size() - done));
    tensors_.read_bytes(tensor, offset + done, part);
    if (!all_finite_bytes(part, tensor.dtype))
      detail::refuse_file(tensors_.where(tensor), "holds NaN or infinity; every value must be finite");
  }
}

TENON_INLINE void PeftAdapter::read(const TensorInfo& tensor, std::span<std::byte> out) const {
  if (out.size() != bytes_of(tensor))
    throw Error(Error::Kind::internal, tensors_.where(tensor), "the buffer has another size than the tensor");
  read(tensor, 0, out);
}

TENON_INLINE void PeftAdapter::read_floats(const TensorInfo& tensor, std::span<float> out) const {
  tensors_.read_all(tensor, out.data());
  if (!all_finite(out))
    detail::refuse_file(tensors_.where(tensor), "holds NaN or infinity; every value must be finite");
}

TENON_INLINE void PeftAdapter::read_scaled(const TensorInfo& matrix, const TensorInfo& gain, int rows, int cols,
                                           std::span<float> out) const {
  std::vector<float> gains(static_cast<std::size_t>(gain.shape[0]));
  read_floats(gain, gains);
  tensors_.read(matrix, 0, static_cast<std::uint64_t>(rows), 0, static_cast<std::uint64_t>(cols), out.data());
  for (std::size_t i = 0; i < out.size(); ++i) out[i] *= gains[i / static_cast<std::size_t>(cols)];
  if (!all_finite(out))
    detail::refuse_file(tensors_.where(matrix),
                        "times " + printable(gain.name) + " has a value that is not finite; every value must be");
}

TENON_INLINE void PeftAdapter::read_a_floats(const PeftFactors& f, std::span<float> out) const {
  if (f.a_gain)
    read_scaled(*f.a, *f.a_gain, f.rank, f.inputs, out);
  else
    read_floats(*f.a, out);
}

TENON_INLINE void PeftAdapter::read_b_floats(const PeftFactors& f, std::span<float> out) const {
  if (f.b_gain)
    read_scaled(*f.b, *f.b_gain, f.outputs, f.rank, out);
  else
    read_floats(*f.b, out);
}

TENON_INLINE void PeftAdapter::read_a(const PeftFactors& f, std::span<std::byte> out) const {
  if (!f.derived() && type_of(f.a->dtype) == f.type) return read(*f.a, out);
  std::vector<float> floats(out.size() / sizeof(float));
  read_a_floats(f, floats);
  std::memcpy(out.data(), floats.data(), out.size());
}

TENON_INLINE void PeftAdapter::read_b(const PeftFactors& f, std::span<std::byte> out) const {
  if (!f.derived() && type_of(f.b->dtype) == f.type) return read(*f.b, out);
  std::vector<float> floats(out.size() / sizeof(float));
  read_b_floats(f, floats);
  std::memcpy(out.data(), floats.data(), out.size());
}

TENON_INLINE std::string PeftAdapter::digest() const {
  PeftDigest all(config_, factors_.size());
  std::vector<std::byte> bytes;
  for (const PeftFactors& each : factors_) {
    all.add(each.scale);
    bytes.resize(each.a_bytes());
    read_a(each, bytes);
    all.add_a(each, bytes);
    bytes.resize(each.b_bytes());
    read_b(each, bytes);
    all.add_b(each, bytes);
  }
  all.add_others(*this);
  return all.text();
}

TENON_INLINE void PeftAdapter::find_factors(std::span<const PeftModule> modules, std::span<const PeftTarget> targets,
                                            const PeftBase& base) {
  const std::string name = adapter_name();
  std::vector<bool> known(tensors_.tensors().size());
  const auto mark = [&](const TensorInfo* tensor) {
    if (tensor) known[static_cast<std::size_t>(tensor - tensors_.tensors().data())] = true;
  };
  const std::size_t linears = modules.size() - base.tables().size();
  for (const PeftTarget& target : targets) {
    const PeftModule& module = modules[target.module];
    if (target.module >= linears) continue;
    if (config_.kind == PeftKind::ia3) {
      scales_.push_back(scale_of(module, target));
      mark(scales_.back().factors);
      continue;
    }
    const PeftFactors f =
        config_.kind == PeftKind::vera ? factors_of_vera(module, target) : factors_of(module, target, name);
    for (const TensorInfo* each : {f.a, f.b, f.a_gain, f.b_gain, f.magnitude, f.b_bias}) mark(each);
    if (f.rank > 0) factors_.push_back(f);  // AdaLoRA prunes some modules whole
  }
  find_tables(targets, linears, base);
  for (const PeftTable& table : tables_)
    for (const TensorInfo* each : {table.update.a, table.update.b, table.update.magnitude, table.rows}) mark(each);
  require_saved(modules, base);
  find_classifier(base);
  mark(classifier_);
  find_others(known, modules, targets, base);
}

TENON_INLINE PeftFactors PeftAdapter::factors_of(const PeftModule& module, const PeftTarget& target,
                                                 const std::string& name) const {
  const auto inputs = static_cast<std::uint64_t>(module.inputs), outputs = static_cast<std::uint64_t>(module.outputs);
  const auto rank = static_cast<std::uint64_t>(target.rank);
  const std::string stem = "base_model.model." + module.path;
  PeftFactors f{target.module, module.inputs, module.outputs, target.rank, target.scale};
  if (config_.kind == PeftKind::adalora) {
    f.a = &tensor_of(stem + ".lora_A", {rank, inputs});
    f.b = &tensor_of(stem + ".lora_B", {outputs, rank});
    f.a_gain = &tensor_of(stem + ".lora_E", {rank, 1});
    return f;
  }
  const TensorInfo& a = factor(stem + ".lora_A", name, {rank, inputs}, target.rank);
  const TensorInfo& b = factor(stem + ".lora_B", name, {outputs, rank}, target.rank);
  const FactorType of_a = type_of(a.dtype), of_b = type_of(b.dtype);
  f.type = of_a == of_b ? of_a : FactorType::float32;  // PEFT computes in float32; this holds all values of either
  f.a = &a;
  f.b = &b;
  add_vectors(f, stem, name);
  return f;
}

TENON_INLINE PeftFactors PeftAdapter::factors_of_vera(const PeftModule& module, const PeftTarget& target) const {
  const auto inputs = static_cast<std::uint64_t>(module.inputs), outputs = static_cast<std::uint64_t>(module.outputs);
  const auto rank = static_cast<std::uint64_t>(target.rank);
  const std::string stem = "base_model.model." + module.path;
  PeftFactors f{target.module, module.inputs, module.outputs, target.rank, target.scale};
  f.a = &tensor_of("base_model.vera_A", {rank, inputs}, true);
  f.b = &tensor_of("base_model.vera_B", {outputs, rank}, true);
  for (const auto& [tensor, stored] : {std::pair(f.a, f.a->shape[0]), std::pair(f.b, f.b->shape[1])})
    if (stored != rank)
      detail::refuse_file(tensors_.where(*tensor), "has the rank " + std::to_string(stored) + ", and " +
                                                       std::string(kPeftConfigName) +
                                                       " has r = " + std::to_string(target.rank));
  f.a_gain = &tensor_of(stem + ".vera_lambda_d", {rank});
  f.b_gain = &tensor_of(stem + ".vera_lambda_b", {outputs});
  return f;
}

TENON_INLINE std::string PeftAdapter::adapter_name() const {
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

TENON_INLINE const TensorInfo& PeftAdapter::factor(const std::string& stem, const std::string& adapter,
                                                   const std::vector<std::uint64_t>& shape, int rank) const {
  const std::string name = stem + ".weight";
  const TensorInfo* tensor = tensors_.find(name);
  const TensorInfo* named = adapter.empty() ? nullptr : tensors_.find(stem + "." + adapter + ".weight");
  if (tensor != nullptr && named != nullptr)
    detail::refuse_file(tensors_.where(*named), "the file holds this tensor without the adapter's name, too");
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

TENON_INLINE const TensorInfo& PeftAdapter::tensor_of(const std::string& name, const std::vector<std::uint64_t>& shape,
                                                      bool at_least) const {
  const TensorInfo* tensor = tensors_.find(name);
  if (tensor == nullptr)
    detail::refuse_file(tensors_.name() + ": " + printable(name),
                        "the tensor is missing; " + std::string(kPeftConfigName) + " targets its module");
  if (!is_weight(tensor->dtype))
    throw Error(Error::Kind::unsupported, tensors_.where(*tensor),
                "is " + std::string(dtype_name(tensor->dtype)) + "; it can be F32, F16 or BF16");
  const bool fits = tensor->shape.size() == shape.size() &&
                    std::equal(shape.begin(), shape.end(), tensor->shape.begin(), [&](auto needed, auto stored) {
                      return at_least ? stored >= needed : stored == needed;
                    });
  if (!fits)
    detail::refuse_file(tensors_.where(*tensor), "has shape " + shape_text(tensor->shape) + ", needs " +
                                                     (at_least ? "at least " : "") + shape_text(shape));
  return *tensor;
}

TENON_INLINE FactorType PeftAdapter::type_of(DType type) {
  return type == DType::f32 ? FactorType::float32 : type == DType::f16 ? FactorType::float16 : FactorType::bfloat16;
}

TENON_INLINE bool PeftAdapter::all_finite_bytes(std::span<const std::byte> bytes, DType type) {
  if (type == DType::f32) return none_has_exponent<std::uint32_t, 0x7f800000u>(bytes);
  return type == DType::f16 ? none_has_exponent<std::uint16_t, 0x7c00u>(bytes)
                            : none_has_exponent<std::uint16_t, 0x7f80u>(bytes);
}

}  // namespace tenon
