#pragma once
#include <string>
#include <string_view>
#include <utility>

#include "tenon/checkpoint/auto_round.h"
#include "tenon/checkpoint/bitsandbytes.h"
#include "tenon/checkpoint/compressed_tensors.h"
#include "tenon/checkpoint/gptq.h"
#include "tenon/checkpoint/hqq.h"
#include "tenon/checkpoint/modelopt.h"
#include "tenon/checkpoint/mxfp4.h"
#include "tenon/checkpoint/quantized.h"
#include "tenon/checkpoint/quantized_tensors.h"
#include "tenon/core/error.h"
#include "tenon/core/require.h"
#include "tenon/io/json.h"

namespace tenon::detail {

struct QuantizationMethod {
  std::string_view name;
  void (*find)(QuantizedTensors&);
};
inline constexpr QuantizationMethod kQuantizationMethods[] = {
    {"gptq", find_gptq},
    {"awq", find_awq},
    {"auto-round", find_auto_round},
    {"bitsandbytes", find_bitsandbytes},
    {"compressed-tensors", find_compressed_tensors},
    {"fp8", find_fp8},
    {"mxfp4", find_mxfp4},
    {"modelopt", find_modelopt},
    {"hqq", find_hqq},
};

inline const QuantizationMethod& method_of(const Fields& config) {
  // Old uploads of bitsandbytes have these switches alone.
  const bool by_switch = config.boolean("load_in_8bit", false) || config.boolean("load_in_4bit", false);
  std::string name = config.has("quant_method") || !by_switch ? config.string("quant_method") : "bitsandbytes";
  if (name == "intel/auto-round") name = "auto-round";  // until AutoRound 0.4
  std::string list;
  for (const QuantizationMethod& each : kQuantizationMethods) {
    if (each.name == name) return each;
    list += (list.empty() ? "" : ", ") + std::string(each.name);
  }
  throw Error(Error::Kind::unsupported, config.where("quant_method"),
              "\"" + printable(name, 60) + "\" is not supported; supported: " + list +
                  ". Or use the original checkpoint and a weight format of tenon");
}

}  // namespace tenon::detail

namespace tenon {

TENON_INLINE std::string quantization_method(const Fields& config) {
  return std::string(detail::method_of(config).name);
}

TENON_INLINE Checkpoint decode_quantized(Checkpoint&& stored, const Fields& config, bool inputs_first) {
  if (stored.metadata("tenon.weights"))
    detail::refuse_file(config.where("quant_method"),
                        "is named, but " + stored.name() + " is quantised by tenon; delete quantization_config");
  detail::QuantizedTensors tensors(stored, config, inputs_first);
  const detail::QuantizationMethod& method = detail::method_of(config);
  method.find(tensors);
  if (tensors.none())
    detail::refuse_file(config.where("quant_method"), "is " + std::string(method.name) + ", but " + stored.name() +
                                                          " has no matrix that it quantised; delete "
                                                          "quantization_config if the weights are floats");
  return std::move(tensors).finish(std::move(stored));
}

}  // namespace tenon
