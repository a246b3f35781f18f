// The model in a GGUF file, as the checkpoint of transformers that it was made from: config.json, and the names, shapes
// and orders of its tensors. gguf_families.h has the tables.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tenon/checkpoint/gguf_parts.h"

namespace tenon {

/// The model in GGUF files. The weights are not read yet.
struct GgufModel {
  std::shared_ptr<const Json> metadata;  ///< of the first file
  std::shared_ptr<const Json> config;    ///< the members that config.json would have
  std::vector<TensorInfo> tensors;       ///< named as in transformers, with the order in which the files store them
};

/// Maps the header of opened files. Errors: invalid_file if a key or a tensor is missing or contradicts another;
/// unsupported if the architecture, a key or a tensor is not known, because it would change the output.
GgufModel read_gguf_model(const GgufFiles& files);

namespace detail {

// The values of an F32 vector of a GGUF file.
using GgufVector = std::function<std::vector<float>(const TensorInfo&)>;

// Maps a header. `file` names it in errors; `read` reads factors of frequencies.
GgufModel map_gguf(const std::string& file, const GgufHeader& header, const GgufVector& read);

}  // namespace detail

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/checkpoint/gguf_model-inl.h"
#endif
