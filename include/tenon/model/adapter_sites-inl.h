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

// Adds one vector per tensor. `like`: layer and place of the vector.
TENON_INLINE void add_vectors(const VectorSpec& spec, std::string_view prefix, const AdapterVector& like,
                              std::vector<AdapterVector>& out) {
  const std::size_t first = out.size();
  int own = 0;
  for (const TensorPart& part : spec.parts) {
    const std::string name = std::string(prefix) + part.name;
    auto found = std::find_if(out.begin() + static_cast<std::ptrdiff_t>(first), out.end(),
                              [&](const AdapterVector& v) { return v.tensor == name; });
    if (found == out.end()) {
      AdapterVector vector = like;
      vector.tensor = name;
      vector.stored = part.stored_rows();
      vector.size = spec.shape.rows;
      vector.plus = spec.plus;
      vector.times = spec.times;
      found = out.insert(out.end(), std::move(vector));
    }
    for (int row = 0; row < part.rows;) {
      const auto run = part.run(row, part.rows - row);
      found->runs.push_back({run.at, own + row, run.rows});
      row += run.rows;
    }
    own += part.rows;
  }
}

TENON_INLINE void add_norm(const DecoderSpec::Norm& norm, std::string_view prefix, int layer, NormSite site,
                           std::vector<AdapterVector>& out) {
  AdapterVector like{.tensor = {}, .layer = layer, .norm = site, .is_bias = false, .runs = {}};
  add_vectors(norm.gain, prefix, like, out);
  like.is_bias = true;
  add_vectors(norm.bias, prefix, like, out);
}

TENON_INLINE void add_bias(const DecoderSpec::Linear& linear, std::string_view prefix, int layer, Site site,
                           std::vector<AdapterVector>& out) {
  add_vectors(linear.bias, prefix, {.tensor = {}, .layer = layer, .site = site, .runs = {}}, out);
}

TENON_INLINE std::vector<AdapterVector> adapter_vectors(const DecoderSpec& spec, std::string_view prefix) {
  std::vector<AdapterVector> all;
  add_norm(spec.embedding_norm, prefix, 0, NormSite::embedding, all);
  add_bias(spec.embedding_in, prefix, 0, Site::embedding_in, all);
  for (int l = 0; l < static_cast<int>(spec.layers.size()); ++l) {
    const auto& layer = spec.layers[static_cast<std::size_t>(l)];
    add_bias(layer.qkv, prefix, l, Site::qkv, all);
    add_bias(layer.attention_out, prefix, l, Site::attn_out, all);
    add_bias(layer.up, prefix, l, Site::mlp_up, all);
    add_bias(layer.down, prefix, l, Site::mlp_down, all);
    add_norm(layer.attention_norm, prefix, l, NormSite::attention, all);
    add_norm(layer.mlp_norm, prefix, l, NormSite::mlp, all);
    add_norm(layer.attention_out_norm, prefix, l, NormSite::attention_out, all);
    add_norm(layer.mlp_out_norm, prefix, l, NormSite::mlp_out, all);
    add_norm(layer.query_norm, prefix, l, NormSite::query, all);
    add_norm(layer.key_norm, prefix, l, NormSite::key, all);
    add_norm(layer.after_attention_norm, prefix, l, NormSite::after_attention, all);
    add_norm(layer.after_mlp_norm, prefix, l, NormSite::after_mlp, all);
  }
  add_norm(spec.final_norm, prefix, 0, NormSite::final_norm, all);
  add_bias(spec.embedding_out, prefix, 0, Site::embedding_out, all);
  return all;
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
              .tied_head = tied,
              .head_bias = !spec.head_bias.none(),
              .head_width = spec.embedding.shape.cols,
              .labels = spec.score.shape.rows};
  // Tables of one tensor, by rows.
  const auto is_plain = [](const MatrixSpec& m) {
    return m.parts.size() == 1 && !m.parts[0].transposed && m.parts[0].block == 0 && m.parts[0].stacked == 1;
  };
  if (is_plain(spec.embedding) && (tied || is_plain(spec.head)) && (tied || spec.head.shape == spec.embedding.shape)) {
    all.base.vocab = spec.embedding.shape.rows;
    all.base.width = spec.embedding.shape.cols;
  }
  all.vectors = detail::adapter_vectors(spec, prefix);
  for (const AdapterVector& vector : all.vectors) all.base.vectors.emplace(vector.tensor, vector.stored);
  return all;
}

TENON_INLINE AdapterSites adapter_sites(const DecoderSpec& spec, std::string_view prefix, const ModelFiles& files) {
  const AdapterNaming& names = files.adapter_naming;
  AdapterSites all = adapter_sites(spec, names.prefix.empty() ? prefix : names.prefix, files.tensors);
  if (!names.prefix.empty()) all.base.file_prefix = prefix;
  all.base.older_names = names.older;
  return all;
}

}  // namespace tenon
