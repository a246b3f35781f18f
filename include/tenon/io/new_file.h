// A file that takes the name it was made for once it is whole.
#pragma once
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "tenon/core/require.h"

namespace tenon {

// Whatever ends the writing early, no half file is left under that name. Nor under another one: until then it has none,
// where the file system allows that (O_TMPFILE: ext4, XFS, Btrfs, tmpfs); elsewhere it is <path>.<process>-<n>.part,
// which stays if the process is killed. Move-only. Errors: io, which name the file.
class NewFile {
 public:
  explicit NewFile(const std::filesystem::path& path);
  NewFile(NewFile&& other) noexcept;
  NewFile& operator=(NewFile&&) = delete;
  ~NewFile();

  const std::string& name() const noexcept { return name_; }  // that it will have, printable

  // Safe from many threads, for bytes that do not overlap.
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes) const;

  // Ends the writing: all that needs room is done, and only the name is missing. On the disk first: a name that
  // outlives a power failure, with bytes that do not, would be a half file.
  void settle();

  // In the place of what has the name now.
  void publish();

  // All of them, in this order, or none. What had a name of theirs is lost in either case.
  static void publish_all(std::vector<NewFile>& files);

 private:
  static int opened(const std::string& path, int flags);

  // The way to it by which it is given a name, without the privilege that AT_EMPTY_PATH needs.
  std::string own_link() const { return "/proc/self/fd/" + std::to_string(fd_); }

  bool open_nameless();

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

  [[noreturn]] void fail(const std::string& what, int code) const;

  std::filesystem::path path_;
  std::string temporary_, name_;
  int fd_ = -1;
  bool whole_ = false;  // on the disk, under the temporary name
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/io/new_file-inl.h"
#endif
