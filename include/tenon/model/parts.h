// The parts of a decoder, generic in what stands for a matrix and a vector: tensor names while a checkpoint is read,
// views while a model runs.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "tenon/core/views.h"

namespace tenon {

// A tensor of the checkpoint, or some of its rows, that gives the next `rows` rows of a matrix or elements of a vector.
struct TensorPart {
  std::string name;
  int rows = 0;
  bool transposed = false;  // stored [cols, rows], as the Conv1D of GPT-2 is
  // Where only some of its rows are meant: blocks of `block` rows, one every `stride`, from row `first` on.
  int first = 0, block = 0, stride = 0;
  int stored = 0;  // rows of the whole tensor; 0: `rows`, all of it

  int stored_rows() const { return stored > 0 ? stored : rows; }

  // A run of rows that stand behind one another in the tensor: `at` is where row `row` of the part stands.
  struct Run {
    int at, rows;
  };
  Run run(int row, int most) const;
};

// A matrix as the model wants it: y = W x, its rows from one tensor or from several.
struct MatrixSpec {
  Shape shape;                    // [outputs, inputs]
  std::vector<TensorPart> parts;  // empty: the model has none
};

// A vector, or a table that stays float32 as it is.
struct VectorSpec {
  Shape shape;                    // [n, 1] for a vector, which is stored with one dimension
  std::vector<TensorPart> parts;  // empty: the model has none
  bool table = false;             // stored [rows, cols]

  bool none() const { return parts.empty(); }
};

template <class Matrix, class Head, class Vector>
struct DecoderParts {
  struct Norm {
    Vector gain, bias;
  };
  struct Linear {
    Matrix weight;
    Vector bias;
  };
  struct Layer {
    Norm attention_norm, mlp_norm;
    Linear qkv;                      // [queries of all heads, then keys, then values; hidden]
    Linear attention_out, up, down;  // up: [inner, hidden]; of a gated MLP [gate, then up: 2 inner; hidden]
  };
  Head embedding;         // [vocab, hidden]
  Head head;              // [vocab, hidden]; the embedding again where they are tied
  Vector position_table;  // [positions, hidden]
  Norm embedding_norm;    // of the embedded token, in some families
  std::vector<Layer> layers;
  Norm final_norm;
};

using DecoderSpec = DecoderParts<MatrixSpec, MatrixSpec, VectorSpec>;

// ---- what families are written with

inline VectorSpec vector_spec(std::string name, int n) { return {{n, 1}, {{std::move(name), n}}}; }
inline VectorSpec table_spec(std::string name, Shape shape) { return {shape, {{std::move(name), shape.rows}}, true}; }
inline MatrixSpec matrix_spec(std::string name, Shape shape) { return {shape, {{std::move(name), shape.rows}}}; }

// <name>.weight and <name>.bias of a norm.
DecoderSpec::Norm layer_norm_spec(const std::string& name, int n);
DecoderSpec::Norm rms_norm_spec(const std::string& name, int n);

// <name>.weight [outputs, inputs] and, where there is one, <name>.bias.
DecoderSpec::Linear linear_spec(const std::string& name, Shape shape, bool bias);

// Several linears of the same input as one, the outputs of one behind the other's: {{"q_proj", 64}, {"k_proj", 32}}.
DecoderSpec::Linear stacked_spec(const std::vector<std::pair<std::string, int>>& names, int inputs, bool bias);

// A linear whose outputs are stored head by head, [heads, {query, key, value}, head_dim], in our order.
DecoderSpec::Linear interleaved_qkv_spec(const std::string& name, int heads, int head_dim, int inputs, bool bias);

// Calls matrix(spec), head(spec) and vector(spec) for every part, in the order in which a step reads them, and collects
// the results. A tied head is asked for once.
template <class M, class H, class V, class OnMatrix, class OnHead, class OnVector>
DecoderParts<M, H, V> map_parts(const DecoderSpec& spec, bool tied_head, OnMatrix matrix, OnHead head,
                                OnVector vector) {
  using Out = DecoderParts<M, H, V>;
  const auto norm = [&](const DecoderSpec::Norm& n) { return typename Out::Norm{vector(n.gain), vector(n.bias)}; };
  const auto linear = [&](const DecoderSpec::Linear& l) {
    return typename Out::Linear{matrix(l.weight), vector(l.bias)};
  };
  Out out;
  out.position_table = vector(spec.position_table);
  out.embedding_norm = norm(spec.embedding_norm);
  for (const auto& layer : spec.layers) {
    auto attention_norm = norm(layer.attention_norm);
    auto qkv = linear(layer.qkv);
    auto attention_out = linear(layer.attention_out);
    auto mlp_norm = norm(layer.mlp_norm);
    auto up = linear(layer.up);
    auto down = linear(layer.down);
    out.layers.push_back({attention_norm, mlp_norm, qkv, attention_out, up, down});
  }
  out.final_norm = norm(spec.final_norm);
  out.embedding = head(spec.embedding);
  out.head = tied_head ? out.embedding : head(spec.head);
  return out;
}

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/model/parts-inl.h"
#endif
