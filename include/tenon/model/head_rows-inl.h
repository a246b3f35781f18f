#pragma once
#include "tenon/core/require.h"
#include "tenon/model/head_rows.h"

namespace tenon {

TENON_INLINE bool reorders_heads(const RotaryConfig& rotary, int head_dim) {
  return rotary.neighbours || (rotary.width != 0 && rotary.width != head_dim);
}

TENON_INLINE void append_head(const RotaryConfig& rotary, int head_dim, bool turned, const std::string& name, int first,
                              int stored, std::vector<TensorPart>& parts) {
  // `count` rows from row `at` on, one every `stride`.
  const auto append = [&](int at, int count, int stride) {
    TensorPart* last = parts.empty() ? nullptr : &parts.back();
    if (count == 0) return;
    if (stride == 1 && last && last->name == name && last->block == 0 && last->first + last->rows == at)
      last->rows += count;
    else if (stride == 1)
      parts.push_back({.name = name, .rows = count, .first = at, .stored = stored});
    else
      parts.push_back({.name = name, .rows = count, .first = at, .block = 1, .stride = stride, .stored = stored});
  };
  if (!turned || !reorders_heads(rotary, head_dim)) return append(first, head_dim, 1);
  const int width = rotary.width == 0 ? head_dim : rotary.width, pairs = width / 2, rest = (head_dim - width) / 2;
  for (int half = 0; half < 2; ++half) {
    if (rotary.neighbours)
      append(first + half, pairs, 2);
    else
      append(first + half * pairs, pairs, 1);
    append(first + width + half * rest, rest, 1);
  }
}

TENON_INLINE DecoderSpec::Linear separate_heads_spec(const ModelConfig& c, const std::string& query,
                                                     const std::string& key, const std::string& value, bool bias) {
  return heads_spec(c, bias, [&](HeadKind kind, int head) -> HeadRows {
    const std::string& name = kind == HeadKind::query ? query : kind == HeadKind::key ? key : value;
    return {name, head * c.head_dim, kind == HeadKind::query ? c.query_width() : c.kv_width()};
  });
}

TENON_INLINE VectorSpec head_gain_spec(const ModelConfig& c, const std::string& name, int heads, bool own) {
  VectorSpec out{.shape = {heads * c.head_dim, 1}, .parts = {}};
  for (int h = 0; h < heads; ++h) {
    append_head(c.rotary, c.head_dim, true, name, own ? h * c.head_dim : 0, (own ? heads : 1) * c.head_dim, out.parts);
  }
  return out;
}

TENON_INLINE void add_head_gains(const ModelConfig& c, const std::string& attention, bool own,
                                 DecoderSpec::Layer& layer) {
  layer.query_norm.gain = head_gain_spec(c, attention + "q_norm.weight", c.heads, own);
  layer.key_norm.gain = head_gain_spec(c, attention + "k_norm.weight", c.kv_heads, own);
}

TENON_INLINE void add_head_gains(const ModelConfig& c, bool own, DecoderSpec& spec) {
  for (int l = 0; l < c.layers; ++l)
    add_head_gains(c, "layers." + std::to_string(l) + ".self_attn.", own, spec.layers[static_cast<std::size_t>(l)]);
}

}  // namespace tenon
