// GPTQ, as gptqmodel 7.7 writes and decodes it, and AWQ in the order of AutoAWQ 0.2 ("gemm"). Both compute
// scale * (code - zero) in float16 with float16 scales. The product has at most 20 bits, so it is exact in float32; the
// library's value is this one rounded to float16. AutoRound's files have the tensors of either.
#pragma once
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "tenon/checkpoint/quantized_tensors.h"

namespace tenon::detail {

/// How zero points are stored: as they are; minus 1; or minus 1 as gptqmodel adds it back. That library has one sum per
/// word of 2, 4 or 8 bits, which carries into the next zero point, and otherwise keeps the lowest bits of each sum.
enum class StoredZeros : std::uint8_t { plain, less_one, less_one_as_gptqmodel };

/// The variants that the config gives to matrices. The tensors of a matrix show which of them is its own.
struct GroupedVariants {
  std::string method;         ///< as MatrixDecoder::name names it
  std::set<int> bits = {};    ///< of a code
  std::set<int> groups = {};  ///< inputs that share a scale; -1: all
  bool by_activation = false;
  StoredZeros zeros = StoredZeros::plain;

  /// Adds those that `fields` has: the config, or a rule for some modules. 16 bits and more are no quantisation.
  void add_bits(const Fields& fields, const std::vector<int>& supported);
  void add_group_size(const Fields& fields);
  /// The same for each rule: an object whose keys are modules.
  void add_rules(const Fields& rules, const std::vector<int>& supported);
};

/// Adds the matrix `module`.qweight, .qzeros, .scales and .g_idx, which may be missing. Errors: those of
/// decode_quantized.
void add_gptq(QuantizedTensors& tensors, const std::string& module, const GroupedVariants& variants);

/// The same for a matrix of 4 bits in the order of AutoAWQ, which has no .g_idx.
void add_awq(QuantizedTensors& tensors, const std::string& module, const GroupedVariants& variants);

/// Finds all matrices of a checkpoint of GPTQ. Errors: those of decode_quantized.
void find_gptq(QuantizedTensors& tensors);

/// Finds all matrices of a checkpoint of AutoAWQ. Errors: those of decode_quantized.
void find_awq(QuantizedTensors& tensors);

}  // namespace tenon::detail

#ifndef TENON_COMPILED
#include "tenon/checkpoint/gptq-inl.h"
#endif
