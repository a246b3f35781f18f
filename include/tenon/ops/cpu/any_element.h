// Ops over a cache that is chosen at run time, or its element: they call the op of the chosen view.
#pragma once
#include <variant>

#include "tenon/core/any_element_view.h"
#include "tenon/ops/cpu/attention.h"
#include "tenon/ops/cpu/convolve.h"
#include "tenon/ops/cpu/store_kv.h"

namespace tenon {

template <class... Views>
void store_kv(Cpu& device, const StoreKvArgs<AnyElementView<Views...>>& args) {
  std::visit([&](const auto& view) { store_kv(device, args.with(view)); }, args.kv.view);
}

template <class... Views>
void convolve_positions(Cpu& device, const ConvolveArgs<AnyElementView<Views...>>& args) {
  std::visit([&](const auto& view) { convolve_positions(device, args.with(view)); }, args.kv.view);
}

template <class... Views>
void attention(Cpu& device, AnyAttention how, const AttentionArgs<AnyElementView<Views...>>& args) {
  std::visit(
      [&](const auto& view) {
        if (how.direct)
          attention(device, DirectAttention{}, args.with(view));
        else
          attention(device, FlashAttention{}, args.with(view));
      },
      args.kv.view);
}

}  // namespace tenon
