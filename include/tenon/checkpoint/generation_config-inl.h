#pragma once
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tenon/checkpoint/generation_config.h"
#include "tenon/core/error.h"
#include "tenon/core/require.h"
#include "tenon/io/fields.h"
#include "tenon/io/json.h"

namespace tenon::detail {

TENON_INLINE void refuse_generation(const Fields& fields, const std::string& name) {
  throw Error(Error::Kind::unsupported, fields.where(name),
              "is " + Fields::describe(fields.value(name)) +
                  ", which --generation-config cannot honour; take it out of the file, "
                  "or set the options of sampling with each request");
}

TENON_INLINE void check_neutral(const Fields& fields, std::span<const NeutralField> neutral_fields) {
  for (const auto& [name, neutral] : neutral_fields) {
    if (!fields.has(name)) continue;
    const Json& value = fields.value(name);
    const bool is_neutral = value.is_boolean() ? value.get<bool>() == (neutral != 0) : value == Json(neutral);
    if (!is_neutral) refuse_generation(fields, name);
  }
}

inline Fields generation_fields(const ConfigFile& file) {
  std::optional<Fields> fields = file.generation();
  if (fields) return *fields;
  throw Error(Error::Kind::io, "generation_config.json", "does not exist, but its defaults were requested");
}

}  // namespace tenon::detail

namespace tenon {

TENON_INLINE float drawing_temperature(const ConfigFile& file) {
  const Fields fields = detail::generation_fields(file);
  constexpr double kLargest = std::numeric_limits<float>::max();
  const auto temperature = static_cast<float>(fields.number("temperature", 0, kLargest, 1));
  return temperature > 0 ? temperature : 1;
}

TENON_INLINE void set_generation_defaults(const ConfigFile& file, Options& options) {
  const Fields fields = detail::generation_fields(file);
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
