// Finds the linears of a model that an adapter updates, as PEFT 0.21 does: check_target_module_exists and
// get_pattern_key.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "tenon/checkpoint/peft_config.h"
#include "tenon/core/require.h"

namespace tenon {

/// A linear of the model. `path` is PEFT's name for it: "transformer.h.0.attn.c_attn".
struct PeftModule {
  std::string path;
  int inputs = 0, outputs = 0;  ///< features
  bool head = false;            ///< the output layer, which all-linear excludes
  bool embedding = false;       ///< a table of rows by token, which all-linear excludes, too
};

/// A module that the adapter updates.
struct PeftTarget {
  std::size_t module = 0;  ///< index into the modules
  int rank = 0;            ///< columns of lora_B; 0 for IA3
  double scale = 0;        ///< y += scale * B (A x)
  bool of_inputs = false;  ///< IA3: multiplies the inputs instead of the outputs
};

/// Names in target_modules that match no module. PEFT ignores them where other names match.
std::vector<std::string> peft_absent_targets(const PeftConfig& config, std::span<const PeftModule> modules);

/// The modules that the adapter updates, in the order of `modules`. `unsupported`: paths of modules that PEFT can
/// update and tenon cannot.
/// Error invalid_file if no module is selected, a rank exceeds both dimensions of all its linears, or a scale
/// exceeds float32. Error unsupported if the adapter updates one of `unsupported`.
std::vector<PeftTarget> peft_targets(const PeftConfig& config, std::span<const PeftModule> modules,
                                     std::span<const std::string> unsupported = {});

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/checkpoint/peft_targets-inl.h"
#endif
