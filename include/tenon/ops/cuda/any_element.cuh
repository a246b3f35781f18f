// Ops over a cache whose element is chosen at run time: they call the op of its element.
#pragma once
#include <variant>

#include "tenon/core/any_element_view.h"
#include "tenon/ops/cuda/attention.cuh"
#include "tenon/ops/cuda/attention_tensor.cuh"
#include "tenon/ops/cuda/rounded_attention.cuh"
#include "tenon/ops/cuda/store_kv.cuh"

namespace tenon {

template <class... Views>
void store_kv(Cuda& device, const StoreKvArgs<AnyElementView<Views...>>& args) {
  std::visit([&](const auto& view) { store_kv(device, args.with(view)); }, args.kv.view);
}

template <class... Views, class Out>
void attention(Cuda& device, FlashAttention how, const AttentionArgs<AnyElementView<Views...>, Out>& args) {
  std::visit([&](const auto& view) { attention(device, how, args.with(view)); }, args.kv.view);
}

template <class... Views, class Out>
void attention(Cuda& device, FlashMma how, const AttentionArgs<AnyElementView<Views...>, Out>& args) {
  std::visit([&](const auto& view) { attention(device, how, args.with(view)); }, args.kv.view);
}

}  // namespace tenon
