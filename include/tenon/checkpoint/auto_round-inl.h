#pragma once
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/checkpoint/auto_round.h"
#include "tenon/checkpoint/gptq.h"
#include "tenon/core/require.h"
#include "tenon/io/json.h"

namespace tenon::detail {

// Refuses what is no rounding of weights to integers, in the config or in its rule for some modules.
inline void need_integer_weights(const Fields& fields) {
  if (fields.integer("bits", 1, 32, 4) < 16) fields.choice("data_type", {"int", "int_sym", "int_asym"}, "int");
  if (fields.integer("act_bits", 1, 32, 16) < 16)
    throw Error(Error::Kind::unsupported, fields.where("act_bits"),
                "below 16 is not supported: activations stay in float32; use a checkpoint of weights only");
  QuantizedTensors::refuse_set(fields, {"rotation_config", "spinquant_config", "super_bits"});
}

TENON_INLINE void find_auto_round(QuantizedTensors& tensors) {
  const Fields& config = tensors.config();
  // Files before 0.4 name none; the library takes them for auto_gptq (inference/convert_model.py).
  const std::string packing = config.choice("packing_format",
                                            {"auto_round:auto_gptq", "auto_round:gptq", "auto", "auto_round",
                                             "auto_round:gptqmodel", "auto_round:auto_awq", "auto_round:awq"},
                                            "auto");
  const bool awq = packing.ends_with("awq"), plain = packing == "auto_round" || packing == "auto_round:gptqmodel";
  GroupedVariants variants{"auto-round", {}, {}, false, plain ? StoredZeros::plain : StoredZeros::less_one};
  const std::vector<int> supported = awq ? std::vector<int>{4} : std::vector<int>{2, 3, 4, 5, 6, 7, 8};
  need_integer_weights(config);
  variants.add_bits(config, supported);
  variants.add_group_size(config);
  if (config.has("extra_config")) {
    const Fields rules = config.object("extra_config");
    for (const auto& [name, value] : rules.json().items())
      if (value.is_object()) need_integer_weights(rules.object(name));
    variants.add_rules(rules, supported);
  }
  for (const std::string& module : tensors.ending_in(".qweight"))
    awq ? add_awq(tensors, module, variants) : add_gptq(tensors, module, variants);
}

}  // namespace tenon::detail
