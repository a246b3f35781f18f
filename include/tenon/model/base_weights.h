// The weights of a loaded decoder for adapters that depend on them.
#pragma once
#include <cstddef>
#include <memory>
#include <span>

#include "tenon/adapter/site.h"
#include "tenon/model/parts.h"
#include "tenon/ops/args.h"
#include "tenon/ops/change_args.h"

namespace tenon {

namespace detail {

// The product of a site, in a decoder's parts.
template <class Parts>
const auto& product_of(const Parts& parts, int layer, Site site) {
  const auto& of_layer = parts.layers[static_cast<std::size_t>(layer)];
  switch (site) {
    case Site::qkv:
      return of_layer.qkv;
    case Site::attn_out:
      return of_layer.attention_out;
    case Site::mlp_up:
      return of_layer.up;
    case Site::mlp_down:
      return of_layer.down;
    case Site::embedding_in:
      return parts.embedding_in;
    case Site::embedding_out:
      break;
  }
  return parts.embedding_out;
}

template <class Parts>
const auto& norm_of(const Parts& parts, int layer, NormSite site) {
  const auto& of_layer = parts.layers[static_cast<std::size_t>(layer)];
  switch (site) {
    case NormSite::attention:
      return of_layer.attention_norm;
    case NormSite::mlp:
      return of_layer.mlp_norm;
    case NormSite::attention_out:
      return of_layer.attention_out_norm;
    case NormSite::mlp_out:
      return of_layer.mlp_out_norm;
    case NormSite::query:
      return of_layer.query_norm;
    case NormSite::key:
      return of_layer.key_norm;
    case NormSite::after_attention:
      return of_layer.after_attention_norm;
    case NormSite::after_mlp:
      return of_layer.after_mlp_norm;
    case NormSite::embedding:
      return parts.embedding_norm;
    case NormSite::final_norm:
      break;
  }
  return parts.final_norm;
}

}  // namespace detail

/// Reads the weights that `parts` views, which must outlive the result. Empty if products on D cannot change.
template <DevicePolicy D, class W, class H>
BaseWeights base_weights(const DecoderParts<W, H, const float*>& parts) {
  if constexpr (!ChangesProducts<D>) {
    return {};
  } else {
    const auto own = std::make_shared<const DecoderParts<W, H, const float*>>(parts);
    BaseWeights base;  // member by member: nvcc 13.0 accepts no designated initializers in templates
    base.read_row = [own](int layer, Site site, int row, std::span<float> out) {
      const W& weight = detail::product_of(*own, layer, site).weight;
      for (std::size_t k = 0; k < out.size(); ++k) out[k] = weight.at(row, static_cast<int>(k));
    };
    base.read_table = [own](bool head, int token, std::span<float> out) {
      const H& table = head ? own->head : own->embedding;
      for (std::size_t k = 0; k < out.size(); ++k) out[k] = table.at(token, static_cast<int>(k));
    };
    base.bias = [own](int layer, Site site) { return detail::product_of(*own, layer, site).bias; };
    base.norm = [own](int layer, NormSite site) {
      const auto& norm = detail::norm_of(*own, layer, site);
      return NormChange{norm.gain, norm.bias};
    };
    return base;
  }
}

}  // namespace tenon
