// Which linears of a model an adapter updates, as PEFT 0.21 finds them: check_target_module_exists and get_pattern_key.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "tenon/checkpoint/peft_config.h"
#include "tenon/core/require.h"

namespace tenon {

// A linear of the model, under the path that PEFT knows it by: "transformer.h.0.attn.c_attn".
struct PeftModule {
  std::string path;
  int inputs = 0, outputs = 0;
  bool head = false;  // the output layer, which all-linear leaves out
};

// A module that the adapter updates.
struct PeftTarget {
  std::size_t module = 0;  // index
  int rank = 0;
  double scale = 0;  // y += scale * B (A x)
};

// Names of target_modules that the model lacks: PEFT passes over them where others match.
std::vector<std::string> peft_absent_targets(const PeftConfig& config, std::span<const PeftModule> modules);

// The modules that the adapter updates, in their order. `unsupported`: paths of modules that PEFT can update and this
// library cannot. Errors: invalid_file where no module is left, or a rank or scale cannot be meant; unsupported where
// the adapter updates one of `unsupported`.
std::vector<PeftTarget> peft_targets(const PeftConfig& config, std::span<const PeftModule> modules,
                                     std::span<const std::string> unsupported = {});

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/checkpoint/peft_targets-inl.h"
#endif
