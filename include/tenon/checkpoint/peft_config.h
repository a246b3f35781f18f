// adapter_config.json of a LoRA adapter, as PEFT 0.21 reads it: which linears it updates, with what rank and scale.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/core/require.h"

namespace tenon {

inline constexpr const char* kPeftConfigName = "adapter_config.json";

struct PeftConfig {
  template <class Value>
  using Pattern = std::vector<std::pair<std::string, Value>>;  // in the file's order: the first that matches counts

  int r = 0;
  double alpha = 0;
  bool rslora = false;        // the scale is alpha / sqrt(r) in place of alpha / r
  Pattern<int> rank_pattern;  // of single modules, in place of r
  Pattern<double> alpha_pattern;
  bool all_linear = false;   // in place of target_modules
  std::string target_regex;  // likewise: a regular expression of Python that a module's whole path matches
  std::vector<std::string> target_modules;
  std::string exclude_regex;  // likewise, in place of exclude_modules
  std::vector<std::string> exclude_modules;
  std::vector<int> layers_to_transform;     // empty: all
  std::vector<std::string> layers_pattern;  // regular expressions before the layer's index; empty: anything
  bool tied_to_embedding = false;           // ensure_weight_tying: a head's factors are those of the embedding
  std::vector<std::string> inert;           // fields that are set and change no output
  std::vector<std::string> unknown;         // fields that PEFT does not have, and ignores
};

// Reads and checks the text of an adapter_config.json. Errors: invalid_file, or unsupported where a field asks for what
// would change the outputs and is not done.
PeftConfig parse_peft_config(std::string_view text);

// Reads <folder>/adapter_config.json. Errors: io where it is missing, and those of parse_peft_config.
PeftConfig read_peft_config(const std::filesystem::path& folder);

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/checkpoint/peft_config-inl.h"
#endif
