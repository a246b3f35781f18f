#pragma once
#include <string>

#include "tenon/checkpoint/compressed_tensors-inl.h"
#include "tenon/checkpoint/fp4_decoder.h"
#include "tenon/checkpoint/modelopt.h"
#include "tenon/core/require.h"
#include "tenon/io/json.h"

namespace tenon::detail {

// The algorithm of all modules, or of one of quantized_layers. Its activations stay in float32.
inline void read_algorithm(const Fields& fields, WeightSchemes& out) {
  const std::string name =
      fields.choice("quant_algo", {"FP8", "FP8_PER_CHANNEL_PER_TOKEN", "NVFP4", "W4A16_NVFP4", "MIXED_PRECISION"});
  const bool nvfp4 = name.ends_with("NVFP4");
  if (nvfp4) out.nvfp4 = true;
  if (nvfp4 && fields.integer("group_size", 1, 1 << 20, 16) != 16)
    throw Error(Error::Kind::unsupported, fields.where("group_size"), "other than 16 is not supported for NVFP4");
  if (name == "FP8_PER_CHANNEL_PER_TOKEN" && out.note.empty()) out.note = kFloatActivations;
  if (name == "FP8" || name == "NVFP4") out.note = kUnusedScales;
}

TENON_INLINE void find_modelopt(QuantizedTensors& tensors) {
  const Fields config =
      tensors.config().has("quantization") ? tensors.config().object("quantization") : tensors.config();
  WeightSchemes schemes;
  read_algorithm(config, schemes);
  if (config.has("quantized_layers")) {
    const Fields layers = config.object("quantized_layers");
    for (const auto& [name, ignored] : layers.json().items()) read_algorithm(layers.object(name), schemes);
  }
  if (config.has("kv_cache_quant_algo") || config.has("kv_cache_scheme")) leave_cache(tensors, schemes);
  for (const std::string& module : tensors.ending_in(".pre_quant_scale"))
    tensors.refuse(*tensors.stored().find(module + ".pre_quant_scale"),
                   "scales activations, which is not supported; use a checkpoint without it, or the original");
  for (const std::string& module : tensors.ending_in(".weight")) {
    const TensorInfo& codes = *tensors.stored().find(module + ".weight");
    if (codes.dtype == DType::f8_e4m3) {
      add_bytes(tensors, module, ".weight_scale", schemes, "modelopt");
    } else if (codes.dtype == DType::u8) {
      if (!schemes.nvfp4)
        tensors.refuse(codes, "has floats of 4 bits, but " + config.where("quant_algo") + " is not NVFP4");
      tensors.take(module + ".weight");
      take_activation_scales(tensors, module);
      add_fp4(tensors, module, codes, 16, module + ".weight_scale_2", false, "modelopt, nvfp4", schemes.note);
    }
  }
}

}  // namespace tenon::detail
