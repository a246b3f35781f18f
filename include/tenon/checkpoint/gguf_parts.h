// A model in GGUF files: one, or the parts that llama-gguf-split writes. Part 1 of 3 is NAME-00001-of-00003.gguf and
// has the metadata. Each part has split.no, which counts from 0, and split.count. split.tensors.count is that of all
// parts.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/checkpoint/gguf.h"

namespace tenon {

/// The open files of a model, with their headers as one.
struct GgufFiles {
  std::vector<File> files;  ///< at least one; the first part first
  /// The metadata of the first part, and the tensors of all parts in order. `shard` is the index of a tensor's file.
  GgufHeader header;
};

/// Opens a GGUF file and, if it is the first part of a model, the other parts, which must lie beside it. Checks what
/// llama.cpp checks. Errors: those of read_gguf_header; io if a part is missing, or another part than the first is
/// named: the error says which file is needed; invalid_file if parts do not belong together.
GgufFiles open_gguf(const std::filesystem::path& path);

namespace detail {

// The contents of the name of a part.
struct GgufPartName {
  std::string stem;  // the name before "-00001-of-00003.gguf"
  int part, count;   // part counts from 1
};

// Empty if the name is not that of a part.
std::optional<GgufPartName> gguf_part_of(std::string_view name);

// The GGUF models of a folder, by name: single files and first parts. Without image encoders, which have "mmproj" in
// their names, as for llama.cpp.
std::vector<std::filesystem::path> gguf_models_in(const std::filesystem::path& folder);

}  // namespace detail

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/checkpoint/gguf_parts-inl.h"
#endif
