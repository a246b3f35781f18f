// Changes of the embedding and the head: low-rank updates, tables that were trained whole, rows of single tokens.
#pragma once
#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "tenon/checkpoint/peft.h"
#include "tenon/checkpoint/peft_fields.h"
#include "tenon/core/error.h"
#include "tenon/core/require.h"

namespace tenon {

TENON_INLINE void PeftAdapter::find_tables(std::span<const PeftTarget> targets, std::size_t linears,
                                           const PeftBase& base) {
  const std::vector<PeftModule> modules = base.tables();
  const std::string name = adapter_name();
  std::vector<PeftTable> found(modules.size());
  for (std::size_t i = 0; i < modules.size(); ++i) {
    PeftTable& table = found[i];
    table.head = i == 1;
    const auto target = std::find_if(targets.begin(), targets.end(),
                                     [&](const PeftTarget& each) { return each.module == linears + i; });
    if (target != targets.end()) {
      if (config_.kind != PeftKind::lora)
        detail::refuse_peft("target_modules", printable(modules[i].path) + " can be updated by LoRA and DoRA alone");
      table.update =
          table.head ? factors_of(modules[i], *target, name) : factors_of_embedding(modules[i], *target, name);
      if (table.update.b_bias) detail::refuse_peft("lora_bias", "is not supported for " + printable(modules[i].path));
    }
    find_rows(table, modules[i], base);
    // PEFT leaves the head out where both name the same rows: it is tied to the embedding, which has them.
    if (i == 0 || !base.tied_head || !config_.has_same_tokens(modules[0].path, modules[1].path))
      find_tokens(table, modules[i], i == 0);
  }
  for (const auto& named : config_.token_indices) {
    const std::string& key = named.first;
    const auto is_meant = [&](const PeftModule& each) { return each.path.ends_with(key); };
    if (!key.empty() && std::none_of(modules.begin(), modules.end(), is_meant))
      detail::refuse_peft("trainable_token_indices." + key, "names neither the embedding nor the head of the model");
  }
  // The tied head follows the rows of single tokens, and no other change.
  if (found.size() == 2 && base.tied_head && !found[0].tokens.empty() && !found[1].rows) {
    found[1].rows = found[0].rows;
    found[1].tokens = found[0].tokens;
  }
  for (PeftTable& table : found) {
    if (table.head && base.head_bias && !table.tokens.empty())
      detail::refuse_peft("trainable_token_indices",
                          std::string("changes rows of the head") +
                              (base.tied_head ? ", which is tied to the embedding" : "") +
                              ". The head has a bias, which PEFT leaves out of such rows; that is not supported");
    if (table.rows && table.update.a)
      throw Error(Error::Kind::unsupported, tensors_.where(*table.rows),
                  "replaces rows that the adapter updates, too, which is not supported");
    if (table.rows || table.update.a) tables_.push_back(std::move(table));
  }
}

TENON_INLINE PeftFactors PeftAdapter::factors_of_embedding(const PeftModule& module, const PeftTarget& target,
                                                           const std::string& name) const {
  const std::string stem = "base_model.model." + module.path;
  const auto rank = static_cast<std::uint64_t>(target.rank);
  const auto named = [&](const std::string& factor) {
    const std::string with_name = stem + factor + "." + name;
    return !name.empty() && tensors_.find(with_name) ? with_name : stem + factor;
  };
  PeftFactors f{target.module, module.inputs, module.outputs, target.rank, target.scale};
  f.a = &tensor_of(named(".lora_embedding_A"), {rank, static_cast<std::uint64_t>(module.inputs)});
  f.b = &tensor_of(named(".lora_embedding_B"), {static_cast<std::uint64_t>(module.outputs), rank});
  add_vectors(f, stem, name);
  return f;
}

TENON_INLINE void PeftAdapter::find_rows(PeftTable& table, const PeftModule& module, const PeftBase& base) const {
  const std::string name = "base_model.model." + module.path + ".weight";
  const TensorInfo* tensor = tensors_.find(name);
  const TensorInfo* own = tensor ? base.find(name) : nullptr;
  if (!tensor || (own && (own->shape != tensor->shape || base.holds(tensors_, *tensor, *own)))) return;
  const bool follows = config_.tied_to_embedding && !config_.modules_to_save.empty();
  if (!config_.is_saved(module.path) && !follows) return;  // PEFT would load it into the base
  table.rows = &tensor_of(name, {static_cast<std::uint64_t>(base.vocab), static_cast<std::uint64_t>(base.width)});
}

TENON_INLINE void PeftAdapter::find_tokens(PeftTable& table, const PeftModule& module, bool is_first) const {
  for (const auto& [key, tokens] : config_.token_indices) {
    const std::string field = "trainable_token_indices" + (key.empty() ? std::string() : "." + key);
    if (key.empty() ? !is_first : !module.path.ends_with(key)) continue;
    if (table.rows || !table.tokens.empty()) detail::refuse_peft(field, "names rows that are replaced already");
    const int rows = module.embedding ? module.inputs : module.outputs,
              width = module.embedding ? module.outputs : module.inputs;
    for (const int token : tokens)
      if (token >= rows)
        detail::refuse_peft(field, std::to_string(token) + " is not in the model's vocabulary of " +
                                       std::to_string(rows) + ": new tokens are not supported");
    if (std::set<int>(tokens.begin(), tokens.end()).size() != tokens.size())
      detail::refuse_peft(field, "names a token twice");
    if (tokens.empty()) continue;
    table.tokens.assign(tokens.begin(), tokens.end());
    table.rows = &tensor_of("base_model.model." + module.path + ".token_adapter.trainable_tokens_delta",
                            {static_cast<std::uint64_t>(tokens.size()), static_cast<std::uint64_t>(width)});
  }
}

}  // namespace tenon
