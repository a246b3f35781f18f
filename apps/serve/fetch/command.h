// Runs a program of the operator without a shell, and watches its time and what it writes.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace serve {

// The contents of a folder: regular files, and folders of them.
struct FolderContents {
  std::uint64_t bytes = 0;
  std::size_t entries = 0;
  // The kind of an entry that is neither a regular file with one name nor a folder: "a symbolic link", "a hard link",
  // "a special file"; empty: there is none.
  std::string other;
};

// Follows no link. Entries that vanish meanwhile are left out.
FolderContents contents_of(const std::filesystem::path& folder);

struct CommandLimits {
  std::chrono::milliseconds time;
  std::uint64_t bytes;  // in the working folder
  std::size_t entries;  // files and folders there
};

struct CommandResult {
  enum class End { exited, signalled, timed_out, too_large, stopped, not_started };
  End end = End::not_started;
  int status = 0;    // exited: the exit status; signalled: the signal; not_started: errno
  std::string said;  // the last part of standard output and standard error, printable
};

// Runs `words` (an absolute path and its arguments) in `folder`, with `environment` (NAME=value) and no other variable.
// The program gets /dev/null as its standard input and no other descriptor of this process. It leads a process group of
// its own. The whole group is killed when the program ends, exceeds a limit, or `stop` becomes true.
CommandResult run_command(const std::vector<std::string>& words, const std::vector<std::string>& environment,
                          const std::filesystem::path& folder, const CommandLimits& limits,
                          const std::atomic<bool>& stop);

}  // namespace serve
