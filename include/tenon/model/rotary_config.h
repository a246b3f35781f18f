// Reads the fields of config.json for rotary positions: rope_theta and rope_scaling, or rope_parameters, which holds
// both in newer files.
#pragma once
#include <string>

#include "tenon/checkpoint/config.h"
#include "tenon/model/rotary.h"

namespace tenon {

/// Defaults of a family's class in transformers, and the family's names of the fields.
struct RotaryDefaults {
  double theta = 10000;
  const char* theta_name = "rope_theta";
  double part = 1;                                  ///< part of a head that is turned
  bool reads_part = false;                          ///< the family reads partial_rotary_factor; Llama ignores it
  const char* part_name = "partial_rotary_factor";  ///< outside of rope_parameters
  const char* width_field = "hidden_size";          ///< named in errors about the width of a head
  int trained_positions = 0;                        ///< original_max_position_embeddings; 0: the class has none
  bool neighbours = false;                          ///< RotaryConfig::neighbours
  bool old_longrope_names = false;                  ///< "su" and "yarn" are older names of longrope
  bool reads_alpha = false;                         ///< dynamic with `alpha` is one theta for texts of any length
  bool sections = false;                            ///< "mrope", positions with several parts, is a rope_type, too
  bool type_wins = false;                           ///< `type` counts where rope_type differs; needs `sections`
};

/// Reads the rotary fields. `positions`, the longest text, is raised if the scaling extends it. Errors: invalid_file
/// for values out of range; unsupported for a rope_type that is not known. Members that transformers does not read for
/// a rope_type have no effect.
RotaryConfig rotary_fields(const Fields& fields, int head_dim, int& positions, const RotaryDefaults& defaults = {});

/// The same with the object that holds the scaling; null: the file has none.
RotaryConfig rotary_scaling(const Fields& fields, const Fields* scaling, int head_dim, int& positions,
                            const RotaryDefaults& defaults);

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/model/rotary_config-inl.h"
#endif
