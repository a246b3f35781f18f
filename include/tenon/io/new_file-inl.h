#pragma once
#include <fcntl.h>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "tenon/core/error.h"
#include "tenon/core/require.h"
#include "tenon/io/file.h"
#include "tenon/io/new_file.h"

namespace tenon {

TENON_INLINE NewFile::NewFile(const std::filesystem::path& path, ::mode_t mode)
    : path_(path), name_(file_name_of(path)), mode_(mode) {
  if (open_nameless()) return;
  const int code = take_temporary_name([&] {
    fd_ = open_file(temporary_, O_CREAT | O_EXCL);
    return fd_ >= 0;
  });
  if (code != 0) fail("cannot be created", code);
}

TENON_INLINE NewFile::NewFile(NewFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, std::string())),
      name_(std::move(other.name_)),
      mode_(other.mode_),
      fd_(std::exchange(other.fd_, -1)),
      settled_(other.settled_) {}

TENON_INLINE NewFile::~NewFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

TENON_INLINE void NewFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) const {
  while (!bytes.empty()) {
    const ::ssize_t put = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<::off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail("cannot be written", errno);
    offset += static_cast<std::uint64_t>(put);
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
}

TENON_INLINE void NewFile::settle() {
  if (settled_) return;
  if (::fsync(fd_) != 0) fail("cannot be written", errno);
  // link() cannot replace an existing file, rename() can. So the file needs a temporary name first.
  if (temporary_.empty()) {
    const int code = take_temporary_name(
        [&] { return ::linkat(AT_FDCWD, own_link().c_str(), AT_FDCWD, temporary_.c_str(), AT_SYMLINK_FOLLOW) == 0; });
    if (code != 0) fail("cannot be written", code);
  }
  if (::close(std::exchange(fd_, -1)) != 0) fail("cannot be written", errno);
  settled_ = true;
}

TENON_INLINE void NewFile::publish() {
  settle();
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail("cannot get its name", errno);
  temporary_.clear();
}

TENON_INLINE void NewFile::publish_all(std::vector<NewFile>& files) {
  for (NewFile& each : files) each.settle();
  std::size_t published = 0;
  try {
    for (; published < files.size(); ++published) files[published].publish();
  } catch (...) {
    while (published > 0) ::unlink(files[--published].path_.c_str());
    throw;
  }
}

TENON_INLINE int NewFile::open_file(const std::string& path, int flags) const {
  int fd = -1;
  do {
    fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | flags, mode_);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

TENON_INLINE bool NewFile::open_nameless() {
#ifdef O_TMPFILE
  const std::filesystem::path folder = path_.parent_path();
  fd_ = open_file(folder.empty() ? "." : folder.string(), O_TMPFILE);
  if (fd_ < 0) return false;
  if (::access(own_link().c_str(), F_OK) == 0) return true;
  ::close(std::exchange(fd_, -1));  // /proc is not mounted
#endif
  return false;
}

TENON_INLINE void NewFile::fail(const std::string& what, int code) const {
  throw Error(Error::Kind::io, name_, what + ": " + std::generic_category().message(code));
}

}  // namespace tenon
