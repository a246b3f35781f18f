// Files as an untrusted source: opened once, sized once, read by pread. Never mapped: a file that shrinks under a map
// is SIGBUS, which no catch sees (llama.cpp#6774). POSIX only.
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

// Text from a file, fit for an error message: what is not printable ASCII becomes \xNN, and the middle of what is
// longer than `limit` characters is left out, so that a hostile name can neither forge a line of a log nor fill it.
std::string printable(std::string_view text, std::size_t limit = 160);

// The last component of a path: errors name a file by it, because they may reach clients and the host's folders are
// none of theirs.
std::string file_name_of(const std::filesystem::path& path);

// An open regular file. Symbolic links are followed (a hub's cache is made of them). Reading is safe from many threads.
class File {
 public:
  // Errors: io where it cannot be opened, invalid_file where it is no regular file (a folder, a FIFO, a device).
  explicit File(const std::filesystem::path& path);

  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File();

  const std::string& name() const noexcept { return name_; }  // the last component of the path, printable
  std::uint64_t size() const noexcept { return size_; }       // bytes, as it was when the file was opened

  // Fills `out` with the bytes at [offset, offset + out.size()). Error io where the file has become shorter.
  void read_at(std::uint64_t offset, std::span<std::byte> out) const;

  // Error io where the file was written to since it was opened: what was read may be half old and half new.
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

// The whole of a file of at most max_bytes. Errors as File's, and invalid_file where it is larger.
std::string read_text_file(const std::filesystem::path& path, std::uint64_t max_bytes);

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/io/file-inl.h"
#endif
