// The parts of a decoder, generic in the types of a matrix and a vector. The types are tensor names while a checkpoint
// is read, and views while a model runs.
#pragma once
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tenon/core/views.h"
#include "tenon/ops/args.h"

namespace tenon {

/// A tensor of the checkpoint, or some of its rows. It supplies the next `rows` rows of a matrix, or elements of a
/// vector.
struct TensorPart {
  std::string name;
  int rows = 0;
  bool transposed = false;  ///< stored [cols, rows], like the Conv1D of GPT-2
  /// If `block` > 0, the part has only some rows: blocks of `block` rows, one every `stride` rows, from row `first`.
  int first = 0, block = 0, stride = 0;
  int stored = 0;         ///< rows of the whole tensor; 0: the part is the whole tensor
  int stacked = 1;        ///< number of matrices in the tensor, [stacked, ...]; their rows are numbered consecutively
  bool is_stack = false;  ///< stored [stacked, ...] where `stacked` is 1, too

  /// Rows of the whole tensor.
  int stored_rows() const { return stored > 0 ? stored : rows; }

  /// Rows that are adjacent in the tensor, from tensor row `at`.
  struct Run {
    int at, rows;
  };
  /// The run that begins at row `row` of the part, of at most `most` rows. It does not cross a stacked matrix.
  Run run(int row, int most) const;
};

/// A matrix of the model, y = W x, with rows from one or several tensors.
struct MatrixSpec {
  Shape shape;                    ///< [outputs, inputs]
  std::vector<TensorPart> parts;  ///< empty: the model has no such matrix

  /// Whether the model has no such matrix.
  bool none() const { return parts.empty(); }
};

/// A vector, or a table of rows, that stays float32.
struct VectorSpec {
  Shape shape;                     ///< [n, 1] for a vector, which is stored with one dimension
  std::vector<TensorPart> parts;   ///< empty, without `fill`: the model has no such vector
  bool table = false;              ///< stored [rows, cols]
  std::optional<float> fill = {};  ///< without parts: the value of every element
  float plus = 0, times = 1;       ///< an element is (stored + plus) * times

  /// Whether the model has no such vector.
  bool none() const { return parts.empty() && !fill; }
};

/// The parts of a decoder. `Matrix` represents a matrix, `Head` the embedding or the head, and `Vector` a vector.
template <class Matrix, class Head, class Vector>
struct DecoderParts {
  struct Norm {
    Vector gain, bias;
  };
  using Linear = LinearParts<Matrix, Vector>;
  using Expert = ExpertParts<Matrix, Vector>;
  struct Layer {
    /// Norms of the inputs. Without its norm, attention or MLP reads x. With a parallel residual and no mlp_norm, the
    /// MLP reads the result of attention_norm.
    Norm attention_norm = {}, mlp_norm = {};
    Norm attention_out_norm = {}, mlp_out_norm = {};  ///< norms of what is added to x; most families: none
    Norm query_norm = {}, key_norm = {};  ///< [heads * head_dim], [kv_heads * head_dim]; most families have none
    /// Norms of x after attention and after the MLP are added, in families with ModelConfig::norms_after only.
    Norm after_attention_norm = {}, after_mlp_norm = {};
    /// [queries of all heads, then keys, then values; hidden]; of a short convolution [gates, then the two factors of
    /// its input: 3 hidden; hidden]
    Linear qkv = {};
    Vector conv_weight = {}, conv_bias = {};  ///< [hidden, taps], [hidden] of a short convolution; most families: none
    Linear attention_out = {}, up = {}, down = {};  ///< up: [inner, hidden]; in a gated MLP [gate, then up: 2 inner;
                                                    ///< hidden]; of a mixture: those of its shared expert, or none
    Vector shared_gate = {};  ///< [1, hidden], whose product's sigmoid multiplies a shared expert's output; or none
    Vector sinks = {};        ///< [heads], attention sinks: scores in the softmax without a value; most families: none
    Vector router = {}, router_bias = {};  ///< [experts, hidden] and [experts], of a mixture
    Vector choice_bias = {};               ///< [experts], MixtureArgs::choice_bias; most mixtures: none
    std::vector<Expert> experts = {};
    const std::byte* expert_table = nullptr;  ///< MixtureArgs::table
  };
  Head embedding;         ///< [vocab, embedding width]
  Head head;              ///< [vocab, embedding width]; equal to `embedding` if the model ties them
  Linear embedding_in;    ///< [hidden, embedding width]; none where the widths are equal
  Linear embedding_out;   ///< [embedding width, hidden], before the head; none where the widths are equal
  Vector score = {};      ///< [labels, head width], a classification head; most checkpoints have none
  Vector head_bias;       ///< [vocab], added to the logits; most families have none
  Vector position_table;  ///< [positions, hidden]
  Norm embedding_norm;    ///< norm of the embedded token; some families have none
  std::vector<Layer> layers;
  Norm final_norm;
};

/// The names and shapes of a decoder's tensors.
using DecoderSpec = DecoderParts<MatrixSpec, MatrixSpec, VectorSpec>;

// Building blocks for the specifications of families.

/// The specification of a vector of n elements, a table, or a matrix. Each is read from one tensor.
inline VectorSpec vector_spec(std::string name, int n) { return {{n, 1}, {{std::move(name), n}}}; }
inline VectorSpec table_spec(std::string name, Shape shape) { return {shape, {{std::move(name), shape.rows}}, true}; }
inline MatrixSpec matrix_spec(std::string name, Shape shape) { return {shape, {{std::move(name), shape.rows}}}; }

/// <name>.weight and <name>.bias of a norm; an RMS norm has no bias.
DecoderSpec::Norm layer_norm_spec(const std::string& name, int n);
DecoderSpec::Norm rms_norm_spec(const std::string& name, int n);

/// A layer norm without a bias, and one without weights.
DecoderSpec::Norm biasless_norm_spec(const std::string& name, int n);
DecoderSpec::Norm plain_norm_spec(int n);

/// <name>.weight [outputs, inputs] and, if `bias`, <name>.bias.
DecoderSpec::Linear linear_spec(const std::string& name, Shape shape, bool bias);

/// Several linears of the same inputs as one, their outputs concatenated: {{"q_proj", 64}, {"k_proj", 32}}.
DecoderSpec::Linear stacked_spec(const std::vector<std::pair<std::string, int>>& names, int inputs, bool bias);

/// A linear with outputs stored head by head, [heads, {query, key, value}, head_dim]. The matrix has all queries, then
/// keys, then values.
DecoderSpec::Linear interleaved_qkv_spec(const std::string& name, int heads, int head_dim, int inputs, bool bias);

/// Calls matrix(spec), head(spec) and vector(spec) for every part, in the order in which a step reads them, and
/// collects the results. For a tied head it calls head() once.
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
  out.head_bias = vector(spec.head_bias);
  out.embedding_norm = norm(spec.embedding_norm);
  out.embedding_in = linear(spec.embedding_in);
  for (const auto& layer : spec.layers) {
    typename Out::Layer made;
    made.attention_norm = norm(layer.attention_norm);
    made.qkv = linear(layer.qkv);
    made.query_norm = norm(layer.query_norm);
    made.key_norm = norm(layer.key_norm);
    made.conv_weight = vector(layer.conv_weight);
    made.conv_bias = vector(layer.conv_bias);
    made.attention_out = linear(layer.attention_out);
    made.sinks = vector(layer.sinks);
    made.attention_out_norm = norm(layer.attention_out_norm);
    made.after_attention_norm = norm(layer.after_attention_norm);
    made.mlp_norm = norm(layer.mlp_norm);
    made.up = linear(layer.up);
    made.down = linear(layer.down);
    made.shared_gate = vector(layer.shared_gate);
    made.router = vector(layer.router);
    made.router_bias = vector(layer.router_bias);
    made.choice_bias = vector(layer.choice_bias);
    for (const auto& expert : layer.experts) made.experts.push_back({linear(expert.up), linear(expert.down)});
    made.mlp_out_norm = norm(layer.mlp_out_norm);
    made.after_mlp_norm = norm(layer.after_mlp_norm);
    out.layers.push_back(std::move(made));
  }
  out.final_norm = norm(spec.final_norm);
  out.embedding_out = linear(spec.embedding_out);
  out.embedding = head(spec.embedding);
  out.head = tied_head ? out.embedding : head(spec.head);
  out.score = vector(spec.score);
  return out;
}

/// The functions that visit_parts calls.
struct PartVisitor {
  std::function<void(const MatrixSpec&)> matrix, head;
  std::function<void(const VectorSpec&)> vector;
};

/// Visits every part in the order of map_parts, absent ones included.
void visit_parts(const DecoderSpec& spec, bool tied_head, const PartVisitor& visitor);

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/model/parts-inl.h"
#endif
