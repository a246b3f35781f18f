// GPT-2 (Radford et al., 2019) in the form of Hugging Face's GPT2LMHeadModel.
#pragma once
#include <algorithm>
#include <string>

#include "tenon/checkpoint/config.h"
#include "tenon/model/config.h"
#include "tenon/model/parts.h"
#include "tenon/model/traits.h"

namespace tenon {

struct Gpt2 {
  static constexpr std::string_view model_type = "gpt2";
  static constexpr NormKind norm = NormKind::layer;
  static constexpr PositionKind positions = PositionKind::learned;
  static constexpr MlpKind mlp = MlpKind::plain;

  // Every field that changes the output is read or refused; the rest (dropout, initialisation, summary_*) acts in training.
  static ModelConfig configure(const ConfigFile& file) {
    const Fields fields = file.fields();
    fields.choice("model_type", {model_type});
    check_architecture(fields);
    ModelConfig c;
    c.model_type = model_type;
    c.layers = fields.positive_int("n_layer");
    c.hidden = fields.positive_int("n_embd");
    c.heads = c.kv_heads = fields.positive_int("n_head");
    if (c.hidden % c.heads != 0) {
      fields.refuse("n_head", "must divide n_embd: " + std::to_string(c.hidden) + " is no multiple of " + std::to_string(c.heads));
    }
    c.head_dim = c.hidden / c.heads;
    if (c.hidden > kLargestWidth) fields.refuse("n_embd", "must be at most " + std::to_string(kLargestWidth));
    c.inner = fields.positive_int("n_inner", 4 * c.hidden);
    if (c.inner > kLargestWidth) fields.refuse("n_inner", "must be at most " + std::to_string(kLargestWidth));
    c.vocab = fields.positive_int("vocab_size");
    c.positions = fields.positive_int("n_positions");
    c.norm_epsilon = static_cast<float>(fields.positive("layer_norm_epsilon", 1e-5));
    c.activation = activation(fields);
    c.tied_head = fields.boolean("tie_word_embeddings", true);
    c.scale_scores = fields.boolean("scale_attn_weights", true);
    c.scale_scores_by_layer = fields.boolean("scale_attn_by_inverse_layer_idx", false);
    const SpecialTokens special = file.special_tokens(c.vocab);
    c.bos = special.bos;
    c.eos = special.eos;
    return c;
  }

  static DecoderSpec tensors(const ModelConfig& c) {
    const auto vector = [](std::string name, int n) { return VectorSpec{std::move(name), {1, n}}; };
    const auto conv1d = [&](const std::string& name, int outputs, int inputs) {
      return DecoderSpec::Linear{{{outputs, inputs}, {{name + ".weight", outputs, true}}}, vector(name + ".bias", outputs)};
    };
    const auto layer_norm = [&](const std::string& name) {
      return DecoderSpec::Norm{vector(name + ".weight", c.hidden), vector(name + ".bias", c.hidden)};
    };
    DecoderSpec spec;
    spec.embedding = {{c.vocab, c.hidden}, {{"wte.weight", c.vocab, false}}};
    spec.position_table = {"wpe.weight", {c.positions, c.hidden}};
    for (int l = 0; l < c.layers; ++l) {
      const std::string h = "h." + std::to_string(l) + ".";
      spec.layers.push_back({layer_norm(h + "ln_1"), layer_norm(h + "ln_2"), conv1d(h + "attn.c_attn", c.qkv_width(), c.hidden),
                             conv1d(h + "attn.c_proj", c.hidden, c.query_width()),
                             conv1d(h + "mlp.c_fc", c.inner, c.hidden), conv1d(h + "mlp.c_proj", c.hidden, c.inner)});
    }
    spec.final_norm = layer_norm("ln_f");
    if (!c.tied_head) spec.head = {{c.vocab, c.hidden}, {{"lm_head.weight", c.vocab, false}}};
    return spec;
  }

  // Names are stored with this prefix or without it.
  static constexpr std::string_view name_prefix = "transformer.";

  // The shapes of the published model of 124 million parameters.
  static ModelConfig small() {
    ModelConfig c;
    c.model_type = model_type;
    c.layers = c.heads = c.kv_heads = 12;
    c.hidden = 768;
    c.head_dim = 64;
    c.inner = 3072;
    c.vocab = 50257;
    c.positions = 1024;
    c.norm_epsilon = 1e-5f;
    return c;
  }

 private:
  // Heads other than the language model's have tensors of their own, which would be left unread.
  static void check_architecture(const Fields& fields) {
    if (!fields.has("architectures")) return;
    for (const auto& name : fields.strings("architectures")) {
      if (name == "GPT2LMHeadModel" || name == "GPT2Model" || name == "GPT2DoubleHeadsModel") return;
    }
    fields.refuse("architectures", "names no GPT2LMHeadModel, GPT2Model or GPT2DoubleHeadsModel");
  }

  static Activation activation(const Fields& fields) {
    const std::string name =
        fields.choice("activation_function", {"gelu_new", "gelu_pytorch_tanh", "gelu_fast", "gelu"}, "gelu_new");
    return name == "gelu" ? Activation::gelu : Activation::gelu_new;
  }
};

}  // namespace tenon
