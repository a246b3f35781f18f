#pragma once
#include <algorithm>
#include <string>
#include <utility>

#include "tenon/core/require.h"
#include "tenon/model/adapter_sites.h"

namespace tenon::detail {

// Adds one site per tensor of the matrix. A part stored in blocks becomes several runs.
TENON_INLINE void add_sites(const MatrixSpec& matrix, std::string_view prefix, int layer, Site site,
                            std::vector<AdapterSite>& out) {
  const std::size_t first = out.size();
  int own = 0;
  for (const TensorPart& part : matrix.parts) {
    const std::string path = std::string(prefix) + part.name.substr(0, part.name.size() - kWeightSuffix.size());
    const auto of_path = [&](const AdapterSite& s) { return s.module.path == path; };
    auto found = std::find_if(out.begin() + static_cast<std::ptrdiff_t>(first), out.end(), of_path);
    if (found == out.end()) {
      out.push_back({.module = {.path = path, .inputs = matrix.shape.cols, .outputs = part.stored_rows()},
                     .layer = layer,
                     .site = site,
                     .first_output = own,
                     .runs = {}});
      found = std::prev(out.end());
    }
    for (int row = 0; row < part.rows;) {
      const auto run = part.run(row, part.rows - row);
      found->runs.push_back({run.at, own + row, run.rows});
      row += run.rows;
    }
    own += part.rows;
  }
}

}  // namespace tenon::detail

namespace tenon {

TENON_INLINE AdapterSites adapter_sites(const DecoderSpec& spec, std::string_view prefix,
                                        std::shared_ptr<const Checkpoint> tensors) {
  AdapterSites all{static_cast<int>(spec.layers.size()), {}};
  detail::add_sites(spec.embedding_in.weight, prefix, 0, Site::embedding_in, all.sites);  // of no layer
  detail::add_sites(spec.embedding_out.weight, prefix, 0, Site::embedding_out, all.sites);
  for (int l = 0; l < all.layers; ++l) {
    const auto& layer = spec.layers[static_cast<std::size_t>(l)];
    detail::add_sites(layer.qkv.weight, prefix, l, Site::qkv, all.sites);
    detail::add_sites(layer.attention_out.weight, prefix, l, Site::attn_out, all.sites);
    detail::add_sites(layer.up.weight, prefix, l, Site::mlp_up, all.sites);
    detail::add_sites(layer.down.weight, prefix, l, Site::mlp_down, all.sites);
  }
  const auto path_of = [](const MatrixSpec& matrix) {
    const std::string name = matrix.parts.empty() ? std::string() : matrix.parts.front().name;
    return name.ends_with(detail::kWeightSuffix) ? name.substr(0, name.size() - detail::kWeightSuffix.size()) : name;
  };
  const bool tied = spec.head.parts.empty();
  all.base = {.tensors = std::move(tensors),
              .prefix = std::string(prefix),
              .embedding = std::string(prefix) + path_of(spec.embedding),
              .head = tied ? "lm_head" : path_of(spec.head),
              .tied_head = tied};
  return all;
}

}  // namespace tenon
