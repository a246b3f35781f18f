// Quantised checkpoints of other libraries: GPTQ, AWQ, AutoRound, HQQ, bitsandbytes, compressed-tensors, ModelOpt,
// blocks of fp8 and MXFP4. Field quantization_config of config.json names the method.
#pragma once
#include <string>

#include "tenon/checkpoint/safetensors.h"
#include "tenon/io/fields.h"

namespace tenon {

/// The method that quantization_config names. Error unsupported, with the list of known methods; invalid_file if it
/// names none.
std::string quantization_method(const Fields& config);

/// Replaces the tensors of codes, scales and indices by the matrices that they stand for: <name>.weight
/// [outputs, inputs], of type DType::quantised, decoded to float32 as they are read. Other tensors stay. Experts in
/// MXFP4 are stacked: <name> [experts, inputs, outputs].
///
/// config: quantization_config. inputs_first: the model's layers are Conv1D, as in GPT-2. The matrices then have the
/// shape [inputs, outputs] of the original checkpoint, except the head. Errors: unsupported if the config asks for a
/// variant that is not read; invalid_file if tensors are missing or contradict each other or the config.
Checkpoint decode_quantized(Checkpoint&& stored, const Fields& config, bool inputs_first);

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/checkpoint/quantized-inl.h"
#endif
