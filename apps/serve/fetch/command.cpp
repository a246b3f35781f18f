#include "serve/fetch/command.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "tenon/io/file.h"

namespace serve {
namespace {

namespace fs = std::filesystem;
using SteadyClock = std::chrono::steady_clock;
using End = CommandResult::End;

constexpr int kLookMs = 20;              // interval of the checks of limits
constexpr std::size_t kMostSaid = 2000;  // bytes of output that are kept

class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  ~Descriptor() { reset(); }

  void reset(int fd = -1) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

// The arguments of posix_spawn that say what the program inherits: nothing but its three standard descriptors.
class Spawn {
 public:
  Spawn(const fs::path& folder, int output) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_addopen(&actions_, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions_, output, 1);
    posix_spawn_file_actions_adddup2(&actions_, output, 2);
    posix_spawn_file_actions_addclosefrom_np(&actions_, 3);
    posix_spawn_file_actions_addchdir_np(&actions_, folder.c_str());
    posix_spawnattr_init(&attributes_);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes_, &none);    // the server blocks signals in all its threads
    posix_spawnattr_setsigdefault(&attributes_, &all);  // and ignores SIGPIPE
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  Spawn(const Spawn&) = delete;
  ~Spawn() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }

  // 0, or errno.
  int start(const std::vector<std::string>& words, const std::vector<std::string>& environment, ::pid_t& pid) const {
    return ::posix_spawn(&pid, words.front().c_str(), &actions_, &attributes_, pointers(words).data(),
                         pointers(environment).data());
  }

 private:
  static std::vector<char*> pointers(const std::vector<std::string>& texts) {
    std::vector<char*> all;
    for (const std::string& text : texts) all.push_back(const_cast<char*>(text.c_str()));
    all.push_back(nullptr);
    return all;
  }

  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

// A running program, which leads its process group. Its end kills and reaps it.
class Running {
 public:
  explicit Running(::pid_t pid) : pid_(pid) {}
  Running(const Running&) = delete;
  ~Running() { finish(); }

  // Leaves it a zombie, so that its number still means this group.
  bool has_ended() const {
    siginfo_t info{};
    return ::waitid(P_PID, static_cast<::id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid_;
  }
  // Kills what is left of the group. Returns the status as of waitpid.
  int finish() {
    if (pid_ <= 0) return status_;
    ::kill(-pid_, SIGKILL);
    while (::waitpid(pid_, &status_, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return status_;
  }

 private:
  ::pid_t pid_;
  int status_ = 0;
};

// Reads what is there. Keeps the end of it.
void drain(int pipe, std::string& said) {
  char buffer[4096];
  for (;;) {
    const ::ssize_t got = ::read(pipe, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    said.append(buffer, static_cast<std::size_t>(got));
    if (said.size() > 2 * kMostSaid) said.erase(0, said.size() - kMostSaid);
    if (static_cast<std::size_t>(got) < sizeof buffer) break;
  }
  if (said.size() > kMostSaid) said.erase(0, said.size() - kMostSaid);
}

// Returns when the program has ended, or why it must.
End watch(const Running& program, int pipe, const fs::path& folder, const CommandLimits& limits,
          const std::atomic<bool>& stop, std::string& said) {
  const auto until = SteadyClock::now() + limits.time;
  auto look_at = SteadyClock::now();
  bool open = true;
  for (;;) {
    ::pollfd wait{pipe, POLLIN, 0};
    if (::poll(&wait, open ? 1 : 0, kLookMs) > 0) {
      drain(pipe, said);
      open = (wait.revents & POLLIN) != 0;
    }
    if (program.has_ended()) return End::exited;
    const auto now = SteadyClock::now();
    if (stop) return End::stopped;
    if (now >= until) return End::timed_out;
    if (now < look_at) continue;
    look_at = now + std::chrono::milliseconds(kLookMs);
    const FolderContents there = contents_of(folder);
    if (there.bytes > limits.bytes || there.entries > limits.entries) return End::too_large;
  }
}

}  // namespace

FolderContents contents_of(const fs::path& folder) {
  FolderContents found;
  std::error_code failed;
  auto each = fs::recursive_directory_iterator(folder, failed);
  for (; !failed && each != fs::recursive_directory_iterator(); each.increment(failed)) {
    ++found.entries;
    std::error_code gone;
    const fs::file_status status = each->symlink_status(gone);
    if (gone || fs::is_directory(status)) continue;
    if (fs::is_symlink(status)) {
      found.other = "a symbolic link";
    } else if (!fs::is_regular_file(status)) {
      found.other = "a special file";
    } else {
      const std::uintmax_t bytes = each->file_size(gone), names = each->hard_link_count(gone);
      if (gone) continue;
      found.bytes += bytes;
      if (names > 1) found.other = "a hard link";
    }
  }
  if (failed) found.other = "a folder that cannot be read";
  return found;
}

CommandResult run_command(const std::vector<std::string>& words, const std::vector<std::string>& environment,
                          const fs::path& folder, const CommandLimits& limits, const std::atomic<bool>& stop) {
  CommandResult result;
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    result.status = errno;
    return result;
  }
  const Descriptor reader(ends[0]);
  Descriptor writer(ends[1]);
  ::fcntl(reader.get(), F_SETFL, O_NONBLOCK);  // its end alone: the program's output blocks
  ::pid_t pid = -1;
  result.status = Spawn(folder, writer.get()).start(words, environment, pid);
  if (result.status != 0) return result;
  writer.reset();
  Running program(pid);
  result.end = watch(program, reader.get(), folder, limits, stop, result.said);
  const int status = program.finish();
  drain(reader.get(), result.said);
  result.said = tenon::printable(result.said, kMostSaid);
  if (result.end != End::exited) return result;
  if (WIFSIGNALED(status)) {
    result.end = End::signalled;
    result.status = WTERMSIG(status);
  } else {
    result.status = WEXITSTATUS(status);
  }
  return result;
}

}  // namespace serve
