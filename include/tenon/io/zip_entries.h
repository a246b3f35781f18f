// The list of files in a zip archive that does not compress them, as torch.save writes it (APPNOTE 6.3, with Zip64).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "tenon/io/file.h"

namespace tenon {

inline constexpr std::uint64_t kMaxZipEntries = 1'000'000;
inline constexpr std::uint64_t kMaxZipDirectory = 128u << 20;  ///< bytes
inline constexpr std::uint64_t kMaxZipName = 1024;             ///< bytes of a file's name

/// A file in an archive, and its bytes [begin, end) from the start of the archive.
struct ZipEntry {
  std::string name;
  std::uint64_t begin = 0, end = 0;
};

/// Whether the file begins as a zip archive does.
bool is_zip(const File& file);

/// In the order of the archive's directory. Checksums are not compared, as torch.load does not either. Errors:
/// invalid_file if the archive breaks the format; unsupported for a compressed or encrypted file, and for an archive in
/// several parts.
std::vector<ZipEntry> read_zip_entries(const File& file);

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/io/zip_entries-inl.h"
#endif
