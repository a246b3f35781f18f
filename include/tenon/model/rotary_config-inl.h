#pragma once
#include <algorithm>

#include "tenon/core/require.h"
#include "tenon/io/json.h"
#include "tenon/model/rotary_config.h"

namespace tenon {

TENON_INLINE void refuse_unread(const Fields& fields, std::initializer_list<std::string_view> read) {
  for (const auto& [key, value] : fields.json().items()) {
    if (std::find(read.begin(), read.end(), key) != read.end() || value.is_null()) continue;
    throw Error(Error::Kind::unsupported, fields.where(key), "is not supported for this rope_type");
  }
}

TENON_INLINE std::string rotary_type(const Fields& scaling) {
  const std::string name = scaling.has("rope_type") ? "rope_type" : "type";
  if (scaling.has("rope_type") && scaling.has("type") && scaling.value("type") != scaling.value("rope_type")) {
    scaling.refuse("type", "differs from rope_type");
  }
  return scaling.choice(name, {"default", "linear", "dynamic", "llama3"}, "default");
}

TENON_INLINE RotaryConfig rotary_fields(const Fields& fields, int head_dim, int& positions) {
  if (head_dim % 2 != 0)
    fields.refuse(fields.has("head_dim") ? "head_dim" : "hidden_size",
                  "must give heads of even width, because rotary positions turn pairs");
  if (fields.has("partial_rotary_factor") && fields.number("partial_rotary_factor", 0, 1) != 1) {
    throw Error(Error::Kind::unsupported, fields.where("partial_rotary_factor"), "other than 1 is not supported");
  }
  RotaryConfig c;
  constexpr double kLargestTheta = 1e15;  // the least is 1: below it, angles would grow faster than positions
  c.theta = fields.number("rope_theta", 1, kLargestTheta, c.theta);
  const bool newer = fields.has("rope_parameters"), older = fields.has("rope_scaling");
  if (newer && older && fields.value("rope_parameters") != fields.value("rope_scaling")) {
    fields.refuse("rope_scaling", "differs from rope_parameters");
  }
  if (!newer && !older) return c;
  const Fields scaling = fields.object(newer ? "rope_parameters" : "rope_scaling");
  if (scaling.has("rope_theta")) {
    const double theta = scaling.number("rope_theta", 1, kLargestTheta);
    if (fields.has("rope_theta") && theta != c.theta) scaling.refuse("rope_theta", "differs from rope_theta");
    c.theta = theta;
  }
  const std::string type = rotary_type(scaling);
  c.trained_positions = positions;
  if (type == "default") {
    refuse_unread(scaling, {"rope_type", "type", "rope_theta"});
    return c;
  }
  c.factor = scaling.number("factor", 1, 1e6);
  if (type == "llama3") {
    refuse_unread(scaling, {"rope_type", "type", "rope_theta", "factor", "low_freq_factor", "high_freq_factor",
                            "original_max_position_embeddings"});
    c.scaling = RotaryScaling::llama3;
    c.low_frequency_factor = scaling.positive("low_freq_factor");
    c.high_frequency_factor = scaling.positive("high_freq_factor");
    if (!(c.high_frequency_factor > c.low_frequency_factor))
      scaling.refuse("high_freq_factor", "must be above low_freq_factor");
    c.trained_positions = scaling.positive_int("original_max_position_embeddings");
    return c;
  }
  refuse_unread(scaling, {"rope_type", "type", "rope_theta", "factor", "original_max_position_embeddings"});
  if (scaling.has("original_max_position_embeddings") &&
      scaling.positive_int("original_max_position_embeddings") != c.trained_positions) {
    scaling.refuse("original_max_position_embeddings", "differs from max_position_embeddings");
  }
  c.scaling = type == "linear" ? RotaryScaling::linear : RotaryScaling::dynamic;
  if (c.scaling == RotaryScaling::dynamic && head_dim < 4)
    scaling.refuse("rope_type", "dynamic needs heads of 4 or more");
  // max_position_embeddings stays the length in training. These two scalings extend it by `factor`.
  positions = static_cast<int>(std::min(positions * c.factor, 2147483647.0));
  return c;
}

}  // namespace tenon
