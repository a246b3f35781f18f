// Queries, keys and values from wherever a checkpoint has the rows of each head, in the order that rotate() needs.
#pragma once
#include <string>
#include <utility>

#include "tenon/model/config.h"
#include "tenon/model/parts.h"

namespace tenon {

/// Where a checkpoint has the rows of a head.
struct HeadRows {
  std::string linear;  ///< its tensors are <linear>.weight and <linear>.bias
  int first = 0;       ///< the first row of the head
  int stored = 0;      ///< rows of the tensor
};

enum class HeadKind { query, key, value };

/// Whether rotate() needs the elements of a head in another order than the checkpoint has them.
bool reorders_heads(const RotaryConfig& rotary, int head_dim);

/// Appends the rows of a head as parts of tensor `name`. rotate() turns elements i and i + head_dim / 2 of a head, for
/// all pairs i. Other families are brought to that form by the order of the rows. The pairs that the family turns come
/// first, and pairs that it does not turn have frequency 0. Scores do not change: queries and keys have one order.
void append_head(const RotaryConfig& rotary, int head_dim, bool turned, const std::string& name, int first, int stored,
                 std::vector<TensorPart>& parts);

/// The linear of all heads: [queries, then keys, then values; hidden]. rows(kind, head) finds the rows of a head.
template <class Rows>
DecoderSpec::Linear heads_spec(const ModelConfig& c, bool bias, Rows&& rows) {
  DecoderSpec::Linear out{{{c.qkv_width(), c.hidden}, {}}, {{bias ? c.qkv_width() : 0, 1}, {}}};
  for (const HeadKind kind : {HeadKind::query, HeadKind::key, HeadKind::value}) {
    for (int h = 0; h < (kind == HeadKind::query ? c.heads : c.kv_heads); ++h) {
      const HeadRows at = rows(kind, h);
      const auto append = [&](const char* suffix, std::vector<TensorPart>& parts) {
        append_head(c.rotary, c.head_dim, kind != HeadKind::value, at.linear + suffix, at.first, at.stored, parts);
      };
      append(".weight", out.weight.parts);
      if (bias) append(".bias", out.bias.parts);
    }
  }
  return out;
}

/// The same from three linears, whose heads follow one another.
DecoderSpec::Linear separate_heads_spec(const ModelConfig& c, const std::string& query, const std::string& key,
                                        const std::string& value, bool bias);

/// The gain of a norm of heads, [heads * head_dim], from tensor `name`: of head_dim elements that all heads share, or,
/// if `own`, of heads * head_dim.
VectorSpec head_gain_spec(const ModelConfig& c, const std::string& name, int heads, bool own);

/// Sets the gains of a layer's norms of queries and keys: <attention>q_norm.weight and <attention>k_norm.weight.
void add_head_gains(const ModelConfig& c, const std::string& attention, bool own, DecoderSpec::Layer& layer);
/// The same for all layers, in the names of Llama's kind: layers.N.self_attn.
void add_head_gains(const ModelConfig& c, bool own, DecoderSpec& spec);

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/model/head_rows-inl.h"
#endif
