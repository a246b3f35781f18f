#pragma once
#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>

#include "tenon/checkpoint/dtype.h"
#include "tenon/checkpoint/gguf_blocks.h"
#include "tenon/checkpoint/matrix_decoder.h"
#include "tenon/checkpoint/safetensors.h"
#include "tenon/core/error.h"
#include "tenon/core/require.h"
#include "tenon/io/json.h"

namespace tenon {

TENON_INLINE void Checkpoint::verify_unchanged() const {
  for (const auto& file : files_) file.verify_unchanged();
}

TENON_INLINE bool Checkpoint::consists_of(std::string_view file_name) const {
  return file_name == name_ ||
         std::any_of(files_.begin(), files_.end(), [&](const File& each) { return each.name() == file_name; });
}

}  // namespace tenon

namespace tenon::detail {

// The first file of weights in a format that is not read, with advice. For the error about a missing file.
TENON_INLINE std::string other_weights(const std::filesystem::path& folder) {
  std::string found;
  std::error_code failed;
  for (auto each = std::filesystem::directory_iterator(folder, failed);
       !failed && each != std::filesystem::directory_iterator(); each.increment(failed)) {
    const std::string name = each->path().filename().string(), extension = each->path().extension().string();
    const bool weights = extension == ".bin" || extension == ".pt" || extension == ".pth" || extension == ".ckpt" ||
                         extension == ".gguf" || extension == ".h5" || extension == ".msgpack" ||
                         extension == ".safetensors";
    if (weights && (found.empty() || name < found)) found = name;
  }
  if (found.empty()) return {};
  const std::string there = "; there is " + printable(found);
  if (found.ends_with(".safetensors")) return there + ", which is not a name that is looked for";
  if (found.ends_with(".gguf")) return there + ": name the file itself, not its folder";
  if (found.ends_with(".h5") || found.ends_with(".msgpack"))
    return there + ", a format that is not read: convert it to safetensors";
  const std::string pickle = there + ", a pickle, which could run code and is never opened here: ";
  if (found.starts_with("pytorch_model") || found.starts_with("adapter_model"))
    return pickle + "convert it to safetensors with `tenon convert`, which reads it as data and runs nothing";
  return pickle + "convert it to safetensors (save_pretrained of transformers and PEFT writes it)";
}

}  // namespace tenon::detail

namespace tenon {

TENON_INLINE Checkpoint Checkpoint::open(const std::filesystem::path& folder, const std::string& stem) {
  std::error_code failed;
  if (!std::filesystem::is_directory(folder, failed))
    throw Error(Error::Kind::io, file_name_of(folder),
                failed || !std::filesystem::exists(folder, failed) ? "the folder does not exist or cannot be entered"
                                                                   : "is not a folder");
  const std::string single = stem + ".safetensors", index = single + ".index.json";
  // entry_exists() does not follow links, so that a dangling link is reported and not ignored.
  if (entry_exists(folder / single)) return open_file(folder / single);
  if (!entry_exists(folder / index))
    throw Error(Error::Kind::io, single, "the file does not exist, nor does " + index + detail::other_weights(folder));
  Checkpoint checkpoint(file_name_of(folder / index));
  checkpoint.add_shards(folder, read_shard_map(folder / index));
  return checkpoint;
}

TENON_INLINE Checkpoint Checkpoint::open_file(const std::filesystem::path& file) {
  Checkpoint checkpoint(file_name_of(file));
  checkpoint.add_file(file);
  checkpoint.sort_names();
  return checkpoint;
}

TENON_INLINE Checkpoint Checkpoint::of_tensors(File&& file, std::vector<TensorInfo> tensors) {
  std::vector<File> files;
  files.push_back(std::move(file));
  return of_tensors(std::move(files), std::move(tensors));
}

TENON_INLINE Checkpoint Checkpoint::of_tensors(std::vector<File>&& files, std::vector<TensorInfo> tensors) {
  Checkpoint checkpoint(files.front().name());
  checkpoint.files_ = std::move(files);
  checkpoint.metadata_.resize(checkpoint.files_.size());
  checkpoint.tensors_ = std::move(tensors);
  checkpoint.sort_names();
  return checkpoint;
}

TENON_INLINE void Checkpoint::add_file(const std::filesystem::path& path) {
  files_.emplace_back(path);
  SafetensorsHeader header = detail::read_header(files_.back());
  for (auto& tensor : header.tensors) {
    tensor.shard = static_cast<int>(files_.size()) - 1;
    tensors_.push_back(std::move(tensor));
  }
  metadata_.push_back(std::move(header.metadata));
}

// {"metadata": {"total_size": a hint, ignored}, "weight_map": {tensor: shard}}
TENON_INLINE ShardMap read_shard_map(const std::filesystem::path& path) {
  const std::string file = file_name_of(path);
  const Json index = read_json_file(path, kMaxHeaderBytes, {.depth = 8, .values = kMaxTensors + 1000});
  const std::string where = file + ": weight_map";
  if (!index.is_object()) detail::refuse_file(file, "must be a JSON object with a weight_map");
  const auto found = index.find("weight_map");
  if (found == index.end()) detail::refuse_file(where, "is missing");
  if (!found->is_object() || found->empty())
    detail::refuse_file(where, "must be an object that maps tensors to shards");
  ShardMap map;
  for (const auto& [tensor, shard] : found->items()) {
    if (!shard.is_string()) detail::refuse_file(where, "the shard of " + printable(tensor) + " must be a string");
    const auto& name = shard.get_ref<const std::string&>();
    const auto separator = [](char c) { return c == '/' || c == '\\' || static_cast<unsigned char>(c) < 0x20; };
    if (name.empty() || name == "." || name == ".." || std::any_of(name.begin(), name.end(), separator))
      detail::refuse_file(where, "the shard of " + printable(tensor) + ", \"" + printable(name) +
                                     "\", must be the plain name of a file in the same folder, without a path");
    map.emplace(tensor, name);
  }
  return map;
}

TENON_INLINE void Checkpoint::add_shards(const std::filesystem::path& folder, const ShardMap& map) {
  std::vector<std::string> shards;
  for (const auto& [tensor, shard] : map) shards.push_back(shard);
  std::sort(shards.begin(), shards.end());
  shards.erase(std::unique(shards.begin(), shards.end()), shards.end());
  for (const auto& shard : shards) add_file(folder / shard);
  sort_names();

  // Both directions: each tensor of a shard is mapped to that shard, and each mapped tensor exists.
  for (const auto& tensor : tensors_) {
    const auto mapped = map.find(tensor.name);
    const std::string map_name = " in the weight_map of " + name_;
    if (mapped == map.end()) detail::refuse_file(where(tensor), "is not named" + map_name);
    if (mapped->second != shards[static_cast<std::size_t>(tensor.shard)])
      detail::refuse_file(where(tensor),
                          "stands in this shard, but is mapped to " + printable(mapped->second) + map_name);
  }
  for (const auto& [tensor, shard] : map)
    if (find(tensor) == nullptr)
      detail::refuse_file(name_ + ": weight_map: " + printable(tensor),
                          "is mapped to " + printable(shard) + ", which does not hold it");
}

TENON_INLINE void Checkpoint::sort_names() {
  by_name_.resize(tensors_.size());
  std::iota(by_name_.begin(), by_name_.end(), 0u);
  std::sort(by_name_.begin(), by_name_.end(),
            [this](std::uint32_t a, std::uint32_t b) { return tensors_[a].name < tensors_[b].name; });
}

TENON_INLINE const TensorInfo* Checkpoint::find(std::string_view name) const {
  const auto at = std::lower_bound(by_name_.begin(), by_name_.end(), name,
                                   [this](std::uint32_t i, std::string_view n) { return tensors_[i].name < n; });
  return at != by_name_.end() && tensors_[*at].name == name ? &tensors_[*at] : nullptr;
}

TENON_INLINE const TensorInfo& Checkpoint::require(std::string_view name,
                                                   const std::vector<std::uint64_t>& shape) const {
  const TensorInfo* tensor = find(name);
  if (tensor == nullptr) detail::refuse_file(name_ + ": " + printable(name), "the tensor is missing");
  require_weight(*tensor);  // first, because codes of a quantised file may also have other shapes
  if (tensor->shape != shape)
    detail::refuse_file(where(*tensor), "has shape " + shape_text(tensor->shape) + ", needs " + shape_text(shape));
  return *tensor;
}

TENON_INLINE void Checkpoint::require_weight(const TensorInfo& tensor) const {
  if (!is_weight(tensor.dtype) && !is_block(tensor.dtype) && !tensor.decoder)
    throw Error(
        Error::Kind::unsupported, where(tensor),
        "dtype " + std::string(dtype_name(tensor.dtype)) + " cannot be read as a weight; F32, F16 and BF16 can");
}

// Elements [first, first + count) of the tensor, contiguous in the file. The caller has checked the range.
TENON_INLINE void Checkpoint::read_run(const TensorInfo& tensor, std::uint64_t first, std::uint64_t count,
                                       float* out) const {
  const File& file = file_of(tensor);
  if (tensor.decoder) return read_decoded(*tensor.decoder, first, count, out);
  if (is_block(tensor.dtype)) return read_blocks(tensor, first, count, out);
  if (tensor.dtype == DType::f32) {
    file.read_at(tensor.begin + first * sizeof(float), std::as_writable_bytes(std::span(out, count)));
    return;
  }
  // Small enough to be in cache when it is widened.
  constexpr std::uint64_t block = 128 * 1024;
  const auto halves = std::make_unique_for_overwrite<std::uint16_t[]>(std::min(block, count));
  for (std::uint64_t done = 0; done < count; done += block) {
    const std::uint64_t n = std::min(block, count - done);
    file.read_at(tensor.begin + (first + done) * sizeof(std::uint16_t),
                 std::as_writable_bytes(std::span(halves.get(), n)));
    (tensor.dtype == DType::f16 ? floats_of_f16 : floats_of_bf16)(halves.get(), out + done, n);
  }
}

// The same for a quantised matrix. The range may begin and end within a row.
TENON_INLINE void Checkpoint::read_decoded(const MatrixDecoder& decoder, std::uint64_t first, std::uint64_t count,
                                           float* out) const {
  const std::uint64_t inputs = decoder.inputs();
  std::vector<float> row;
  for (const std::uint64_t end = first + count; first < end;) {
    const std::uint64_t skip = first % inputs;
    std::uint64_t n = std::min(inputs - skip, end - first);
    if (n == inputs) {  // whole rows, decoded in place
      n = (end - first) / inputs * inputs;
      decoder.read(*this, first / inputs, n / inputs, out);
    } else {
      row.resize(static_cast<std::size_t>(inputs));
      decoder.read(*this, first / inputs, 1, row.data());
      std::copy_n(row.begin() + static_cast<std::ptrdiff_t>(skip), n, out);
    }
    first += n;
    out += n;
  }
}

// The same for a block type. The range may begin and end within a block.
TENON_INLINE void Checkpoint::read_blocks(const TensorInfo& tensor, std::uint64_t first, std::uint64_t count,
                                          float* out) const {
  const GgufBlock layout = block_layout(tensor.dtype);
  const auto values = static_cast<std::uint64_t>(layout.values), size = static_cast<std::uint64_t>(layout.bytes);
  constexpr std::uint64_t most = 1024;  // blocks at once: at most 210 KiB of bytes
  std::vector<std::byte> bytes;
  std::vector<float> decoded;
  for (const std::uint64_t end = first + count; first < end;) {
    const std::uint64_t block = first / values, skip = first % values;
    const std::uint64_t blocks = std::min(most, (end + values - 1) / values - block);
    const std::uint64_t n = std::min(end - first, blocks * values - skip);
    bytes.resize(static_cast<std::size_t>(blocks * size));
    file_of(tensor).read_at(tensor.begin + block * size, bytes);
    const bool whole = skip == 0 && n == blocks * values;
    if (!whole) decoded.resize(static_cast<std::size_t>(blocks * values));
    decode_blocks(tensor.dtype, bytes.data(), static_cast<std::size_t>(blocks), whole ? out : decoded.data());
    if (!whole) std::copy_n(decoded.begin() + static_cast<std::ptrdiff_t>(skip), n, out);
    first += n;
    out += n;
  }
}

// A rectangle of a tensor that is stored [cols, rows], or of stacked ones, [stack, cols, rows].
TENON_INLINE void Checkpoint::read_transposed(const TensorInfo& tensor, std::uint64_t first_row,
                                              std::uint64_t row_count, std::uint64_t first_col, std::uint64_t col_count,
                                              float* out) const {
  const std::uint64_t height = tensor.shape[tensor.shape.size() - 2], size = height * tensor.shape.back();
  for (const std::uint64_t end = first_row + row_count; first_row < end;) {  // one stacked matrix after another
    const std::uint64_t within = first_row % height, rows = std::min(height - within, end - first_row);
    const std::uint64_t strip = rows == height ? 256 : 1;  // columns at once: a decoder is faster with many rows
    std::vector<float> stored(static_cast<std::size_t>(std::min(strip, col_count) * rows));
    for (std::uint64_t begin = 0; begin < col_count; begin += strip) {
      const std::uint64_t cols = std::min(strip, col_count - begin);
      read_run(tensor, first_row / height * size + (first_col + begin) * height + within, cols * rows, stored.data());
      for (std::uint64_t col = 0; col < cols; ++col)
        for (std::uint64_t row = 0; row < rows; ++row) out[row * col_count + begin + col] = stored[col * rows + row];
    }
    first_row += rows;
    out += rows * col_count;
  }
}

TENON_INLINE void Checkpoint::read(const TensorInfo& tensor, std::uint64_t first_row, std::uint64_t row_count,
                                   std::uint64_t first_col, std::uint64_t col_count, float* out) const {
  require_weight(tensor);
  if (tensor.shape.empty() || tensor.shape.size() > 3)
    detail::refuse_file(where(tensor), "has shape " + shape_text(tensor.shape) + ", needs one of 1 to 3 dimensions");
  std::uint64_t rows = 1;  // of all stacked matrices, one after another
  for (std::size_t d = 0; d + 1 < tensor.shape.size(); ++d) rows *= tensor.shape[d];
  const std::uint64_t cols = tensor.shape.back();
  if (first_row > rows || row_count > rows - first_row || first_col > cols || col_count > cols - first_col)
    throw Error(Error::Kind::internal, where(tensor),
                "shape " + shape_text(tensor.shape) + " does not hold the rectangle to read");
  if (row_count == 0 || col_count == 0) return;
  const StoredOrder& order = tensor.order;
  if (order.transposed) return read_transposed(tensor, first_row, row_count, first_col, col_count, out);
  if (order.c > 0 && tensor.shape.size() == 1) {  // a vector of outputs: its elements are rows
    for (std::uint64_t col = 0; col < col_count; ++col) read_run(tensor, order.row(first_col + col), 1, out + col);
    return;
  }
  if (order.plus != 0) {
    TensorInfo stored = tensor;
    stored.order.plus = 0;
    read(stored, first_row, row_count, first_col, col_count, out);
    for (std::uint64_t i = 0; i < row_count * col_count; ++i) out[i] += order.plus;
    return;
  }
  if (order.plain() && col_count == cols) return read_run(tensor, first_row * cols, row_count * cols, out);
  for (std::uint64_t row = 0; row < row_count; ++row)
    read_run(tensor, order.row(first_row + row) * cols + first_col, col_count, out + row * col_count);
}

TENON_INLINE void Checkpoint::read_all(const TensorInfo& tensor, float* out) const {
  require_weight(tensor);
  if (!tensor.order.plain() || tensor.decoder) {
    std::uint64_t rows = 1;
    for (std::size_t d = 0; d + 1 < tensor.shape.size(); ++d) rows *= tensor.shape[d];
    return read(tensor, 0, rows, 0, tensor.shape.back(), out);
  }
  const GgufBlock layout = block_layout(tensor.dtype);
  const std::uint64_t blocks = (tensor.end - tensor.begin) / static_cast<std::uint64_t>(layout.bytes);
  if (blocks > 0) read_run(tensor, 0, blocks * static_cast<std::uint64_t>(layout.values), out);
}

TENON_INLINE void Checkpoint::read_elements(const TensorInfo& tensor, std::uint64_t first, std::span<float> out) const {
  const auto bits = static_cast<std::uint64_t>(dtype_bits(tensor.dtype));
  const std::uint64_t elements = is_weight(tensor.dtype) ? (tensor.end - tensor.begin) / (bits / 8) : 0;
  if (first > elements || out.size() > elements - first)
    throw Error(Error::Kind::internal, where(tensor), "the elements to read end after the end of the tensor");
  if (!out.empty()) read_run(tensor, first, out.size(), out.data());
}

TENON_INLINE void Checkpoint::replace(const std::set<std::string>& dropped, std::map<std::string, TensorInfo> made) {
  std::vector<TensorInfo> tensors;
  for (TensorInfo& each : tensors_) {
    if (const auto found = made.find(each.name); found != made.end())
      tensors.push_back(std::move(found->second));
    else if (!dropped.contains(each.name))
      tensors.push_back(std::move(each));
  }
  tensors_ = std::move(tensors);
  sort_names();
}

TENON_INLINE void Checkpoint::read_bytes(const TensorInfo& tensor, std::uint64_t offset,
                                         std::span<std::byte> out) const {
  const std::uint64_t size = tensor.end - tensor.begin;
  if (offset > size || out.size() > size - offset)
    throw Error(Error::Kind::internal, where(tensor), "the range to read ends after the end of the tensor");
  file_of(tensor).read_at(tensor.begin + offset, out);
}

TENON_INLINE const std::string* Checkpoint::metadata(std::string_view key) const {
  const auto value = [&](const Metadata& each) {
    const auto found = each.find(key);
    return found == each.end() ? nullptr : &found->second;
  };
  const std::string* const first = value(metadata_.front());
  for (std::size_t i = 1; i < metadata_.size(); ++i) {
    const std::string* const other = value(metadata_[i]);
    if ((other == nullptr) == (first == nullptr) && (first == nullptr || *first == *other)) continue;
    detail::refuse_file(files_[i].name() + ": __metadata__: " + printable(key),
                        "differs from what " + files_[0].name() + " says");
  }
  return first;
}

TENON_INLINE std::set<std::string> Checkpoint::metadata_of_all(std::string_view key) const {
  std::set<std::string> values;
  for (const Metadata& each : metadata_) {
    const auto found = each.find(key);
    if (found != each.end()) values.insert(found->second);
  }
  return values;
}

}  // namespace tenon
