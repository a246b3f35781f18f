// Experts in GGUF files. A file stacks one kind of matrix of all experts in one tensor; transformers has a tensor for
// each expert, or, in gpt-oss, one tensor [experts, inputs, 2 n] whose columns alternate between gate and up.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "tenon/checkpoint/safetensors_header.h"

namespace tenon::detail {

// Files of 2023 have a tensor for each of the experts, "ffn_up.3". Removes the number from the name and returns it.
std::optional<int> take_expert(std::string_view& stem, int experts);

// Matrix `expert` of a stack of `experts`, as a tensor of its own.
TensorInfo expert_of(const TensorInfo& stack, std::uint64_t experts, std::uint64_t expert);

// The inverse: matrices [outputs, inputs] of all experts as one tensor [experts, outputs, inputs], with the first one's
// name.
TensorInfo stacked_experts(std::vector<TensorInfo> experts);

// Stored matrices [stack, outputs, inputs] as [stack, inputs, outputs].
TensorInfo turned_stack(TensorInfo stack);

// Two stacks of the same shape [stack, n, inputs] as one, [stack, inputs, 2 n]: outputs of `even` and of `odd` in turn.
// Biases [stack, n] become [stack, 2 n]. The tensor has the name of `even`.
TensorInfo alternate_stacks(TensorInfo even, TensorInfo odd);

}  // namespace tenon::detail

#ifndef TENON_COMPILED
#include "tenon/checkpoint/gguf_experts-inl.h"
#endif
