// The parts of a decoder, generic in what stands for a matrix and a vector: tensor names while a checkpoint is read,
// views while a model runs.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "tenon/core/views.h"

namespace tenon {

// A tensor of the checkpoint that gives the next `rows` rows of a matrix.
struct TensorPart {
  std::string name;
  int rows = 0;
  bool transposed = false;  // stored [cols, rows], as the Conv1D of GPT-2 is
};

// A matrix as the model wants it: y = W x, from one tensor or several stacked by rows.
struct MatrixSpec {
  Shape shape;                    // [outputs, inputs]
  std::vector<TensorPart> parts;  // empty: the model has none
};

// A vector, or a table that stays float32 as it is.
struct VectorSpec {
  std::string name;               // empty: the model has none
  Shape shape;                    // [1, n] for a vector
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
    Linear qkv, attention_out, up, down;
  };
  Head embedding;         // [vocab, hidden]
  Head head;              // [vocab, hidden]; the embedding again where they are tied
  Vector position_table;  // [positions, hidden]
  std::vector<Layer> layers;
  Norm final_norm;
};

using DecoderSpec = DecoderParts<MatrixSpec, MatrixSpec, VectorSpec>;

// Calls matrix(spec), head(spec) and vector(spec) for every part, in the order in which a step reads them, and collects the
// results. A tied head is asked for once.
template <class M, class H, class V, class OnMatrix, class OnHead, class OnVector>
DecoderParts<M, H, V> map_parts(const DecoderSpec& spec, bool tied_head, OnMatrix matrix, OnHead head, OnVector vector) {
  using Out = DecoderParts<M, H, V>;
  const auto norm = [&](const DecoderSpec::Norm& n) { return typename Out::Norm{vector(n.gain), vector(n.bias)}; };
  const auto linear = [&](const DecoderSpec::Linear& l) { return typename Out::Linear{matrix(l.weight), vector(l.bias)}; };
  Out out;
  out.position_table = vector(spec.position_table);
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
