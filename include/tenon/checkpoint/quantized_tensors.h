// Building blocks of the readers of quantised checkpoints: finding the tensors of a matrix, and reading parts of them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/checkpoint/matrix_decoder.h"
#include "tenon/checkpoint/safetensors.h"
#include "tenon/io/fields.h"

namespace tenon::detail {

/// The largest number of rows or columns of a matrix.
inline constexpr std::uint64_t kMaxMatrixSide = std::uint64_t{1} << 31;

/// `count` rows or columns from `first` on.
struct Range {
  std::uint64_t first, count;
};

/// The shape of a decoded matrix.
struct MatrixShape {
  std::uint64_t rows, cols;
  friend bool operator==(const MatrixShape&, const MatrixShape&) = default;
};

/// Collects the decoded matrices of a checkpoint, and the tensors that they replace.
class QuantizedTensors {
 public:
  /// `stored` must outlive the object.
  QuantizedTensors(const Checkpoint& stored, const Fields& config, bool inputs_first)
      : stored_(stored), config_(config), inputs_first_(inputs_first) {}

  const Checkpoint& stored() const { return stored_; }
  const Fields& config() const { return config_; }  ///< quantization_config
  bool none() const { return made_.empty(); }

  /// The names of all tensors that end in `suffix`, without it.
  std::vector<std::string> ending_in(std::string_view suffix) const;

  /// The tensor of that name, which is then a part of the next matrix to add; null where there is none.
  const TensorInfo* take_if(const std::string& name);
  /// The same. Error invalid_file where there is none.
  const TensorInfo& take(const std::string& name);

  /// Leaves out a tensor that has no effect.
  void drop(const std::string& name) { taken_.insert(name); }

  /// Adds matrix `module`.weight, which takes the place of tensor `main`.
  void add(const std::string& module, const TensorInfo& main, MatrixShape shape,
           std::shared_ptr<const MatrixDecoder> decoder);
  /// Adds `stack` matrices as the tensor `name` [stack, inputs, outputs], which takes the place of tensor `main`. The
  /// decoder has the rows of all of them, one matrix after another.
  void add_stack(const std::string& name, const TensorInfo& main, std::uint64_t stack, MatrixShape each,
                 std::shared_ptr<const MatrixDecoder> decoder);

  /// The checkpoint with the matrices in place of their parts.
  Checkpoint finish(Checkpoint&& stored) &&;

  /// Error unsupported at a field of the config.
  [[noreturn]] void unsupported(const std::string& key, const std::string& what) const;
  /// Refuses fields that are set, because they change the weights or the output: those of the config, or of a part.
  void refuse_set(std::initializer_list<const char*> keys) const { refuse_set(config_, keys); }
  static void refuse_set(const Fields& fields, std::initializer_list<const char*> keys);

  /// Error invalid_file if the tensor is not of one of these types.
  void need_type(const TensorInfo& tensor, std::initializer_list<DType> types) const;
  /// Error invalid_file if the tensor has another shape.
  void need_shape(const TensorInfo& tensor, const std::vector<std::uint64_t>& shape) const;
  /// Error invalid_file if the tensor is no matrix with at least 1 and at most 2^31 rows and columns.
  void need_matrix(const TensorInfo& tensor) const;
  [[noreturn]] void refuse(const TensorInfo& tensor, const std::string& what) const;

 private:
  TensorInfo made(const std::string& name, const TensorInfo& main, std::shared_ptr<const MatrixDecoder> decoder);
  void place(TensorInfo out, const TensorInfo& main);

  const Checkpoint& stored_;
  const Fields& config_;
  bool inputs_first_;
  std::set<std::string> taken_;
  std::map<std::string, TensorInfo> made_;  // by the name of the tensor whose place they take
  std::uint64_t bytes_ = 0;                 // of the parts of the next matrix
};

/// A rectangle of a stored matrix of 32-bit integers. Error io as Checkpoint::read_bytes.
std::vector<std::uint32_t> read_words(const Checkpoint& checkpoint, const TensorInfo& tensor, Range rows, Range cols);

/// Elements of a tensor of floats, in stored order.
std::vector<float> read_floats(const Checkpoint& checkpoint, const TensorInfo& tensor, Range elements);

/// The group of each input: those of the tensor `g_idx` [inputs], I32. Error invalid_file if one is not in [0, groups).
std::vector<std::uint32_t> read_group_indices(const Checkpoint& checkpoint, const TensorInfo& g_idx,
                                              std::uint64_t groups);
/// The same for groups of `size` adjacent inputs.
std::vector<std::uint32_t> adjacent_groups(std::uint64_t inputs, std::uint64_t size);

constexpr std::uint64_t divided_up(std::uint64_t n, std::uint64_t by) { return n / by + (n % by != 0 ? 1 : 0); }

}  // namespace tenon::detail

#ifndef TENON_COMPILED
#include "tenon/checkpoint/quantized_tensors-inl.h"
#endif
