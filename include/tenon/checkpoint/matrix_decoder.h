// A matrix that a checkpoint stores as codes of another library.
#pragma once
#include <cstdint>
#include <string>
#include <utility>

#include "tenon/core/require.h"

namespace tenon {

class Checkpoint;

/// Decodes one matrix, a block of rows at a time. A row holds the weights of one output.
class MatrixDecoder {
 public:
  /// name: method and variant, "gptq, 4 bits, groups of 128". inputs: values in a row.
  MatrixDecoder(std::string name, std::uint64_t inputs) : name_(std::move(name)), inputs_(inputs) {}
  MatrixDecoder(const MatrixDecoder&) = delete;
  MatrixDecoder& operator=(const MatrixDecoder&) = delete;
  virtual ~MatrixDecoder() = default;

  const std::string& name() const noexcept { return name_; }  ///< method and variant
  std::uint64_t inputs() const noexcept { return inputs_; }   ///< values in a row

  /// Decodes rows [first, first + count), which the matrix has, to float32. out: [count, inputs]. Thread-safe.
  /// `checkpoint` holds the tensors of codes and scales. Scales that are not finite give values that are not finite.
  /// Errors: invalid_file for codes and indices out of range; io as Checkpoint::read_bytes.
  virtual void read(const Checkpoint& checkpoint, std::uint64_t first, std::uint64_t count, float* out) const = 0;

 private:
  std::string name_;
  std::uint64_t inputs_;
};

}  // namespace tenon
