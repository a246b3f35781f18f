// The model below an adapter, so far as PEFT's files may hold copies of it: embeddings that were saved beside the
// factors.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/checkpoint/safetensors.h"

namespace tenon {

struct PeftBase {
  std::shared_ptr<const Checkpoint> tensors = {};  // null: no file, the weights were drawn at random
  std::string prefix = {};                         // "transformer.": names in the file have it or lack it
  std::string embedding = {};  // paths of the modules "transformer.wte" and "lm_head"; empty: unknown
  std::string head = {};
  bool tied_head = false;  // the head's weight is the embedding's

  // Paths of modules that PEFT can update, beside the linears in layers.
  std::vector<std::string> others() const;

  // The tensor of the model that PEFT writes a tensor of an adapter's file to: its name behind "base_model.model.",
  // where a module below an adapter is called base_layer. Null where the model has none of that name.
  const TensorInfo* find(std::string_view stored) const;

  // Whether the two hold the same numbers, whatever their types: PEFT's load into a float32 model would change nothing.
  // NaN equals nothing. Reads both. Errors as Checkpoint::read_bytes.
  bool holds(const Checkpoint& file, const TensorInfo& copy, const TensorInfo& own) const;
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/checkpoint/peft_base-inl.h"
#endif
