// A file that takes the name it was made for once it is whole.
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
#include <vector>

#include "tenon/core/error.h"
#include "tenon/core/file.h"

namespace tenon {

// Whatever ends the writing early, no half file is left under that name. Nor under another one: until then it has none,
// where the file system allows that (O_TMPFILE: ext4, XFS, Btrfs, tmpfs); elsewhere it is <path>.<process>-<n>.part,
// which stays if the process is killed. Move-only. Errors: io, which name the file.
class NewFile {
 public:
  explicit NewFile(const std::filesystem::path& path) : path_(path), name_(file_name_of(path)) {
    if (open_nameless()) return;
    const int code = give_temporary([&] {
      fd_ = opened(temporary_, O_CREAT | O_EXCL);
      return fd_ >= 0;
    });
    if (code != 0) fail("cannot be created", code);
  }
  NewFile(NewFile&& other) noexcept
      : path_(std::move(other.path_)),
        temporary_(std::exchange(other.temporary_, std::string())),
        name_(std::move(other.name_)),
        fd_(std::exchange(other.fd_, -1)),
        whole_(other.whole_) {}
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

  // Ends the writing: all that needs room is done, and only the name is missing. On the disk first: a name that
  // outlives a power failure, with bytes that do not, would be a half file.
  void settle() {
    if (whole_) return;
    if (::fsync(fd_) != 0) fail("cannot be written", errno);
    // A link cannot take the place of another file, a renaming can: so a temporary name it has to be.
    if (temporary_.empty()) {
      const int code = give_temporary(
          [&] { return ::linkat(AT_FDCWD, own_link().c_str(), AT_FDCWD, temporary_.c_str(), AT_SYMLINK_FOLLOW) == 0; });
      if (code != 0) fail("cannot be written", code);
    }
    if (::close(std::exchange(fd_, -1)) != 0) fail("cannot be written", errno);
    whole_ = true;
  }

  // In the place of what has the name now.
  void publish() {
    settle();
    if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail("cannot get its name", errno);
    temporary_.clear();
  }

  // All of them, in this order, or none. What had a name of theirs is lost in either case.
  static void publish_all(std::vector<NewFile>& files) {
    for (NewFile& each : files) each.settle();
    std::size_t published = 0;
    try {
      for (; published < files.size(); ++published) files[published].publish();
    } catch (...) {
      while (published > 0) ::unlink(files[--published].path_.c_str());
      throw;
    }
  }

 private:
  static int opened(const std::string& path, int flags) {
    int fd = -1;
    do {
      fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | flags, 0666);
    } while (fd < 0 && errno == EINTR);
    return fd;
  }

  // The way to it by which it is given a name, without the privilege that AT_EMPTY_PATH needs.
  std::string own_link() const { return "/proc/self/fd/" + std::to_string(fd_); }

  bool open_nameless() {
#ifdef O_TMPFILE
    const std::filesystem::path folder = path_.parent_path();
    fd_ = opened(folder.empty() ? "." : folder.string(), O_TMPFILE);
    if (fd_ < 0) return false;
    if (::access(own_link().c_str(), F_OK) == 0) return true;
    ::close(std::exchange(fd_, -1));  // no /proc here
#endif
    return false;
  }

  // Tries names until take() has one. Returns the error of the last attempt, with no name left; 0: it has one.
  template <class Take>
  int give_temporary(Take&& take) {
    for (int n = 0;; ++n) {
      temporary_ = path_.string() + "." + std::to_string(::getpid()) + "-" + std::to_string(n) + ".part";
      if (take()) return 0;
      const int code = errno;
      if (code == EEXIST && n < 100) continue;
      temporary_.clear();  // that file is another's
      return code;
    }
  }

  [[noreturn]] void fail(const std::string& what, int code) const {
    throw Error(Error::Kind::io, name_, what + ": " + std::generic_category().message(code));
  }

  std::filesystem::path path_;
  std::string temporary_, name_;
  int fd_ = -1;
  bool whole_ = false;  // on the disk, under the temporary name
};

}  // namespace tenon
