// Sampling defaults from generation_config.json, with the meaning they have in transformers' generate.
#pragma once

#include "tenon/checkpoint/config.h"
#include "tenon/core/request.h"

namespace tenon {

namespace detail {

// Fields that would change answers and that tenon does not implement. They must be null, [] or the neutral value,
// which is the default of transformers. Other fields are ignored because they change nothing here: those of beam
// search alone (length_penalty, early_stopping, diversity_penalty), of caches, of outputs and of speculation. Lengths
// (max_length, max_new_tokens) are set by each API.
struct NeutralField {
  const char* name;
  double neutral;
};
inline constexpr NeutralField kNeutralFields[] = {
    {"num_beams", 1},
    {"num_beam_groups", 1},
    {"num_return_sequences", 1},
    {"min_length", 0},
    {"min_new_tokens", 0},
    {"no_repeat_ngram_size", 0},
    {"encoder_no_repeat_ngram_size", 0},
    {"encoder_repetition_penalty", 1},
    {"guidance_scale", 1},
    {"penalty_alpha", 0},
    {"token_healing", 0},
};
// The same, but only with do_sample: without it transformers builds no such step.
inline constexpr NeutralField kNeutralFieldsOfDraws[] = {{"epsilon_cutoff", 0}, {"eta_cutoff", 0}, {"top_h", 0}};
inline constexpr const char* kRefusedFields[] = {
    "bad_words_ids",   "forced_bos_token_id",   "forced_eos_token_id", "exponential_decay_length_penalty",
    "suppress_tokens", "begin_suppress_tokens", "sequence_bias",       "watermarking_config",
    "constraints",     "force_words_ids",       "dola_layers",         "stop_strings"};

}  // namespace detail

/// Sets temperature, top_k, top_p, min_p, typical_p and repetition_penalty from the file. Without do_sample the
/// temperature is 0, which is greedy. An absent field gets the default of transformers, including top_k = 50.
/// Errors: io if the model has no generation_config.json; invalid_file if a value is out of range. Error
/// unsupported if a field would change answers and is not implemented.
void set_generation_defaults(const ConfigFile& file, Options& options);

/// The temperature that the file has for requests that draw, whether or not it says do_sample; 1 if it says 0. Errors
/// as above.
float drawing_temperature(const ConfigFile& file);

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/checkpoint/generation_config-inl.h"
#endif
