// The fields of adapter_config.json, by how they are treated, and the error texts for them.
#pragma once
#include <string>
#include <string_view>

#include "tenon/checkpoint/peft_config.h"
#include "tenon/core/error.h"
#include "tenon/core/require.h"

namespace tenon::detail {

// A feature that is off where its field is absent, null, false or `empty`. Some features are on with {}, because PEFT
// then fills in defaults. `what` explains the feature in the error.
struct PeftFeature {
  const char *field, *empty, *what;
};
inline constexpr PeftFeature kPeftFeatures[] = {
    {"use_qalora", "", "QA-LoRA pools the inputs of lora_A"},
    {"use_bdlora", "", "factors of blocks on the diagonal"},
    {"target_parameters", "[]", "updates of parameters that belong to no linear"},
    {"layer_replication", "[]", "a model of replicated layers"},
    {"arrow_config", "", "routing between adapters"},
    {"kasa_config", "", "KaSA changes the base weights"},
    {"monteclora_config", "", "factors drawn at random"},
    {"velora_config", "", "VeLoRA adds tensors of its own"},
    {"loftq_config", "{}", "LoftQ changes the base weights"},
    {"megatron_config", "{}", "Megatron's parallel linears"},
};

// Fields that parse_peft_config uses.
inline constexpr const char* kPeftUsed[] = {"peft_type",
                                            "task_type",
                                            "r",
                                            "lora_alpha",
                                            "use_rslora",
                                            "rank_pattern",
                                            "alpha_pattern",
                                            "target_modules",
                                            "exclude_modules",
                                            "layers_to_transform",
                                            "layers_pattern",
                                            "bias",
                                            "use_dora",
                                            "lora_bias",
                                            "modules_to_save",
                                            "trainable_token_indices",
                                            "feedforward_modules",
                                            "alora_invocation_tokens",
                                            "init_r",
                                            "save_projection"};

// Fields that change no output: they describe origin and training. fan_in_fan_out says how the base stores its weight;
// A and B are stored the same way in both cases. The configs of EVA, CorDA and LoRA-GA belong to init_lora_weights. The
// last lines are of AdaLoRA's training and of VeRA's and IA3's beginning.
inline constexpr const char* kPeftInert[] = {"auto_mapping",
                                             "base_model_name_or_path",
                                             "revision",
                                             "peft_version",
                                             "lora_dropout",
                                             "inference_mode",
                                             "init_lora_weights",
                                             "eva_config",
                                             "corda_config",
                                             "megatron_core",
                                             "fan_in_fan_out",
                                             "qalora_group_size",
                                             "lora_ga_config",
                                             "runtime_config",
                                             "ensure_weight_tying",
                                             "target_r",
                                             "tinit",
                                             "tfinal",
                                             "deltaT",
                                             "beta1",
                                             "beta2",
                                             "orth_reg_weight",
                                             "total_step",
                                             "vera_dropout",
                                             "d_initial",
                                             "projection_prng_key",
                                             "init_weights",
                                             "init_ia3_weights"};

// "adapter_config.json: <field>", for errors.
std::string peft_where(const std::string& field);

[[noreturn]] void refuse_peft(const std::string& field, std::string_view what,
                              Error::Kind kind = Error::Kind::unsupported);

// Whether the text consists of names of letters, digits, _ and -, separated by dots. As a regular expression it can be
// matched by comparison alone.
bool is_peft_literal(std::string_view text);

// Error where Python refuses the pattern or PythonRegex does not support it.
void require_regex(const std::string& pattern, const std::string& field);

// The expression that PEFT's get_pattern_key passes to re.match for a key of rank_pattern or alpha_pattern.
inline std::string peft_key_regex(const std::string& key) { return "(.*\\.)?(" + key + ")$"; }

}  // namespace tenon::detail
