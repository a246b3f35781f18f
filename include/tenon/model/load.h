// From files to packed weights: opens a model folder, checks every tensor against the sizes of config.json before anything
// is allocated, then streams blocks of rows into the stores.
#pragma once
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tenon/checkpoint/config.h"
#include "tenon/checkpoint/safetensors.h"
#include "tenon/core/finite.h"
#include "tenon/core/hash.h"
#include "tenon/model/config.h"
#include "tenon/model/parts.h"
#include "tenon/model/random.h"
#include "tenon/model/traits.h"
#include "tenon/tokenizer/bpe.h"
#include "tenon/weights/store.h"

namespace tenon {

// A model folder, opened and its layout checked, its weights not yet read: engines of any type are made from it.
struct ModelFiles {
  std::shared_ptr<const ConfigFile> config = {};
  std::shared_ptr<const Checkpoint> tensors = {};
  std::shared_ptr<const Tokenizer> tokenizer = {};  // null: the engine takes and gives token ids only
  // In place of files: these sizes, and weights drawn from the seed.
  std::optional<ModelConfig> random = {};
  std::uint64_t seed = 0;
};

// A model of these sizes with random weights: for benchmarks and tests.
inline ModelFiles random_checkpoint(const ModelConfig& config, std::uint64_t seed = 0) {
  return {.random = config, .seed = seed};
}

// Error where there is nothing to make an engine of.
inline void need_files(const ModelFiles& files) {
  if (files.random || (files.config && files.tensors)) return;
  throw Error(Error::Kind::invalid_request, "model", "no files: make them by load_checkpoint or random_checkpoint");
}

// Of the family that the files are for.
inline std::string model_type_of(const ModelFiles& files) {
  need_files(files);
  return files.random ? files.random->model_type : files.config->model_type();
}

inline bool has_tokenizer(const std::filesystem::path& folder) {
  std::error_code ignored;
  for (const char* name : {"vocab.json", "merges.txt", "tokenizer.json"}) {
    if (std::filesystem::exists(folder / name, ignored)) return true;
  }
  return false;
}

// Opens the folder of a checkpoint: config.json, model.safetensors (or shards and their index), and a tokenizer where one
// is found. Errors name file and field.
inline ModelFiles load_checkpoint(const std::filesystem::path& folder) {
  ModelFiles files;
  files.config = std::make_shared<const ConfigFile>(folder);
  files.tensors = std::make_shared<const Checkpoint>(Checkpoint::open(folder));
  if (has_tokenizer(folder)) {
    files.tokenizer = std::make_shared<const Tokenizer>(Tokenizer::load(folder, files.config->fields().positive_int("vocab_size")));
  }
  return files;
}

// Each layer has a dozen tensors: a count of layers from a hostile file is refused before anything grows with it.
inline void check_layer_count(const ModelFiles& files, const ModelConfig& config) {
  if (files.random || static_cast<std::size_t>(config.layers) <= files.tensors->tensors().size()) return;
  throw Error(Error::Kind::invalid_file, "config.json: n_layer or num_hidden_layers",
              std::to_string(config.layers) + " layers, but the checkpoint has only " +
                  std::to_string(files.tensors->tensors().size()) + " tensors");
}

// Finds the tensors of a DecoderSpec in a checkpoint, whatever their prefix, and reads them.
class TensorSource {
 public:
  TensorSource(const ModelFiles& files, std::string_view prefix) : files_(files), prefix_(prefix) {}

  // Every tensor that the model needs is there and has its shape; nothing has been read.
  void check(const DecoderSpec& spec, bool tied_head) const {
    if (files_.random) return;
    const auto matrix = [&](const MatrixSpec& m) {
      for (const TensorPart& part : m.parts) {
        const int rows = part.stored_rows();
        check_shape(find(part.name), part.transposed ? Shape{m.shape.cols, rows} : Shape{rows, m.shape.cols}, true);
      }
      return 0;
    };
    const auto vector = [&](const VectorSpec& v) {
      for (const TensorPart& part : v.parts) check_shape(find(part.name), {part.stored_rows(), v.shape.cols}, v.table);
      return 0;
    };
    map_parts<int, int, int>(spec, tied_head, matrix, matrix, vector);
  }

  // rows first..first+count-1 of a matrix into out: [count, cols].
  void read(const MatrixSpec& spec, int first, int count, float* out) const {
    const int cols = spec.shape.cols;
    int part_begin = 0;
    for (const TensorPart& part : spec.parts) {
      const int begin = std::max(first, part_begin), end = std::min(first + count, part_begin + part.rows);
      for (int row = begin; row < end;) {
        const auto run = part.run(row - part_begin, end - row);
        float* rows = out + static_cast<std::ptrdiff_t>(row - first) * cols;
        if (files_.random) random_rows(files_.seed, part.name, cols, run.at, run.rows, rows);
        else if (part.transposed) read_transposed(find(part.name), run.at, run.rows, cols, rows);
        else read_checked(find(part.name), run.at, run.rows, 0, cols, rows);
        row += run.rows;
      }
      part_begin += part.rows;
    }
  }

  // out: [rows, cols]
  void read(const VectorSpec& spec, float* out) const {
    const int cols = spec.shape.cols;
    for (const TensorPart& part : spec.parts) {
      for (int row = 0; row < part.rows;) {
        const auto run = part.run(row, part.rows - row);
        if (!files_.random) read_vector(find(part.name), run, cols, spec.table, out);
        else if (spec.table) random_rows(files_.seed, part.name, cols, run.at, run.rows, out);
        else random_vector(part.name, run.rows, out);
        row += run.rows;
        out += static_cast<std::ptrdiff_t>(run.rows) * cols;
      }
    }
  }

  // Tensors of the checkpoint that the model has no use for.
  std::vector<std::string> unused(const DecoderSpec& spec, bool tied_head) const {
    std::set<std::string> used;
    const auto matrix = [&](const MatrixSpec& m) {
      for (const TensorPart& part : m.parts) used.insert(find(part.name).name);
      return 0;
    };
    const auto vector = [&](const VectorSpec& v) {
      for (const TensorPart& part : v.parts) used.insert(find(part.name).name);
      return 0;
    };
    std::vector<std::string> names;
    if (files_.random) return names;
    map_parts<int, int, int>(spec, tied_head, matrix, matrix, vector);
    for (const TensorInfo& tensor : files_.tensors->tensors()) {
      if (!used.contains(tensor.name)) names.push_back(tensor.name);
    }
    return names;
  }

  const TensorInfo& find(const std::string& name) const {
    if (const auto* tensor = files_.tensors->find(std::string(prefix_) + name)) return *tensor;
    if (const auto* tensor = files_.tensors->find(name)) return *tensor;
    throw Error(Error::Kind::invalid_file, files_.tensors->name(),
                "tensor " + std::string(prefix_) + name + " is missing, which config.json asks for");
  }

 private:
  // A vector is stored with one dimension.
  void check_shape(const TensorInfo& tensor, Shape wanted, bool matrix) const {
    std::vector<std::uint64_t> shape{static_cast<std::uint64_t>(wanted.rows)};
    if (matrix) shape.push_back(static_cast<std::uint64_t>(wanted.cols));
    files_.tensors->require(tensor.name, shape);
  }

  // A tensor of one dimension reads as one row.
  void read_vector(const TensorInfo& tensor, TensorPart::Run run, int cols, bool table, float* out) const {
    if (table) read_checked(tensor, run.at, run.rows, 0, cols, out);
    else read_checked(tensor, 0, 1, run.at, run.rows, out);
  }

  void read_checked(const TensorInfo& tensor, int first_row, int rows, int first_col, int cols, float* out) const {
    files_.tensors->read(tensor, static_cast<std::uint64_t>(first_row), static_cast<std::uint64_t>(rows),
                         static_cast<std::uint64_t>(first_col), static_cast<std::uint64_t>(cols), out);
    if (!all_finite({out, static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols)})) {
      throw Error(Error::Kind::invalid_file, files_.tensors->where(tensor), "holds a value that is not finite");
    }
  }

  // Stored [cols, rows]: reads the block of columns, then turns it in squares that fit the first-level cache.
  void read_transposed(const TensorInfo& tensor, int first, int count, int cols, float* out) const {
    std::vector<float> stored(static_cast<std::size_t>(count) * static_cast<std::size_t>(cols));  // [cols, count]
    read_checked(tensor, 0, cols, first, count, stored.data());
    constexpr int kSquare = 32;
    for (int r0 = 0; r0 < count; r0 += kSquare) {
      for (int c0 = 0; c0 < cols; c0 += kSquare) {
        for (int r = r0; r < std::min(r0 + kSquare, count); ++r) {
          for (int c = c0; c < std::min(c0 + kSquare, cols); ++c) {
            out[static_cast<std::ptrdiff_t>(r) * cols + c] = stored[static_cast<std::size_t>(c) * static_cast<std::size_t>(count) + static_cast<std::size_t>(r)];
          }
        }
      }
    }
  }

  const ModelFiles& files_;
  std::string_view prefix_;
};

// The packed weights of a decoder on a device: matrices in format P, embedding and head in format H, vectors as float32.
template <WeightPolicy P, WeightPolicy H, DevicePolicy D>
class DecoderWeights {
 public:
  using Parts = DecoderParts<typename P::View, typename H::View, const float*>;

  template <class Pool>
  DecoderWeights(D& device, Pool& pool, const DecoderSpec& spec, bool tied_head, const TensorSource& source) {
    source.check(spec, tied_head);
    std::vector<Shape> matrices, heads;
    std::size_t floats = 0;
    const auto list = [](std::vector<Shape>& shapes) {
      return [&shapes](const MatrixSpec& m) { return shapes.push_back(m.shape), 0; };
    };
    map_parts<int, int, int>(spec, tied_head, list(matrices), list(heads), [&](const VectorSpec& v) {
      floats += padded(v);
      return 0;
    });
    matrices_ = WeightStore<P, D>(device, matrices);
    heads_ = WeightStore<H, D>(device, heads);
    vectors_ = device.allocate(floats * sizeof(float));
    float* next = reinterpret_cast<float*>(vectors_.data());
    parts_ = map_parts<typename P::View, typename H::View, const float*>(
        spec, tied_head,
        [&](const MatrixSpec& m) { return matrices_.add(pool, m.shape, reader(source, m)); },
        [&](const MatrixSpec& m) { return heads_.add(pool, m.shape, reader(source, m)); },
        [&](const VectorSpec& v) -> const float* {
          if (v.none()) return nullptr;
          float* out = next;
          source.read(v, out);
          next += padded(v);
          return out;
        });
    bytes_ = matrices_.bytes() + heads_.bytes() + floats * sizeof(float);
  }

  const Parts& parts() const { return parts_; }
  std::size_t bytes() const { return bytes_; }

  // Of every value, as packed. Reads them all.
  std::uint64_t hash() const {
    const std::uint64_t matrices = hash64(matrices_.contents()), heads = hash64(heads_.contents(), matrices);
    return hash64({vectors_.data(), vectors_.bytes()}, heads);
  }

 private:
  static auto reader(const TensorSource& source, const MatrixSpec& m) {
    return [&source, &m](int first, int count, float* out) { source.read(m, first, count, out); };
  }
  // Whole lines, so that no vector shares one with another.
  static std::size_t padded(const VectorSpec& v) {
    if (v.none()) return 0;
    return (static_cast<std::size_t>(v.shape.rows) * static_cast<std::size_t>(v.shape.cols) + 15) / 16 * 16;
  }

  WeightStore<P, D> matrices_;
  WeightStore<H, D> heads_;
  typename D::Memory vectors_;
  Parts parts_;
  std::size_t bytes_ = 0;
};

}  // namespace tenon
