#pragma once
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>
#include <system_error>
#include <utility>

#include "tenon/core/error.h"
#include "tenon/core/require.h"
#include "tenon/io/file.h"
#include "tenon/io/hex.h"

namespace tenon {

TENON_INLINE std::string printable(std::string_view text, std::size_t limit) {
  const std::size_t head = text.size() <= limit ? text.size() : limit / 2;
  const std::size_t tail = text.size() <= limit ? text.size() : text.size() - (limit - limit / 2);
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (i == head && head < tail) {
      out += "...";
      i = tail;
    }
    const auto c = static_cast<unsigned char>(text[i]);
    if (c >= 0x20 && c < 0x7f) {
      out += text[i];
    } else {
      out += "\\x" + hex_of(c, 2);
    }
  }
  return out;
}

TENON_INLINE std::string file_name_of(const std::filesystem::path& path) {
  const auto& named = path.has_filename() ? path : path.parent_path();
  return printable(named.filename().string());
}

TENON_INLINE bool entry_exists(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(std::filesystem::symlink_status(path, ignored));
}

TENON_INLINE File::File(const std::filesystem::path& path) : name_(file_name_of(path)) {
  // O_NONBLOCK: open() of a FIFO without a writer would block for ever. O_NOCTTY: a terminal must not become ours.
  do {
    fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  } while (fd_ < 0 && errno == EINTR);
  if (fd_ < 0 && errno == ENOENT) throw Error(Error::Kind::io, name_, "the file does not exist");
  if (fd_ < 0) throw Error(Error::Kind::io, name_, "cannot be opened: " + os_message(errno));
  try {
    const struct stat status = stat();
    if (!S_ISREG(status.st_mode))
      throw Error(Error::Kind::invalid_file, name_,
                  std::string("is ") + kind_of(status.st_mode) + ", needs to be a regular file");
    size_ = static_cast<std::uint64_t>(status.st_size);
    modified_ = status.st_mtim;
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

TENON_INLINE File::File(File&& other) noexcept
    : name_(std::move(other.name_)),
      fd_(std::exchange(other.fd_, -1)),
      size_(other.size_),
      modified_(other.modified_) {}

TENON_INLINE File& File::operator=(File&& other) noexcept {
  std::swap(name_, other.name_);
  std::swap(fd_, other.fd_);
  std::swap(size_, other.size_);
  std::swap(modified_, other.modified_);
  return *this;
}

TENON_INLINE File::~File() {
  if (fd_ >= 0) ::close(fd_);
}

TENON_INLINE void File::read_at(std::uint64_t offset, std::span<std::byte> out) const {
  if (offset > size_ || out.size() > size_ - offset)
    throw Error(Error::Kind::internal, name_, "the range to read ends after the end of the file");
  while (!out.empty()) {
    const ::ssize_t got = ::pread(fd_, out.data(), out.size(), static_cast<::off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw Error(Error::Kind::io, name_, "cannot be read: " + os_message(errno));
    if (got == 0)
      throw Error(Error::Kind::io, name_, "was truncated while it was read; load it again when it is complete");
    offset += static_cast<std::uint64_t>(got);
    out = out.subspan(static_cast<std::size_t>(got));
  }
}

TENON_INLINE void File::verify_unchanged() const {
  const struct stat now = stat();
  if (static_cast<std::uint64_t>(now.st_size) != size_ || now.st_mtim.tv_sec != modified_.tv_sec ||
      now.st_mtim.tv_nsec != modified_.tv_nsec)
    throw Error(Error::Kind::io, name_, "was changed while it was read; load it again when it is complete");
}

TENON_INLINE struct stat File::stat() const {
  struct stat status {};
  if (::fstat(fd_, &status) != 0) throw Error(Error::Kind::io, name_, "cannot be examined: " + os_message(errno));
  return status;
}

TENON_INLINE const char* File::kind_of(::mode_t mode) {
  if (S_ISDIR(mode)) return "a folder (directory)";
  if (S_ISFIFO(mode)) return "a FIFO";
  return "a device";
}

TENON_INLINE std::string read_text_file(const std::filesystem::path& path, std::uint64_t max_bytes) {
  const File file(path);
  if (file.size() > max_bytes)
    throw Error(Error::Kind::invalid_file, file.name(),
                "has " + std::to_string(file.size()) + " bytes, the limit is " + std::to_string(max_bytes));
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(text)));
  return text;
}

}  // namespace tenon
