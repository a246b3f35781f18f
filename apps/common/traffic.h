// Bytes that a step of a model must read, and operations of its matrix products, computed from the model's sizes.
#pragma once
#include <algorithm>

#include "families.h"

namespace program {

// The size of a mean step.
struct StepSize {
  double rows = 0, logit_rows = 0;
  double sequences = 0, context = 0;  // sequences whose keys and values are read, and their mean length in tokens
};

class Traffic {
 public:
  // approximation: bytes of the head's int8 copy, which steps read instead of the head; null if there is none.
  Traffic(const tenon::ModelConfig& config, const WeightFormat& weights, const KvFormat& kv,
          std::size_t (*approximation)(tenon::Shape) = nullptr)
      : config_(config),
        count_(count_weights(family_named(config.model_type).tensors(config), config.tied_head, weights)),
        kv_bytes_(static_cast<double>(kv.token_bytes(config.kv()))),
        approximation_bytes_(approximation ? approximation({config.vocab, config.hidden}) : 0) {}

  // Bytes of a step: layers and head once, the looked-up rows of embedding and position table, and keys and values of
  // the mean context.
  double bytes(const StepSize& step) const {
    const double row = static_cast<double>(config_.hidden) * sizeof(float);
    const double embedding_row = static_cast<double>(count_.embedding_bytes) / config_.vocab;
    return static_cast<double>(count_.matrix_bytes + count_.vector_bytes +
                               (approximation_bytes_ > 0 ? approximation_bytes_ : count_.head_bytes)) +
           step.rows * (embedding_row + (count_.position_bytes > 0 ? row : 0)) +
           step.sequences * kv_bytes(step.context);
  }

  // Operations of the matrix products, two per multiply-add. Attention is left out, since it is small at these lengths.
  // The head's int8 copy is left out, since other instructions multiply it.
  double operations(const StepSize& step) const {
    const double head = approximation_bytes_ > 0 ? 0 : static_cast<double>(config_.vocab) * config_.hidden;
    return 2 * (static_cast<double>(count_.matrix_parameters) * step.rows + head * step.logit_rows);
  }

 private:
  // A short convolution reads as many positions as it has taps, and attention as many heads as it has.
  double kv_bytes(double context) const {
    if (config_.conv_layers.empty()) return seen(context) * kv_bytes_;
    const tenon::KvShape kv = config_.kv();
    const auto convolutions =
        static_cast<double>(std::count(config_.conv_layers.begin(), config_.conv_layers.end(), true));
    const double of_head = kv_bytes_ / kv.layers / kv.heads;  // bytes of a position, in one layer
    return of_head * ((kv.layers - convolutions) * config_.kv_heads * seen(context) +
                      convolutions * config_.conv_heads() * std::min<double>(context, config_.conv_taps));
  }
  double seen(double context) const { return config_.window > 0 ? std::min<double>(context, config_.window) : context; }

  tenon::ModelConfig config_;
  WeightCount count_;
  double kv_bytes_ = 0;  // of one token
  std::size_t approximation_bytes_ = 0;
};

}  // namespace program
