// Models that the engine tests run.
#pragma once
#include "tenon/model/gpt2.h"
#include "tenon/model/phi.h"

namespace tenon {

// Two layers, and widths that are no multiples of anything, 3 heads of 20.
inline ModelConfig tiny_gpt2() {
  ModelConfig c = Gpt2::small();
  c.layers = 2;
  c.heads = c.kv_heads = 3;
  c.head_dim = 20;
  c.hidden = 60;
  c.inner = 100;
  c.vocab = 301;
  c.positions = 320;
  c.eos = {300};
  return c;
}

// longrope turns all tokens of a text otherwise once the text is longer than `trained_positions`.
inline ModelConfig tiny_longrope() {
  ModelConfig c = llama_like(Phi3::model_type);
  c.layers = 2, c.hidden = 32, c.heads = 4, c.kv_heads = 2, c.head_dim = 8, c.inner = 48, c.vocab = 97;
  c.positions = 64, c.norm_epsilon = 1e-5f, c.tied_head = false;
  c.rotary.scaling = RotaryScaling::longrope;
  c.rotary.trained_positions = 24;
  c.rotary.short_factors = {1, 1, 1, 1};
  c.rotary.long_factors = {2, 3, 5, 7};
  return c;
}

}  // namespace tenon
