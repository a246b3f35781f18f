#pragma once
#include <string>

#include "tenon/core/require.h"
#include "tenon/io/json.h"
#include "tenon/model/configure.h"
#include "tenon/model/exaone4.h"

namespace tenon {

TENON_INLINE ModelConfig Exaone4::configure(const ConfigFile& file) {
  const Fields fields = file.fields();
  ModelConfig c =
      configure_llama_like(file, model_type, {.kv_heads = 32, .tokens = {.bos = 0, .eos = 2}, .epsilon = 1e-5});
  check_architectures(fields, {"Exaone4ForCausalLM", "Exaone4Model"});
  c.output_norms = true;
  const int size = window_field(fields, 4096);
  // The pattern counts only where the file does not list the layers. Newer files then hold a word there.
  const int pattern = size == 0 || fields.has("layer_types") ? 4 : fields.positive_int("sliding_window_pattern", 4);
  read_windows(
      fields, size, [&](int l) { return (l + 1) % pattern != 0; }, c);
  for (int l = 0; size > 0 && l < c.layers; ++l)
    c.rotations.push_back(c.window_of(l) > 0 ? Rotation::global : Rotation::none);
  return c;
}

TENON_INLINE DecoderSpec Exaone4::tensors(const ModelConfig& c) { return output_norm_tensors(c, false); }

}  // namespace tenon
