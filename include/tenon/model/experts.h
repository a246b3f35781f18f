// Mixtures of experts: Mixtral (Jiang et al., 2024), Qwen2-MoE (Yang et al., 2024), OLMoE (Muennighoff et al., 2024),
// Granite 3 with experts (IBM, 2024), Qwen3-MoE (Yang et al., 2025) and gpt-oss (OpenAI, 2025), as in Hugging Face's
// classes of these names.
#pragma once
#include <initializer_list>
#include <string_view>

#include "tenon/model/llama.h"

namespace tenon {

/// Mistral with experts, whose weights are normalised.
struct Mixtral {
  static constexpr std::string_view model_type = "mixtral";
  static constexpr std::string_view name_prefix = "model.";

  static ModelConfig configure(const ConfigFile& file);
  static DecoderSpec tensors(const ModelConfig& c);
};

/// Llama with experts and norms over all heads of queries and of keys.
struct OlMoE {
  static constexpr std::string_view model_type = "olmoe";
  static constexpr std::string_view name_prefix = "model.";

  static ModelConfig configure(const ConfigFile& file);
  static DecoderSpec tensors(const ModelConfig& c);
};

/// Qwen2 with experts in some layers, and a gated MLP beside them that every token uses.
struct Qwen2Moe {
  static constexpr std::string_view model_type = "qwen2_moe";
  static constexpr std::string_view name_prefix = "model.";

  static ModelConfig configure(const ConfigFile& file);
  static DecoderSpec tensors(const ModelConfig& c);
};

/// Qwen3 with experts in some layers.
struct Qwen3Moe {
  static constexpr std::string_view model_type = "qwen3_moe";
  static constexpr std::string_view name_prefix = "model.";

  static ModelConfig configure(const ConfigFile& file);
  static DecoderSpec tensors(const ModelConfig& c);
};

/// Granite with experts in stacked tensors.
struct GraniteMoe {
  static constexpr std::string_view model_type = "granitemoe";
  static constexpr std::string_view name_prefix = "model.";

  static ModelConfig configure(const ConfigFile& file);
  static DecoderSpec tensors(const ModelConfig& c);
};

/// Experts with clamped gates in stacked tensors, attention with sinks and, in every second layer, a window.
struct GptOss {
  static constexpr std::string_view model_type = "gpt_oss";
  static constexpr std::string_view name_prefix = "model.";

  static ModelConfig configure(const ConfigFile& file);
  static DecoderSpec tensors(const ModelConfig& c);
};

namespace detail {

// Names below "layers.N.": the mixture, its router, the matrices of an expert, and what some families have: the bias of
// the choice, and the shared expert with its gate.
struct ExpertNames {
  const char *mixture, *router, *gate, *up, *down;
  const char *choice_bias = nullptr, *shared = nullptr, *shared_gate = nullptr;
  bool bias_is_row = false;  // the bias of the choice is stored [1, experts]
};

// Reads the number of experts, under one of its names, and of those of a token.
void read_experts(const Fields& fields, std::initializer_list<const char*> names, int fallback, int chosen,
                  ModelConfig& c, std::initializer_list<const char*> chosen_names = {"num_experts_per_tok"});

// The width of a mixture's MLPs, which may not be null.
int expert_width(const Fields& fields, const char* name, int fallback);

// Gives the layers that are mixtures experts instead of their MLPs.
void add_experts(const ModelConfig& c, const ExpertNames& names, DecoderSpec& spec);

}  // namespace detail

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/model/experts-inl.h"
#endif
