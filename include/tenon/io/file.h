// Reads files from untrusted sources: opened once, sized once, read by pread. Files are never mapped: access to a
// mapped file that has shrunk raises SIGBUS, which cannot be caught as an exception (llama.cpp#6774). POSIX only.
#pragma once
#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "tenon/core/require.h"

namespace tenon {

/// Text from a file, made safe for error messages and logs. Bytes that are not printable ASCII become \xNN. The middle
/// of a text longer than `limit` characters is left out. A hostile name can therefore neither forge a log line nor fill
/// the log.
std::string printable(std::string_view text, std::size_t limit = 160);

/// The last component of a path, printable. Errors name files by it, because errors may reach clients, who must not
/// learn the folders of the host.
std::string file_name_of(const std::filesystem::path& path);

/// Whether a file, folder, link or other entry has this path. Links are not followed: a dangling link exists. False if
/// the folder cannot be searched.
bool entry_exists(const std::filesystem::path& path);

/// An open regular file. Symbolic links are followed (caches of model hubs use them). Reading is thread-safe.
/// Move-only.
class File {
 public:
  /// Errors: io if the file cannot be opened; invalid_file if it is no regular file (a folder, a FIFO, a device).
  explicit File(const std::filesystem::path& path);

  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File();

  const std::string& name() const noexcept { return name_; }  ///< last component of the path, printable
  std::uint64_t size() const noexcept { return size_; }       ///< bytes, when the file was opened

  /// Fills `out` with the bytes [offset, offset + out.size()). Errors: io if the file has become shorter; internal
  /// where the range lies outside the file.
  void read_at(std::uint64_t offset, std::span<std::byte> out) const;

  /// Error io if the file was written to since it was opened: the bytes that were read may be half old and half new.
  void verify_unchanged() const;

 private:
  struct stat stat() const;
  static std::string os_message(int code) { return std::generic_category().message(code); }
  static const char* kind_of(::mode_t mode);

  std::string name_;
  int fd_ = -1;
  std::uint64_t size_ = 0;
  struct timespec modified_ {};
};

/// The whole file, of at most max_bytes. Errors as File's, and invalid_file if the file is larger.
std::string read_text_file(const std::filesystem::path& path, std::uint64_t max_bytes);

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/io/file-inl.h"
#endif
