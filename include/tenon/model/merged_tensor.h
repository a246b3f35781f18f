// One tensor of a checkpoint with an adapter folded in: computed in double, and rounded to its type once.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tenon/checkpoint/peft.h"
#include "tenon/checkpoint/safetensors.h"
#include "tenon/checkpoint/tensor_file_writer.h"
#include "tenon/core/error.h"
#include "tenon/core/views.h"
#include "tenon/weights/row_blocks.h"

namespace tenon::detail {

// Rounds each value to the nearest of the type, ties to even. out: [values * bytes of the type]. type: f32, f16 or
// bf16. False if a result is not finite.
bool round_to(DType type, std::span<const double> values, std::byte* out);

// A tensor of the merged checkpoint. The parts of the adapter that change it are null where it has none.
struct MergedTensor {
  TensorPlan plan;                     // of the new file
  const TensorInfo* source = nullptr;  // of the base; null: zeros
  const TensorInfo* own = nullptr;     // the adapter's values in place of the base's: all, or the rows of tokens
  const std::vector<std::int32_t>* tokens = nullptr;  // the rows of `own`; null or empty: all
  const PeftFactors* update = nullptr;                // W + scale * B A, times the magnitudes of DoRA
  bool inputs_first = false;                          // a matrix is stored [inputs, outputs]
  const PeftScale* scale = nullptr;                   // IA3, of the matrix or of its bias
  const PeftFactors* bias_update = nullptr;           // a bias: b + scale * (the bias of lora_B)

  bool changed() const { return !source || own || update || scale || bias_update; }
  // The tensor as a matrix, in the order of its shape. A vector is one row.
  Shape matrix() const;
  // "model.safetensors: h.0.attn.c_attn.weight", for errors.
  std::string where(const Checkpoint& base) const;
};

// The change of a matrix [rows, cols] in the order in which it is stored. Empty vectors change nothing.
struct TensorChange {
  int rank = 0;
  double scale = 0;
  std::vector<float> left, right;            // [rows, rank] and [rank, cols]
  std::vector<float> added;                  // [cols], times `scale`
  std::vector<float> row_magnitudes;         // [rows], of DoRA: each row is divided by its norm, and multiplied
  std::vector<float> col_magnitudes;         // [cols], likewise
  std::vector<double> row_gains, col_gains;  // [rows] and [cols]

  bool operator==(const TensorChange&) const = default;
};

// Reads the parts of the adapter for one tensor, and computes with them.
class TensorMerger {
 public:
  // The arguments must outlive the object. Errors: those of PeftAdapter::read.
  TensorMerger(const MergedTensor& tensor, const Checkpoint& base, const PeftAdapter& adapter);

  const TensorChange& change() const { return change_; }

  // Makes gains of the magnitudes of columns. Their norms need the whole tensor, which is read in order. Call it before
  // `compute`.
  void divide_by_norms();

  // Rows [first, first + count) of the merged tensor. out: [count, cols]
  void compute(int first, int count, std::span<double> out) const;

 private:
  // The base's rows, or the adapter's own. out: [count, cols]
  void read(int first, int count, std::span<float> out) const;
  void add_update(int row, std::span<double> values) const;  // W + scale * B A of one row. values: [cols]
  std::vector<float> floats_of(const TensorInfo& tensor) const;
  void set_update(const PeftFactors& f);

  const MergedTensor& tensor_;
  const Checkpoint& base_;
  const PeftAdapter& adapter_;
  Shape shape_;
  TensorChange change_;
};

// Copies a tensor byte for byte.
using WriteBytes = std::function<void(std::uint64_t offset, std::span<const std::byte> bytes)>;
void copy_bytes(const Checkpoint& base, const TensorInfo& tensor, const WriteBytes& write);

// Whether the file's bytes are those of a safetensors file with this type.
inline bool is_stored_as(const TensorInfo& tensor, DType type) {
  return tensor.dtype == type && !tensor.decoder && tensor.order.plain();
}

// Writes one tensor. Errors: those of reading; unsupported if a value is beyond the type.
template <class Pool, class Writer>
void write_merged(Pool& pool, const MergedTensor& tensor, const Checkpoint& base, const PeftAdapter& adapter,
                  Writer& writer) {
  const TensorPlan& plan = tensor.plan;
  if (!tensor.changed() && is_stored_as(*tensor.source, plan.dtype))
    return copy_bytes(base, *tensor.source, [&](std::uint64_t offset, std::span<const std::byte> bytes) {
      writer.write(plan.name, offset, bytes);
    });
  TensorMerger merger(tensor, base, adapter);
  merger.divide_by_norms();
  const Shape shape = tensor.matrix();
  const std::size_t row_bytes =
      static_cast<std::size_t>(shape.cols) * static_cast<std::size_t>(dtype_bits(plan.dtype)) / 8;
  for_row_blocks(pool, shape, [&](int first, int count) {
    std::vector<double> values(static_cast<std::size_t>(count) * static_cast<std::size_t>(shape.cols));
    std::vector<std::byte> bytes(static_cast<std::size_t>(count) * row_bytes);
    merger.compute(first, count, values);
    if (!round_to(plan.dtype, values, bytes.data()))
      throw Error(Error::Kind::unsupported, tensor.where(base),
                  "has a value that is not finite or that " + std::string(dtype_name(plan.dtype)) +
                      " cannot hold, once the adapter is merged");
    writer.write(plan.name, static_cast<std::uint64_t>(first) * row_bytes, bytes);
  });
}

}  // namespace tenon::detail

#ifndef TENON_COMPILED
#include "tenon/model/merged_tensor-inl.h"
#endif
