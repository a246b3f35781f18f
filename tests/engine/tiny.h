// The model that the engine tests run: two layers, and widths that are no multiples of anything, 3 heads of 20.
#pragma once
#include "tenon/model/gpt2.h"

namespace tenon {

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

}  // namespace tenon
