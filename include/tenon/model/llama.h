// Llama (Touvron et al., 2023; versions 1 to 3) as in Hugging Face's LlamaForCausalLM.
#pragma once

#include "tenon/model/head_rows.h"
#include "tenon/model/rotary_config.h"
#include "tenon/model/traits.h"

namespace tenon {

/// Values of missing fields, as in transformers.
struct LlamaDefaults {
  /// Sizes; 0: the file must have them.
  int layers = 0, hidden = 0, heads = 0, inner = 0, vocab = 0;
  int positions = 2048;
  int kv_heads = 0;  ///< 0, or null in the file: as many as heads
  SpecialTokenDefaults tokens = {};
  int head_dim = 0;  ///< 0: hidden_size / num_attention_heads
  bool tied_head = false;
  double epsilon = 1e-6;
  const char* epsilon_name = "rms_norm_eps";
  const char* inner_name = "intermediate_size";
  const char* activation_name = "hidden_act";  ///< null: no field changes the activation
  std::string_view activation = "silu";
  RotaryDefaults rotary = {};
  bool reads_rotary = true;  ///< false: the family reads its rotary fields itself
};

/// The switches that Llama and later families share: RMS norms, rotary positions, an MLP gated by SiLU. No sizes.
ModelConfig llama_like(std::string_view model_type);

/// Reads what Llama and later families share: sizes, rotary positions, a gated MLP.
ModelConfig configure_llama_like(const ConfigFile& file, std::string_view model_type, const LlamaDefaults& defaults);

/// Which layers layer_types names `kind`; empty if the file has no layer_types. Error for words other than `kind` and
/// "full_attention".
std::vector<bool> layers_of_kind(const Fields& fields, int layers, std::string_view kind);
/// The same for "sliding_attention".
std::vector<bool> sliding_layers(const Fields& fields, int layers);

/// sliding_window of a family some of whose layers always have one; 0: the file says null.
int window_field(const Fields& fields, int fallback);

/// Sets windows and `window` from layer_types or, where the file has none, from sliding(layer). `size`: the window of
/// layers that have one; 0: none has. Error if it is 0 and layer_types names sliding layers. `always`: error, too, if
/// it is 0 and sliding(layer) is true for a layer.
template <class Sliding>
void read_windows(const Fields& fields, int size, Sliding&& sliding, ModelConfig& c, bool always = false) {
  const std::vector<bool> listed = sliding_layers(fields, c.layers);
  bool all = true;
  for (int l = 0; l < c.layers; ++l) {
    const bool wants = listed.empty() ? sliding(l) : listed[static_cast<std::size_t>(l)];
    if (wants && size == 0 && (always || !listed.empty()))
      fields.refuse("sliding_window", "must be the window of the layers that are sliding_attention");
    const bool has = wants && size > 0;
    c.windows.push_back(has ? size : 0);
    all = all && has;
  }
  c.window = all ? size : 0;
  if (all || size == 0) c.windows.clear();
}

/// Reads `rotary` and `local_rotary`. Files of transformers 5 hold both in rope_parameters. Older files have only a
/// theta for the local one. `local`: its defaults, and the name of its theta.
void read_two_rotations(const Fields& fields, const RotaryDefaults& global, const RotaryDefaults& local,
                        ModelConfig& c);

/// Makes layers with a window turn by local_rotary, if that differs from `rotary`. Call it after both are read.
void turn_windows_locally(ModelConfig& c);

/// The tensors that Llama and later families share.
DecoderSpec llama_like_tensors(const ModelConfig& c);

/// The same with MLPs without gates.
DecoderSpec plain_mlp_tensors(const ModelConfig& c);

/// The same with norms of what attention and MLP add, none before them, and gains of heads. own: of add_head_gains.
DecoderSpec output_norm_tensors(const ModelConfig& c, bool own);

/// Makes the gain of the norm 1 + w.
void add_one(DecoderSpec::Norm& norm);

/// Makes gate and up of each MLP one tensor of the checkpoint, mlp.gate_up_proj.
void pack_gates(const ModelConfig& c, DecoderSpec& spec);

/// Reads the fields of a Llama, whatever `architectures` says.
ModelConfig configure_llama(const ConfigFile& file);

/// The traits of Llama; see ModelTraits.
struct Llama {
  static constexpr std::string_view model_type = "llama";
  static constexpr std::string_view name_prefix = "model.";

  static ModelConfig configure(const ConfigFile& file);

  static DecoderSpec tensors(const ModelConfig& c) { return llama_like_tensors(c); }

  /// The sizes of Llama 3.2 1B (1.24 billion parameters).
  static ModelConfig one_billion();
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/model/llama-inl.h"
#endif
