#pragma once
#include <algorithm>
#include <cmath>
#include <string>

#include "tenon/core/require.h"
#include "tenon/io/json.h"
#include "tenon/model/rotary_config.h"

namespace tenon {

namespace detail {

inline constexpr double kLargestTheta = 1e15;  // the least is 1: below it, angles would grow faster than positions

// rope_type, or its older name `type`. "default" if both are missing.
TENON_INLINE std::string rotary_type(const Fields& scaling, const RotaryDefaults& defaults) {
  const bool both = scaling.has("rope_type") && scaling.has("type");
  const std::string name =
      both ? (defaults.type_wins ? "type" : "rope_type") : (scaling.has("rope_type") ? "rope_type" : "type");
  // Positions with several parts, which are equal in texts.
  if (defaults.sections && scaling.string(name, "") == "mrope") return "default";
  if (both && !defaults.sections && scaling.value("type") != scaling.value("rope_type"))
    scaling.refuse("type", "differs from rope_type");
  if (defaults.old_longrope_names && scaling.string(name, "") == "su") return "longrope";
  return scaling.choice(name, {"default", "linear", "dynamic", "llama3", "yarn", "longrope"}, "default");
}

// Refuses scalings of each kind of layer, full_attention and sliding_attention, which are read in some families alone.
TENON_INLINE void refuse_nested(const Fields& scaling) {
  for (const auto& [key, value] : scaling.json().items())
    if (value.is_object()) throw Error(Error::Kind::unsupported, scaling.where(key), "is not supported in this family");
}

// The number of elements of a head that are turned.
TENON_INLINE void read_width(const Fields& fields, const Fields* scaling, const RotaryDefaults& defaults, int head_dim,
                             RotaryConfig& c) {
  double part = defaults.part;
  if (defaults.reads_part) {
    part = fields.number(defaults.part_name, 0, 1, part);
    if (scaling && scaling->has("partial_rotary_factor")) {
      const double inside = scaling->number("partial_rotary_factor", 0, 1);
      if (fields.has(defaults.part_name) && inside != part)
        scaling->refuse("partial_rotary_factor", "differs from " + std::string(defaults.part_name));
      part = inside;
    }
  }
  c.width = static_cast<int>(head_dim * part);
  if (c.width % 2 != 0 || head_dim % 2 != 0 || c.width == 0) {
    fields.refuse(fields.has("head_dim") ? "head_dim" : defaults.width_field,
                  "must give heads of even width, because rotary positions turn pairs");
  }
  if (c.width == head_dim) c.width = 0;
}

TENON_INLINE void read_llama3(const Fields& scaling, RotaryConfig& c) {
  c.scaling = RotaryScaling::llama3;
  c.low_frequency_factor = scaling.positive("low_freq_factor");
  c.high_frequency_factor = scaling.positive("high_freq_factor");
  if (!(c.high_frequency_factor > c.low_frequency_factor))
    scaling.refuse("high_freq_factor", "must be above low_freq_factor");
  c.trained_positions = scaling.positive_int("original_max_position_embeddings");
}

// Whether the scaling has a number that counts: transformers takes 0 for a missing one.
TENON_INLINE bool has_nonzero(const Fields& scaling, const std::string& name) {
  return scaling.has(name) && scaling.value(name) != 0;
}

// The factor of cosines and sines is 0.1 m ln(factor) + 1; with mscale and mscale_all_dim, the ratio of two of them.
TENON_INLINE void read_yarn(const Fields& scaling, RotaryConfig& c) {
  c.scaling = RotaryScaling::yarn;
  c.trained_positions = scaling.positive_int("original_max_position_embeddings", c.trained_positions);
  c.beta_fast = has_nonzero(scaling, "beta_fast") ? scaling.positive("beta_fast") : 32;
  c.beta_slow = has_nonzero(scaling, "beta_slow") ? scaling.positive("beta_slow") : 1;
  c.truncate = scaling.flag("truncate", true);
  if (!(c.theta > 1)) scaling.refuse("rope_theta", "must be above 1 for yarn");
  const auto length = [&](double m) { return c.factor <= 1 ? 1.0 : 0.1 * m * std::log(c.factor) + 1.0; };
  double scale = length(1);
  if (has_nonzero(scaling, "mscale") && has_nonzero(scaling, "mscale_all_dim"))
    scale = length(scaling.positive("mscale")) / length(scaling.positive("mscale_all_dim"));
  c.angle_scale = static_cast<float>(scaling.positive("attention_factor", scale));
}

TENON_INLINE std::vector<float> longrope_factors(const Fields& scaling, const std::string& name, int pairs) {
  const Json& list = scaling.value(name);
  if (!list.is_array() || list.size() != static_cast<std::size_t>(pairs))
    scaling.refuse(name, "must be a list of " + std::to_string(pairs) + " numbers, one for each pair that is turned");
  std::vector<float> factors;
  for (const Json& each : list) {
    if (!each.is_number() || !(each.get<double>() > 0) || !std::isfinite(each.get<double>()))
      scaling.refuse(name, "must hold positive numbers");
    factors.push_back(each.get<float>());
  }
  return factors;
}

// The factor of cosines and sines is sqrt(1 + ln(longest / trained) / ln(trained)).
TENON_INLINE void read_longrope(const Fields& fields, const Fields& scaling, int head_dim, int positions,
                                int class_default, RotaryConfig& c) {
  c.scaling = RotaryScaling::longrope;
  const char* const trained = "original_max_position_embeddings";
  const bool outside = fields.has(trained) || (class_default > 0 && !scaling.has(trained));
  const int fallback = class_default > 0 ? class_default : positions;
  c.trained_positions = scaling.positive_int(trained, fields.positive_int(trained, fallback));
  const int pairs = (c.width == 0 ? head_dim : c.width) / 2;
  c.short_factors = longrope_factors(scaling, "short_factor", pairs);
  c.long_factors = longrope_factors(scaling, "long_factor", pairs);
  const double factor = outside || !scaling.has("factor") ? static_cast<double>(positions) / c.trained_positions
                                                          : scaling.number("factor", 1, 1e6);
  const double scale = factor <= 1 ? 1.0 : std::sqrt(1 + std::log(factor) / std::log(c.trained_positions));
  c.angle_scale = static_cast<float>(scaling.positive("attention_factor", scale));
}

// linear and dynamic
TENON_INLINE void read_stretched(const Fields& scaling, const std::string& type, int head_dim, int& positions,
                                 RotaryConfig& c) {
  c.scaling = type == "linear" ? RotaryScaling::linear : RotaryScaling::dynamic;
  if (c.scaling == RotaryScaling::dynamic && (c.width == 0 ? head_dim : c.width) < 4)
    scaling.refuse("rope_type", "dynamic needs heads of 4 or more");
  // max_position_embeddings stays the length in training, whatever original_max_position_embeddings says. These two
  // scalings extend it by `factor`.
  positions = static_cast<int>(std::min(positions * c.factor, 2147483647.0));
}

// dynamic with `alpha`: theta * alpha^(d / (d - 2)), where d elements of a head are turned.
TENON_INLINE void read_alpha(const Fields& scaling, int head_dim, RotaryConfig& c) {
  const double width = c.width == 0 ? head_dim : c.width;
  if (width < 4) scaling.refuse("alpha", "needs heads of 4 or more");
  c.theta *= std::pow(scaling.positive("alpha"), width / (width - 2));
  if (!(c.theta >= 1 && c.theta <= kLargestTheta))
    scaling.refuse("alpha", "makes rope_theta smaller than 1 or infinite");
}

}  // namespace detail

TENON_INLINE RotaryConfig rotary_scaling(const Fields& fields, const Fields* scaling, int head_dim, int& positions,
                                         const RotaryDefaults& defaults) {
  RotaryConfig c;
  c.neighbours = defaults.neighbours;
  c.theta = fields.number(defaults.theta_name, 1, detail::kLargestTheta, defaults.theta);
  if (scaling) detail::refuse_nested(*scaling);
  if (scaling && scaling->has("rope_theta")) {
    const double theta = scaling->number("rope_theta", 1, detail::kLargestTheta);
    if (fields.has(defaults.theta_name) && theta != c.theta)
      scaling->refuse("rope_theta", "differs from " + std::string(defaults.theta_name));
    c.theta = theta;
  }
  detail::read_width(fields, scaling, defaults, head_dim, c);
  if (!scaling) return c;
  const std::string type = detail::rotary_type(*scaling, defaults);
  c.trained_positions = positions;
  if (type == "default") return c;
  if (type == "longrope" || (type == "yarn" && defaults.old_longrope_names)) {
    detail::read_longrope(fields, *scaling, head_dim, positions, defaults.trained_positions, c);
    return c;
  }
  if (type == "dynamic" && defaults.reads_alpha && detail::has_nonzero(*scaling, "alpha")) {
    detail::read_alpha(*scaling, head_dim, c);
    return c;
  }
  c.factor = scaling->number("factor", 1, 1e6);
  if (type == "llama3")
    detail::read_llama3(*scaling, c);
  else if (type == "yarn")
    detail::read_yarn(*scaling, c);
  else
    detail::read_stretched(*scaling, type, head_dim, positions, c);
  return c;
}

TENON_INLINE RotaryConfig rotary_fields(const Fields& fields, int head_dim, int& positions,
                                        const RotaryDefaults& defaults) {
  const bool newer = fields.has("rope_parameters"), older = fields.has("rope_scaling");
  if (newer && older && fields.value("rope_parameters") != fields.value("rope_scaling")) {
    fields.refuse("rope_scaling", "differs from rope_parameters");
  }
  if (!newer && !older) return rotary_scaling(fields, nullptr, head_dim, positions, defaults);
  const Fields scaling = fields.object(newer ? "rope_parameters" : "rope_scaling");
  return rotary_scaling(fields, &scaling, head_dim, positions, defaults);
}

}  // namespace tenon
