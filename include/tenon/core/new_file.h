// A file that is written under a name of its own, and takes the name it was made for once it is whole.
#pragma once
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include "tenon/core/error.h"
#include "tenon/core/file.h"

namespace tenon {

// Whatever ends the writing early, no half file is left under that name; and none at all, unless the process is killed.
// Move-only. Errors: io, which name the file.
class NewFile {
 public:
  explicit NewFile(const std::filesystem::path& path) : path_(path), name_(file_name_of(path)) {
    for (int n = 0; fd_ < 0; ++n) {
      temporary_ = path.string() + "." + std::to_string(::getpid()) + "-" + std::to_string(n) + ".part";
      do {
        fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      } while (fd_ < 0 && errno == EINTR);
      if (fd_ < 0 && (errno != EEXIST || n == 100)) fail("cannot be created", errno);
    }
  }
  NewFile(NewFile&& other) noexcept
      : path_(std::move(other.path_)),
        temporary_(std::exchange(other.temporary_, std::string())),
        name_(std::move(other.name_)),
        fd_(std::exchange(other.fd_, -1)) {}
  NewFile& operator=(NewFile&&) = delete;
  ~NewFile() {
    if (fd_ >= 0) ::close(fd_);
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
  }

  const std::string& name() const noexcept { return name_; }  // that it will have, printable

  // Safe from many threads, for bytes that do not overlap.
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes) const {
    while (!bytes.empty()) {
      const ::ssize_t put = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<::off_t>(offset));
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) fail("cannot be written", errno);
      offset += static_cast<std::uint64_t>(put);
      bytes = bytes.subspan(static_cast<std::size_t>(put));
    }
  }

  // On the disk first: a name that outlives a power failure, with bytes that do not, would be a half file.
  void publish() {
    if (::fsync(fd_) != 0) fail("cannot be written", errno);
    if (::close(std::exchange(fd_, -1)) != 0) fail("cannot be written", errno);
    if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail("cannot get its name", errno);
    temporary_.clear();
  }

 private:
  [[noreturn]] void fail(const std::string& what, int code) const {
    throw Error(Error::Kind::io, name_, what + ": " + std::generic_category().message(code));
  }

  std::filesystem::path path_;
  std::string temporary_, name_;
  int fd_ = -1;
};

}  // namespace tenon
