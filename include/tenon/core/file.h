// Files as an untrusted source: opened once, sized once, read by pread. Never mapped: a file that shrinks under a map
// is SIGBUS, which no catch sees (llama.cpp#6774). POSIX only.
#pragma once
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "tenon/core/error.h"

namespace tenon {

// Text from a file, fit for an error message: what is not printable ASCII becomes \xNN, and the middle of what is
// longer than `limit` characters is left out, so that a hostile name can neither forge a line of a log nor fill it.
inline std::string printable(std::string_view text, std::size_t limit = 160) {
  constexpr char hex[] = "0123456789abcdef";
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
      out += {'\\', 'x', hex[c >> 4], hex[c & 15]};
    }
  }
  return out;
}

// The last component of a path: errors name a file by it, because they may reach clients and the host's folders are
// none of theirs.
inline std::string file_name_of(const std::filesystem::path& path) {
  const auto& named = path.has_filename() ? path : path.parent_path();
  return printable(named.filename().string());
}

// An open regular file. Symbolic links are followed (a hub's cache is made of them). Reading is safe from many threads.
class File {
 public:
  // Errors: io where it cannot be opened, invalid_file where it is no regular file (a folder, a FIFO, a device).
  explicit File(const std::filesystem::path& path) : name_(file_name_of(path)) {
    // O_NONBLOCK: opening a FIFO that nobody writes to would wait for ever. O_NOCTTY: a terminal must not become ours.
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

  File(File&& other) noexcept
      : name_(std::move(other.name_)),
        fd_(std::exchange(other.fd_, -1)),
        size_(other.size_),
        modified_(other.modified_) {}
  File& operator=(File&& other) noexcept {
    std::swap(name_, other.name_);
    std::swap(fd_, other.fd_);
    std::swap(size_, other.size_);
    std::swap(modified_, other.modified_);
    return *this;
  }
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }

  const std::string& name() const noexcept { return name_; }  // the last component of the path, printable
  std::uint64_t size() const noexcept { return size_; }       // bytes, as it was when the file was opened

  // Fills `out` with the bytes at [offset, offset + out.size()). Error io where the file has become shorter.
  void read_at(std::uint64_t offset, std::span<std::byte> out) const {
    if (offset > size_ || out.size() > size_ - offset)
      throw Error(Error::Kind::internal, name_, "a read past the end of the file was asked for");
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

  // Error io where the file was written to since it was opened: what was read may be half old and half new.
  void verify_unchanged() const {
    const struct stat now = stat();
    if (static_cast<std::uint64_t>(now.st_size) != size_ || now.st_mtim.tv_sec != modified_.tv_sec ||
        now.st_mtim.tv_nsec != modified_.tv_nsec)
      throw Error(Error::Kind::io, name_, "was changed while it was read; load it again when it is complete");
  }

 private:
  struct stat stat() const {
    struct stat status {};
    if (::fstat(fd_, &status) != 0) throw Error(Error::Kind::io, name_, "cannot be examined: " + os_message(errno));
    return status;
  }
  static std::string os_message(int code) { return std::generic_category().message(code); }
  static const char* kind_of(::mode_t mode) {
    if (S_ISDIR(mode)) return "a folder (directory)";
    if (S_ISFIFO(mode)) return "a FIFO";
    return "a device";
  }

  std::string name_;
  int fd_ = -1;
  std::uint64_t size_ = 0;
  struct timespec modified_ {};
};

// The whole of a file of at most max_bytes. Errors as File's, and invalid_file where it is larger.
inline std::string read_text_file(const std::filesystem::path& path, std::uint64_t max_bytes) {
  const File file(path);
  if (file.size() > max_bytes)
    throw Error(Error::Kind::invalid_file, file.name(),
                "has " + std::to_string(file.size()) + " bytes, the limit is " + std::to_string(max_bytes));
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(text)));
  return text;
}

}  // namespace tenon
