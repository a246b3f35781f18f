#pragma once
#include <cmath>
#include <cstddef>

#include "tenon/checkpoint/peft.h"
#include "tenon/checkpoint/peft_fields.h"
#include "tenon/core/require.h"
#include "tenon/model/merged_updates.h"

namespace tenon {

TENON_INLINE MergedUpdates::MergedUpdates(std::span<const AdapterUse> uses, const AdapterSites& sites,
                                          const AdapterOptions& options) {
  const std::vector<PeftModule> modules = sites.modules();
  for (const AdapterUse& use : uses) {
    detail::require(std::isfinite(use.weight), "merged", "the weight of an adapter must be finite");
    const PeftAdapter adapter = PeftAdapter::open(options.folder_of(use.name), modules, sites.base);
    if (!adapter.config().invocation_tokens.empty())
      detail::refuse_peft("alora_invocation_tokens",
                          "activated LoRA begins only at its invocation tokens, and cannot be "
                          "merged into the weights; use --lora segmented");
    adapter.require_plain_updates("cannot be merged into the weights; use --lora segmented");
    for (const PeftFactors& f : adapter.factors()) {
      const PeftModule& module = modules[f.module];
      Update update{f.rank, module.inputs, f.scale * static_cast<double>(use.weight), {}, {}};
      update.a.resize(static_cast<std::size_t>(f.rank) * static_cast<std::size_t>(module.inputs));
      update.b.resize(static_cast<std::size_t>(f.rank) * static_cast<std::size_t>(module.outputs));
      adapter.read_a_floats(f, update.a);
      adapter.read_b_floats(f, update.b);
      by_tensor_[module.path.substr(sites.base.prefix.size()) + ".weight"].push_back(std::move(update));
    }
    adapter.tensors().verify_unchanged();
  }
}

TENON_INLINE void MergedUpdates::add(const std::string& tensor, int first, int count, float* rows) const {
  const std::vector<Update>& updates = by_tensor_.at(tensor);
  const int inputs = updates.front().inputs;
  std::vector<double> total, product;  // [inputs]: the row's sum, and its row of B A
  for (int i = 0; i < count; ++i) {
    float* row = rows + static_cast<std::ptrdiff_t>(i) * inputs;
    total.assign(row, row + inputs);
    for (const Update& u : updates) {
      const float* b = u.b.data() + static_cast<std::ptrdiff_t>(first + i) * u.rank;
      product.assign(static_cast<std::size_t>(inputs), 0);
      for (int r = 0; r < u.rank; ++r) {
        // Products of two floats are exact in double, so contraction by a compiler changes no sum.
        const auto factor = static_cast<double>(b[r]);
        const float* a = u.a.data() + static_cast<std::ptrdiff_t>(r) * inputs;
        for (int k = 0; k < inputs; ++k) product[static_cast<std::size_t>(k)] += factor * static_cast<double>(a[k]);
      }
      for (std::size_t k = 0; k < total.size(); ++k) total[k] = std::fma(u.scale, product[k], total[k]);
    }
    for (int k = 0; k < inputs; ++k) row[k] = static_cast<float>(total[static_cast<std::size_t>(k)]);
  }
}

}  // namespace tenon
