// LoRA adapters as PEFT saves them: adapter_config.json and adapter_model.safetensors, checked against the linears of
// a model.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/checkpoint/dtype.h"
#include "tenon/checkpoint/peft_base.h"
#include "tenon/checkpoint/peft_config.h"
#include "tenon/checkpoint/peft_targets.h"
#include "tenon/checkpoint/safetensors.h"
#include "tenon/core/classifier_head.h"
#include "tenon/core/low_rank.h"
#include "tenon/io/sha256.h"

namespace tenon {

/// The low-rank factors of one module: y += scale * B (A x).
struct PeftFactors {
  std::size_t module = 0;  ///< index into the modules given to PeftAdapter::open
  int inputs = 0, outputs = 0;
  int rank = 0;                           ///< number of rows of A and of columns of B
  double scale = 0;                       ///< `scale` of the formula
  FactorType type = FactorType::float32;  ///< of the factors that read_a and read_b give
  const TensorInfo* a = nullptr;          ///< [rank, inputs], or more columns: the first `inputs` of each row count
  const TensorInfo* b = nullptr;          ///< [outputs, rank], or more rows
  const TensorInfo* a_gain = nullptr;     ///< [rank], factors of the rows of A; null: 1
  const TensorInfo* b_gain = nullptr;     ///< [outputs], factors of the rows of B; null: 1
  const TensorInfo* magnitude = nullptr;  ///< [outputs], of DoRA; null: none
  const TensorInfo* b_bias = nullptr;     ///< [outputs], a bias of B x that is multiplied by `scale`; null: none

  /// Whether factors are computed from several tensors. They are float32 then, each product rounded once.
  bool derived() const { return a_gain != nullptr; }
  std::size_t a_bytes() const {
    return bytes_of(type) * static_cast<std::size_t>(rank) * static_cast<std::size_t>(inputs);
  }
  std::size_t b_bytes() const {
    return bytes_of(type) * static_cast<std::size_t>(outputs) * static_cast<std::size_t>(rank);
  }
};

/// The vector by which IA3 multiplies the inputs or the outputs of one module.
struct PeftScale {
  std::size_t module = 0;               ///< index into the modules given to PeftAdapter::open
  const TensorInfo* factors = nullptr;  ///< [1, inputs] or [outputs, 1]
  bool of_inputs = false;               ///< true: multiplies the inputs; false: the outputs
};

/// Changes of the embedding or the head.
struct PeftTable {
  bool head = false;
  /// Low-rank update, which adds a matrix [vocab, width] to the table. For the embedding the matrix is scale * (B A)^T,
  /// with A [rank, vocab] and B [width, rank]. `update.a` is null if the table has no such update.
  PeftFactors update = {};
  const TensorInfo* rows = nullptr;       ///< replace rows of the model: [vocab, width] or [tokens, width]; null: none
  std::vector<std::int32_t> tokens = {};  ///< the token of each of `rows`; empty: `rows` has all tokens
};

/// A vector of the adapter that replaces one of the model.
struct PeftReplacement {
  std::string name;                    ///< key of PeftBase::vectors
  const TensorInfo* tensor = nullptr;  ///< as long as that vector
};

class PeftAdapter;

/// Computes PeftAdapter::digest incrementally, for code that reads the factors anyway. Add, for each factor pair in
/// turn, its scale, then A, then B.
class PeftDigest {
 public:
  /// `factors`: number of factor pairs that will be added.
  PeftDigest(const PeftConfig& config, std::size_t factors);
  /// `scale`: of the next factor pair.
  void add(double scale) { add(std::bit_cast<std::uint64_t>(scale)); }
  /// `bytes`: what read_a gave.
  void add_a(const PeftFactors& factors, std::span<const std::byte> bytes) { add(*factors.a, factors.a_gain, bytes); }
  /// `bytes`: what read_b gave.
  void add_b(const PeftFactors& factors, std::span<const std::byte> bytes) {
    add(*factors.b, factors.derived() ? factors.a_gain : nullptr, bytes);
  }
  /// After all factor pairs: everything else that has an effect. Reads it. Errors as PeftAdapter::read.
  void add_others(const PeftAdapter& adapter);
  /// "sha256:" and 64 hexadecimal digits.
  std::string text() const { return "sha256:" + hash_.hex(); }

 private:
  void add(std::uint64_t number) { hash_.update(std::as_bytes(std::span(&number, 1))); }
  // gain: names the module where other modules share the tensor; null: the tensor's own name does.
  void add(const TensorInfo& tensor, const TensorInfo* gain, std::span<const std::byte> bytes);
  Sha256 hash_;
};

/// The open files of an adapter. Opening checks their layout; values are read on demand. Move-only. Reading is
/// thread-safe.
class PeftAdapter {
 public:
  /// `modules`: the linears of the model that can be updated. Each tensor of the file must be a factor of a targeted
  /// module, or equal the tensor of `base` that it copies. Each targeted module must have its factors.
  /// Errors:
  /// - io, if a file is missing;
  /// - invalid_file, if a file breaks the format or does not fit the model;
  /// - unsupported, if a file needs a feature that changes the outputs and is not implemented.
  static PeftAdapter open(const std::filesystem::path& folder, std::span<const PeftModule> modules,
                          const PeftBase& base = {});

  const PeftConfig& config() const noexcept { return config_; }    ///< the checked adapter_config.json
  const Checkpoint& tensors() const noexcept { return tensors_; }  ///< the file of the factors
  /// The factor pairs, in the order of the modules. The TensorInfo pointers stay valid for the life of the adapter,
  /// also after moves.
  std::span<const PeftFactors> factors() const noexcept { return factors_; }
  /// The vectors of IA3, in the order of the modules.
  std::span<const PeftScale> scales() const noexcept { return scales_; }
  /// The changes of the embedding and the head: none, one or both, in this order.
  std::span<const PeftTable> tables() const noexcept { return tables_; }
  /// The vectors that replace the model's, in the order of the file.
  std::span<const PeftReplacement> replacements() const noexcept { return replacements_; }
  /// The classification head of the adapter's own, [labels, PeftBase::head_width]; null: none.
  const TensorInfo* classifier() const noexcept { return classifier_; }
  /// All tensors with an effect that are no factors of linears: magnitudes, biases, scales, replacements, tables, and
  /// at last the classification head.
  std::vector<const TensorInfo*> others() const;
  /// The field or tensor that makes the adapter more than low-rank updates of linears; empty: it is no more. The
  /// classification head, if nothing else does.
  std::string beyond_updates() const;
  /// Error unsupported if it is more; the message has beyond_updates(), then `why`.
  void require_plain_updates(std::string_view why) const;
  /// Names of tensors that are ignored because they equal the model's own.
  std::span<const std::string> copies() const noexcept { return copies_; }

  /// Size of the tensor in the file.
  static std::uint64_t bytes_of(const TensorInfo& tensor) { return tensor.end - tensor.begin; }

  /// Reads out.size() bytes of the tensor from byte `offset` on, as stored in the file. `out` holds whole elements. The
  /// overload without `offset` reads the whole tensor. Errors: invalid_file, if a value is NaN or infinite; io, if the
  /// file cannot be read. Call tensors().verify_unchanged() after the last read: it detects a file that has changed.
  void read(const TensorInfo& tensor, std::uint64_t offset, std::span<std::byte> out) const;
  void read(const TensorInfo& tensor, std::span<std::byte> out) const;

  /// Reads A [rank, inputs] or B [outputs, rank] of a factor pair, in its type. out: a_bytes() or b_bytes() bytes.
  /// Errors as for `read`; invalid_file, too, if a product of a derived factor is beyond float32.
  void read_a(const PeftFactors& factors, std::span<std::byte> out) const;
  void read_b(const PeftFactors& factors, std::span<std::byte> out) const;

  /// Reads the whole tensor as float32. out: [number of its elements]. Errors as for `read`.
  void read_floats(const TensorInfo& tensor, std::span<float> out) const;

  /// The classification head in float32; null: none. Errors as for `read`.
  std::shared_ptr<const ClassifierHead> read_classifier() const;
  /// ClassifierHead::bytes of it; 0: none. Reads no values.
  std::size_t classifier_bytes() const;

  /// The same as read_a and read_b in float32. out: [rank, inputs] or [outputs, rank].
  void read_a_floats(const PeftFactors& factors, std::span<float> out) const;
  void read_b_floats(const PeftFactors& factors, std::span<float> out) const;

  /// A hash of everything in the adapter that changes the model's results. Caches use it to tell adapters apart. Two
  /// digests are equal if and only if modules, ranks, scales, types and values are equal. Other fields of the config
  /// are not hashed.
  /// Format: "sha256:" and 64 hexadecimal digits. Reads all tensors. Errors as for `read`.
  std::string digest() const;

 private:
  PeftAdapter(PeftConfig config, Checkpoint tensors) : config_(std::move(config)), tensors_(std::move(tensors)) {}

  // `modules`: the linears, then the tables of `base`.
  void find_factors(std::span<const PeftModule> modules, std::span<const PeftTarget> targets, const PeftBase& base);
  void find_tables(std::span<const PeftTarget> targets, std::size_t linears, const PeftBase& base);
  PeftFactors factors_of_embedding(const PeftModule& module, const PeftTarget& target, const std::string& name) const;
  // The tensor of a table's own rows, if the file has one that is no copy.
  void find_rows(PeftTable& table, const PeftModule& module, const PeftBase& base) const;
  void find_tokens(PeftTable& table, const PeftModule& module, bool is_first) const;
  // Error invalid_file where a tensor of a module that modules_to_save names is missing: PEFT cannot load such a file.
  void require_saved(std::span<const PeftModule> modules, const PeftBase& base) const;
  void find_classifier(const PeftBase& base);
  // Whether the name of a tensor has the prefix after "base_model.model.".
  bool has_prefix(std::string_view prefix) const;
  // Sorts out the tensors that are not `known`: [tensors of the file].
  void find_others(const std::vector<bool>& known, std::span<const PeftModule> modules,
                   std::span<const PeftTarget> targets, const PeftBase& base);
  void add_vectors(PeftFactors& factors, const std::string& stem, const std::string& adapter) const;
  PeftScale scale_of(const PeftModule& module, const PeftTarget& target) const;
  // The tensors that make the adapter's updates, for errors.
  const char* factor_names() const;
  PeftFactors factors_of(const PeftModule& module, const PeftTarget& target, const std::string& name) const;
  PeftFactors factors_of_vera(const PeftModule& module, const PeftTarget& target) const;

  // Reads the first `cols` columns of the first `rows` rows of a matrix, times the gains of the rows.
  void read_scaled(const TensorInfo& matrix, const TensorInfo& gain, int rows, int cols, std::span<float> out) const;

  // The adapter's name in keys such as lora_A.default.weight; empty where no key has one. Trainers that save the
  // model's state themselves write such keys, and PEFT reads them. Error invalid_file if there are several names.
  std::string adapter_name() const;

  // Accepts a tensor that is not a factor if it is an unchanged copy of one of the model's tensors. Otherwise throws.
  void check_copy(const TensorInfo& tensor, const PeftBase& base);
  bool is_inside_saved(const std::string& name) const;
  // Notes a tensor that replaces one of PeftBase::vectors. False if it replaces none. is_target: of a module's path.
  bool replaces_vector(const TensorInfo& tensor, const PeftBase& base,
                       const std::function<bool(const std::string&)>& is_target);

  // `stem`: the key up to lora_A or lora_B. The adapter's name may follow it in the file.
  const TensorInfo& factor(const std::string& stem, const std::string& adapter, const std::vector<std::uint64_t>& shape,
                           int rank) const;
  // A tensor of AdaLoRA or VeRA by its whole name. at_least: each dimension may be larger.
  const TensorInfo& tensor_of(const std::string& name, const std::vector<std::uint64_t>& shape,
                              bool at_least = false) const;

  static FactorType type_of(DType type);

  static bool all_finite_bytes(std::span<const std::byte> bytes, DType type);
  // Whether no word has all exponent bits set, that is, NaN or infinity. Integer arithmetic, because -ffast-math lets
  // a compiler assume that floats are finite.
  template <class Word, Word exponent>
  static bool none_has_exponent(std::span<const std::byte> bytes) {
    unsigned found = 0;
    for (std::size_t at = 0; at + sizeof(Word) <= bytes.size(); at += sizeof(Word)) {
      Word word;
      std::memcpy(&word, bytes.data() + at, sizeof word);
      found |= unsigned{(word & exponent) == exponent};
    }
    return found == 0;
  }

  PeftConfig config_;
  Checkpoint tensors_;
  std::vector<PeftFactors> factors_;
  std::vector<PeftScale> scales_;
  std::vector<PeftTable> tables_;
  std::vector<PeftReplacement> replacements_;
  const TensorInfo* classifier_ = nullptr;
  std::vector<std::string> copies_;
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/checkpoint/peft-inl.h"
#include "tenon/checkpoint/peft_heads-inl.h"
#include "tenon/checkpoint/peft_others-inl.h"
#include "tenon/checkpoint/peft_tables-inl.h"
#endif
