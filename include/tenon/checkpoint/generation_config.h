// generation_config.json as defaults of sampling, as transformers' generate takes them.
#pragma once
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tenon/checkpoint/config.h"
#include "tenon/core/error.h"
#include "tenon/core/fields.h"
#include "tenon/core/request.h"

namespace tenon {

namespace detail {

// Fields that would change answers and are not honoured. They must be null, [] or the neutral value, which is the
// default of transformers. Fields of beams alone (length_penalty, early_stopping, diversity_penalty), of caches, of
// outputs and of speculation change nothing here; lengths (max_length, max_new_tokens) are each API's own.
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
// The same, of draws alone: without do_sample transformers builds no such step.
inline constexpr NeutralField kNeutralFieldsOfDraws[] = {{"epsilon_cutoff", 0}, {"eta_cutoff", 0}, {"top_h", 0}};
inline constexpr const char* kRefusedFields[] = {
    "bad_words_ids",   "forced_bos_token_id",   "forced_eos_token_id", "exponential_decay_length_penalty",
    "suppress_tokens", "begin_suppress_tokens", "sequence_bias",       "watermarking_config",
    "constraints",     "force_words_ids",       "dola_layers",         "stop_strings"};

inline void refuse_generation(const Fields& fields, const std::string& name) {
  throw Error(Error::Kind::unsupported, fields.where(name),
              "is " + Fields::describe(fields.value(name)) +
                  ", which --generation-config cannot honour; take it out of the file, "
                  "or set the options of sampling with each request");
}

inline void check_neutral(const Fields& fields, std::span<const NeutralField> neutral_fields) {
  for (const auto& [name, neutral] : neutral_fields) {
    if (!fields.has(name)) continue;
    const Json& value = fields.value(name);
    const bool is_neutral = value.is_boolean() ? value.get<bool>() == (neutral != 0) : value == Json(neutral);
    if (!is_neutral) refuse_generation(fields, name);
  }
}

}  // namespace detail

// Sets temperature, top_k, top_p, min_p, typical_p and repetition_penalty. Without do_sample the temperature is 0,
// which is greedy. An absent field is the default of transformers, top_k of 50 included. Errors: io where the model has
// no generation_config.json, invalid_file where a value is out of its range, unsupported where a field would change
// answers and cannot be honoured.
inline void set_generation_defaults(const ConfigFile& file, Options& options) {
  const std::optional<Fields> found = file.generation();
  if (!found) throw Error(Error::Kind::io, "generation_config.json", "does not exist, and its defaults were asked for");
  const Fields& fields = *found;
  const bool draws = fields.boolean("do_sample", false);
  detail::check_neutral(fields, detail::kNeutralFields);
  if (draws) detail::check_neutral(fields, detail::kNeutralFieldsOfDraws);
  for (const char* name : detail::kRefusedFields)
    if (fields.has(name) && !(fields.value(name).is_array() && fields.value(name).empty()))
      detail::refuse_generation(fields, name);

  constexpr double largest = std::numeric_limits<float>::max();
  const auto number = [&](const char* name, double low, double high, double fallback) {
    return static_cast<float>(fields.number(name, low, high, fallback));
  };
  const float temperature = number("temperature", 0, largest, 1);
  options.temperature = draws ? temperature : 0.0f;
  options.top_k = fields.integer("top_k", 0, std::numeric_limits<int>::max(), 50);
  options.top_p = number("top_p", std::numeric_limits<float>::min(), 1, 1);
  options.min_p = number("min_p", 0, 1, 0);
  options.typical_p = number("typical_p", std::numeric_limits<float>::min(), 1, 1);
  options.repetition_penalty = number("repetition_penalty", std::numeric_limits<float>::min(), largest, 1);
}

}  // namespace tenon
