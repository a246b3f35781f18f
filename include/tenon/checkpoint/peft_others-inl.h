// The tensors of an adapter beside its low-rank factors.
#pragma once
#include <algorithm>
#include <functional>
#include <string>
#include <string_view>

#include "tenon/checkpoint/peft.h"
#include "tenon/checkpoint/peft_fields.h"
#include "tenon/core/error.h"
#include "tenon/core/require.h"

namespace tenon {

TENON_INLINE void PeftDigest::add_others(const PeftAdapter& adapter) {
  for (const TensorInfo* other : adapter.others()) {
    std::vector<std::byte> stored(PeftAdapter::bytes_of(*other));
    adapter.read(*other, stored);
    add(*other, nullptr, stored);
  }
  for (const PeftTable& table : adapter.tables()) {
    add(table.update.scale);
    add(std::uint64_t{table.tokens.size()});
    for (const std::int32_t token : table.tokens) add(static_cast<std::uint64_t>(token));
  }
}

TENON_INLINE std::vector<const TensorInfo*> PeftAdapter::others() const {
  std::vector<const TensorInfo*> all;
  for (const PeftFactors& f : factors_)
    for (const TensorInfo* each : {f.magnitude, f.b_bias})
      if (each) all.push_back(each);
  for (const PeftScale& each : scales_) all.push_back(each.factors);
  for (const PeftReplacement& each : replacements_) all.push_back(each.tensor);
  for (const PeftTable& table : tables_)
    for (const TensorInfo* each : {table.update.a, table.update.b, table.update.magnitude, table.rows})
      if (each) all.push_back(each);
  if (classifier_) all.push_back(classifier_);
  return all;
}

TENON_INLINE std::string PeftAdapter::beyond_updates() const {
  if (config_.kind == PeftKind::ia3) return detail::peft_where("peft_type") + ": IA3";
  if (config_.dora) return detail::peft_where("use_dora");
  if (config_.lora_bias) return detail::peft_where("lora_bias");
  for (const PeftTable& table : tables_) {
    if (!table.tokens.empty()) return detail::peft_where("trainable_token_indices");
    return tensors_.where(*(table.rows ? table.rows : table.update.a));
  }
  const TensorInfo* const tensor = replacements_.empty() ? classifier_ : replacements_.front().tensor;
  return tensor ? tensors_.where(*tensor) : std::string();
}

TENON_INLINE void PeftAdapter::require_plain_updates(std::string_view why) const {
  const std::string where = beyond_updates();
  if (!where.empty())
    throw Error(Error::Kind::unsupported, where, "is more than low-rank updates of linears: it " + std::string(why));
}

TENON_INLINE void PeftAdapter::require_saved(std::span<const PeftModule> modules, const PeftBase& base) const {
  const auto require = [&](const std::string& name) {
    const std::string stored = "base_model.model." + name;
    if (!tensors_.find(stored))
      detail::refuse_file(tensors_.name() + ": " + printable(stored),
                          "the tensor is missing; modules_to_save of " + std::string(kPeftConfigName) + " asks for it");
  };
  for (const PeftModule& module : modules)
    if (config_.is_saved(module.path)) require(module.path + ".weight");
  for (const auto& [name, elements] : base.vectors) {
    const std::string shown = name.starts_with(base.left_out) ? name.substr(base.left_out.size()) : name;
    if (config_.is_saved(std::string_view(shown).substr(0, shown.rfind('.')))) require(shown);
  }
}

TENON_INLINE void PeftAdapter::find_others(const std::vector<bool>& known, std::span<const PeftModule> modules,
                                           std::span<const PeftTarget> targets, const PeftBase& base) {
  const auto is_target = [&](const std::string& path) {
    return std::any_of(targets.begin(), targets.end(), [&](const auto& t) { return modules[t.module].path == path; });
  };
  for (std::size_t i = 0; i < known.size(); ++i) {
    const TensorInfo& tensor = tensors_.tensors()[i];
    if (!known[i] && !replaces_vector(tensor, base, is_target)) check_copy(tensor, base);
  }
  if (!config_.invocation_tokens.empty()) require_plain_updates("cannot be part of an activated LoRA");
}

TENON_INLINE bool PeftAdapter::replaces_vector(const TensorInfo& tensor, const PeftBase& base,
                                               const std::function<bool(const std::string&)>& is_target) {
  const std::string name = base.name_of(tensor.name);
  const auto found = base.vectors.find(name);
  if (found == base.vectors.end()) return false;
  if (const TensorInfo* own = base.find(tensor.name); own && base.holds(tensors_, tensor, *own)) return false;
  const bool wrapped = tensor.name.find(".base_layer.") != tensor.name.npos;
  if (wrapped != is_target(name.substr(base.left_out.size(), name.rfind('.') - base.left_out.size())))
    throw Error(Error::Kind::unsupported, tensors_.where(tensor),
                wrapped ? "its module is not a target, and PEFT finds no base_layer there"
                        : "its module is a target, and PEFT reads this tensor only as base_layer");
  replacements_.push_back({name, &tensor_of(tensor.name, {static_cast<std::uint64_t>(found->second)})});
  return true;
}

// bias "all" and save_embedding_layers write the tensors within the wrapper of a saved module, too. PEFT reads them
// into nothing that runs.
TENON_INLINE bool PeftAdapter::is_inside_saved(const std::string& name) const {
  for (const std::string_view inside :
       {".original_module.bias", ".modules_to_save.bias", ".original_module.weight", ".modules_to_save.weight"}) {
    if (!name.ends_with(inside)) continue;
    return config_.is_saved(std::string_view(name).substr(0, name.size() - inside.size()));
  }
  return false;
}

TENON_INLINE void PeftAdapter::check_copy(const TensorInfo& tensor, const PeftBase& base) {
  if (is_inside_saved(tensor.name)) {
    copies_.push_back(tensor.name);
    return;
  }
  const TensorInfo* own = base.find(tensor.name);
  if (tensor.name == "base_model.model.score.weight" && own == nullptr)
    throw Error(Error::Kind::unsupported, tensors_.where(tensor),
                std::string("is a classification head, which PEFT loads with task_type SEQ_CLS of ") + kPeftConfigName);
  if (own == nullptr)
    detail::refuse_file(tensors_.where(tensor), std::string("is ") + factor_names() + " of a linear that " +
                                                    kPeftConfigName + " targets, and no tensor that can be replaced");
  if (!base.holds(tensors_, tensor, *own))
    throw Error(Error::Kind::unsupported, tensors_.where(tensor),
                "differs from " + printable(own->name) + " of the model (" + shape_text(own->shape) + " " +
                    std::string(dtype_name(own->dtype)) +
                    "): " + (tensor.name.ends_with(".bias") ? "replacing this bias is" : "replaced weights are") +
                    " not supported");
  copies_.push_back(tensor.name);
}

TENON_INLINE const char* PeftAdapter::factor_names() const {
  switch (config_.kind) {
    case PeftKind::adalora:
      return "neither lora_A, lora_B nor lora_E";
    case PeftKind::vera:
      return "neither vera_A, vera_B, vera_lambda_d nor vera_lambda_b";
    case PeftKind::ia3:
      return "not ia3_l";
    case PeftKind::lora:
      break;
  }
  return "neither lora_A.weight nor lora_B.weight";
}

TENON_INLINE void PeftAdapter::add_vectors(PeftFactors& f, const std::string& stem, const std::string& adapter) const {
  const std::vector<std::uint64_t> shape{static_cast<std::uint64_t>(f.outputs)};
  if (config_.lora_bias) {
    const std::string named = stem + ".lora_B." + adapter + ".bias";
    f.b_bias = &tensor_of(!adapter.empty() && tensors_.find(named) ? named : stem + ".lora_B.bias", shape);
  }
  if (!config_.dora) return;
  std::string name = stem + ".lora_magnitude_vector";
  for (const std::string& other : {name + ".weight", name + "." + adapter + ".weight", name + "." + adapter}) {
    if (tensors_.find(name)) break;
    if (tensors_.find(other)) name = other;
  }
  if (!tensors_.find(name))
    detail::refuse_file(tensors_.name() + ": " + printable(name),
                        "the tensor is missing; use_dora of " + std::string(kPeftConfigName) + " asks for it");
  f.magnitude = &tensor_of(name, shape);
}

TENON_INLINE PeftScale PeftAdapter::scale_of(const PeftModule& module, const PeftTarget& target) const {
  const auto inputs = static_cast<std::uint64_t>(module.inputs), outputs = static_cast<std::uint64_t>(module.outputs);
  const std::string name = "base_model.model." + module.path + ".ia3_l";
  const std::vector<std::uint64_t> shape =
      target.of_inputs ? std::vector<std::uint64_t>{1, inputs} : std::vector<std::uint64_t>{outputs, 1};
  return {target.module, &tensor_of(name, shape), target.of_inputs};
}

}  // namespace tenon
