// adapter_config.json of a LoRA adapter, as PEFT 0.21 reads it: which linears the adapter updates, with what rank and
// scale.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/core/adapter_task.h"
#include "tenon/core/require.h"

namespace tenon {

inline constexpr const char* kPeftConfigName = "adapter_config.json";  ///< the file's name in an adapter folder

/// How the tensors of an adapter make its updates.
enum class PeftKind : std::uint8_t {
  lora,     ///< y += scale * B (A x) (Hu et al., 2021)
  adalora,  ///< y += scale * B (diag(E) A x) (Zhang et al., 2023)
  vera,     ///< y += diag(lambda_b) B (diag(lambda_d) A x), A and B shared by all modules (Kopiczko et al., 2024)
  ia3,      ///< y is multiplied by a vector, or x is (Liu et al., 2022)
};

/// The checked fields of an adapter_config.json.
struct PeftConfig {
  template <class Value>
  using Pattern = std::vector<std::pair<std::string, Value>>;  ///< in the file's order: the first match counts

  PeftKind kind = PeftKind::lora;
  AdapterTask task = AdapterTask::text;  ///< task_type
  /// Rank, unless rank_pattern names the module. AdaLoRA: init_r.
  int r = 0;
  /// lora_alpha, unless alpha_pattern names the module.
  double alpha = 0;
  bool rslora = false;        ///< scale = alpha / sqrt(r) instead of alpha / r
  bool dora = false;          ///< W x + scale * B (A x) times magnitude / |W + scale * B A| (Liu et al., 2024)
  bool lora_bias = false;     ///< lora_B has a bias, which is multiplied by the scale
  Pattern<int> rank_pattern;  ///< ranks of single modules. AdaLoRA: by the module's path
  /// Alphas of single modules.
  Pattern<double> alpha_pattern;
  bool all_linear = false;  ///< target_modules is "all-linear": every linear but the head
  /// target_modules as a string: a Python regular expression that must match a module's whole path.
  std::string target_regex;
  /// target_modules as a list: names, each the end of a path or all of it.
  std::vector<std::string> target_modules;
  std::string exclude_regex;  ///< exclude_modules as a string
  /// exclude_modules as a list.
  std::vector<std::string> exclude_modules;
  /// IA3: feedforward_modules as a string. Modules that it matches scale their inputs, others their outputs.
  std::string feedforward_regex;
  std::vector<std::string> feedforward_modules;  ///< IA3: likewise as a list, each the end of a path
  std::vector<std::string> modules_to_save;      ///< modules that were trained whole, each the end of a path
  /// trainable_token_indices: ids whose rows the file holds, by the end of the module's path; "": the embedding.
  Pattern<std::vector<int>> token_indices;
  std::vector<int> layers_to_transform;     ///< empty: all layers
  std::vector<std::string> layers_pattern;  ///< regular expressions before the layer's index; empty: anything
  bool tied_to_embedding = false;           ///< ensure_weight_tying: the head uses the embedding's factors
  /// Activated LoRA (Greenewald et al., 2025): the update acts from the begin of the last occurrence of these tokens in
  /// the prompt on. Empty: everywhere.
  std::vector<std::int32_t> invocation_tokens;
  std::vector<std::string> inert;    ///< fields that are set and change no output
  std::vector<std::string> unknown;  ///< fields that PEFT does not know; they are ignored

  /// Whether modules_to_save names the module: the end of its path (PEFT, _set_trainable).
  bool is_saved(std::string_view path) const;
  /// Whether modules_to_save keeps the module from being a target: whole parts of its path
  /// (check_target_module_exists).
  bool saves_within(std::string_view path) const;
  /// Whether a field of targets, saved modules or tokens names this module.
  bool names(std::string_view module) const;
  /// Whether trainable_token_indices has the same ids for two modules.
  bool has_same_tokens(std::string_view path, std::string_view other) const;
};

/// Parses and checks the text of an adapter_config.json. Errors: invalid_file; unsupported if a field needs a
/// feature that changes the outputs and is not implemented.
PeftConfig parse_peft_config(std::string_view text);

/// Reads <folder>/adapter_config.json. Errors: io if the file is missing, and those of parse_peft_config.
PeftConfig read_peft_config(const std::filesystem::path& folder);

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/checkpoint/peft_config-inl.h"
#endif
