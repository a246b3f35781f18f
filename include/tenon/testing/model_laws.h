// The laws of ModelTraits: a family names exactly the tensors that forward() reads for its configuration's switches, in
// the shapes of its sizes.
#pragma once
#include <algorithm>
#include <exception>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/model/traits.h"
#include "tenon/testing/random.h"

namespace tenon::testing {

namespace detail {

template <class Model>
class ModelTrial {
 public:
  ModelTrial(const ModelConfig& config, Violations& broken)
      : c_(config), broken_(broken), spec_(Model::tensors(config)) {}

  void run() {
    sizes();
    check(spec_.embedding.shape == Shape{c_.vocab, c_.head_width()},
          "model: the embedding is [vocab, hidden], or [vocab, embedding_width]");
    check(spec_.head.parts.empty() == c_.tied_head, "model: names a head where it is not tied to the embedding");
    check(c_.tied_head || spec_.head.shape == Shape{c_.vocab, c_.head_width()},
          "model: the head is as large as the embedding");
    check(spec_.position_table.none() == (c_.position_kind != PositionKind::learned),
          "model: names a table of positions where position_kind is learned");
    check(spec_.position_table.none() ||
              (spec_.position_table.table && spec_.position_table.shape == Shape{c_.positions, c_.hidden}),
          "model: the table of positions is [positions, hidden]");
    check(static_cast<int>(spec_.layers.size()) == c_.layers, "model: names as many layers as its configuration has");
    if (!spec_.embedding_norm.gain.none()) norm(spec_.embedding_norm);
    if (!spec_.final_norm.gain.none()) norm(spec_.final_norm);
    if (c_.embedding_width > 0) {
      linear(spec_.embedding_in, {c_.hidden, c_.embedding_width}, "model: embedding_in is [hidden, embedding_width]");
      linear(spec_.embedding_out, {c_.embedding_width, c_.hidden}, "model: embedding_out is [embedding_width, hidden]");
    }
    for (int l = 0; l < std::min(c_.layers, static_cast<int>(spec_.layers.size())); ++l)
      layer(spec_.layers[static_cast<std::size_t>(l)], l);
    parts(spec_.embedding.parts, c_.vocab);
    parts(spec_.head.parts, c_.tied_head ? 0 : c_.vocab);
    parts(spec_.position_table.parts, spec_.position_table.none() ? 0 : c_.positions);
    const DecoderSpec again = Model::tensors(c_);
    check(again.layers.size() == spec_.layers.size() && again.embedding.shape == spec_.embedding.shape,
          "model: equal configurations give equal tensors");
  }

 private:
  void layer(const DecoderSpec::Layer& layer, int l) {
    for (const auto* n : {&layer.attention_norm, &layer.mlp_norm, &layer.attention_out_norm, &layer.mlp_out_norm,
                          &layer.after_attention_norm, &layer.after_mlp_norm})
      if (!n->gain.none()) norm(*n);
    const int inner = c_.mlp_kind == MlpKind::gated ? 2 : 1;
    if (c_.is_convolution(l))
      convolution(layer);
    else
      linear(layer.qkv, {c_.qkv_width(), c_.hidden}, "model: qkv is [(heads + 2 kv_heads) head_dim, hidden]");
    linear(layer.attention_out, {c_.hidden, c_.query_width()}, "model: attention_out is [hidden, heads head_dim]");
    check(layer.sinks.none() || layer.sinks.shape == Shape{c_.heads, 1}, "model: sinks are [heads]");
    if (c_.is_mixture(l)) return experts(layer);
    linear(layer.up, {inner * c_.inner, c_.hidden},
           "model: up is [inner, hidden], or [2 inner, hidden] where mlp_kind is gated");
    linear(layer.down, {c_.hidden, c_.inner}, "model: down is [hidden, inner]");
  }

  void convolution(const DecoderSpec::Layer& layer) {
    linear(layer.qkv, {3 * c_.hidden, c_.hidden}, "model: qkv of a short convolution is [3 hidden, hidden]");
    check(layer.conv_weight.table && layer.conv_weight.shape == Shape{c_.hidden, c_.conv_taps},
          "model: conv_weight is a table [hidden, conv_taps]");
    check(layer.conv_bias.none() || layer.conv_bias.shape == Shape{c_.hidden, 1}, "model: conv_bias is [hidden]");
    check(2 * c_.conv_heads() * c_.head_dim == c_.hidden && c_.query_width() == c_.hidden,
          "model: beside short convolutions heads are even, and together as wide as hidden");
    parts(layer.conv_weight.parts, c_.hidden);
    parts(layer.conv_bias.parts, layer.conv_bias.none() ? 0 : c_.hidden);
  }

  void experts(const DecoderSpec::Layer& layer) {
    const bool shares = c_.shared_inner > 0;
    check(layer.up.weight.none() != shares && layer.down.weight.none() != shares,
          "model: a mixture has an MLP beside its experts where shared_inner is above 0");
    if (shares) {
      linear(layer.up, {2 * c_.shared_inner, c_.hidden}, "model: up of a shared expert is [2 shared_inner, hidden]");
      linear(layer.down, {c_.hidden, c_.shared_inner}, "model: down of a shared expert is [hidden, shared_inner]");
    }
    check(layer.shared_gate.none() || (layer.shared_gate.table && layer.shared_gate.shape == Shape{1, c_.hidden}),
          "model: the gate of a shared expert is a table [1, hidden]");
    check(layer.router.table && layer.router.shape == Shape{c_.experts, c_.hidden},
          "model: a router is a table [experts, hidden]");
    check(layer.router_bias.none() || layer.router_bias.shape == Shape{c_.experts, 1},
          "model: the bias of a router is [experts]");
    check(layer.choice_bias.none() != c_.choice_bias &&
              (layer.choice_bias.none() || layer.choice_bias.shape.rows * layer.choice_bias.shape.cols == c_.experts),
          "model: the bias of the choice is [experts], where choice_bias says so");
    check(static_cast<int>(layer.experts.size()) == c_.experts, "model: a mixture has as many experts as it says");
    check(c_.experts_chosen > 0 && c_.experts_chosen <= c_.experts, "model: a token chooses some of the experts");
    parts(layer.router.parts, c_.experts);
    for (const auto& expert : layer.experts) {
      linear(expert.up, {2 * c_.expert_inner, c_.hidden}, "model: up of an expert is [2 expert_inner, hidden]");
      linear(expert.down, {c_.hidden, c_.expert_inner}, "model: down of an expert is [hidden, expert_inner]");
    }
  }

  void check(bool holds, const char* law) { note(broken_, holds, law); }

  void sizes() {
    check(c_.model_type == Model::model_type, "model: configure sets model_type");
    check(c_.layers > 0 && c_.hidden > 0 && c_.heads > 0 && c_.kv_heads > 0 && c_.head_dim > 0 && c_.inner > 0 &&
              c_.vocab > 0 && c_.positions > 0,
          "model: sizes are positive");
    check(c_.kv_heads > 0 && c_.heads % c_.kv_heads == 0, "model: kv_heads divides heads");
    check(c_.norm_epsilon > 0, "model: norm_epsilon is positive");
    check(c_.position_kind != PositionKind::rotary || c_.head_dim % 2 == 0,
          "model: head_dim is even where position_kind is rotary");
  }

  void norm(const DecoderSpec::Norm& n) {
    check(n.gain.shape == Shape{c_.hidden, 1} && !n.gain.none(), "model: a norm has a gain of [hidden]");
    check(n.bias.none() == (c_.norm_kind == NormKind::rms), "model: a norm has a bias where norm_kind is layer");
    check(n.bias.none() || n.bias.shape == Shape{c_.hidden, 1}, "model: the bias of a norm is [hidden]");
    parts(n.gain.parts, c_.hidden);
    parts(n.bias.parts, n.bias.none() ? 0 : c_.hidden);
  }

  void linear(const DecoderSpec::Linear& l, Shape shape, const char* law) {
    check(l.weight.shape == shape, law);
    check(l.bias.none() || l.bias.shape == Shape{l.weight.shape.rows, 1}, "model: a bias has an element an output");
    parts(l.weight.parts, l.weight.shape.rows);
    parts(l.bias.parts, l.bias.none() ? 0 : l.weight.shape.rows);
  }

  // The parts of one matrix give all its rows, and no row of a tensor is read twice.
  void parts(const std::vector<TensorPart>& parts, int rows) {
    int sum = 0;
    for (const TensorPart& part : parts) {
      sum += part.rows;
      check(part.stacked > 0 && part.stored_rows() % part.stacked == 0, "model: stacked matrices are equally large");
      if (part.stacked <= 0 || part.stored_rows() < part.stacked) continue;
      check(part.name.rfind(std::string(Model::name_prefix), 0) != 0 || Model::name_prefix.empty(),
            "model: names come without name_prefix");
      for (int row = 0; row < part.rows;) {
        const TensorPart::Run run = part.run(row, part.rows - row);
        check(run.at >= 0 && run.rows > 0 && run.at + run.rows <= part.stored_rows(),
              "model: the rows of a part lie within its tensor");
        if (run.rows <= 0) break;
        for (int i = 0; i < run.rows; ++i)
          check(read_.insert({part.name, run.at + i}).second, "model: no row of a tensor is read twice");
        row += run.rows;
      }
    }
    check(sum == rows, "model: the parts of a matrix have as many rows as the matrix");
  }

  const ModelConfig& c_;
  Violations& broken_;
  DecoderSpec spec_;
  std::set<std::pair<std::string, int>> read_;
};

}  // namespace detail

/// Compares the tensors of a configuration with the traits. Returns the broken laws. Call it for every kind of
/// configuration that `configure` returns: with a tied head and without, with biases and without.
template <class Model>
Violations model_laws(const ModelConfig& config) {
  static_assert(ModelTraits<Model>,
                "tenon: model_laws got a type that is no model family; it needs static configure and tensors, and "
                "name_prefix and model_type; see docs/add-a-family.md");
  Violations broken;
  if constexpr (ModelTraits<Model>) {
    try {
      detail::ModelTrial<Model>(config, broken).run();
    } catch (const std::exception& e) {
      broken.push_back(std::string("model: throws nothing, but threw: ") + e.what());
    }
  }
  return broken;
}

}  // namespace tenon::testing
