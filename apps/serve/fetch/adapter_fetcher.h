// Adapters from elsewhere, fetched by a command of the operator into a folder of the server's own.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "serve/fetch/adapter_reference.h"
#include "tenon/core/error.h"
#include "tenon/core/request.h"

namespace serve {

struct FetchOptions {
  std::vector<std::string> command;  // an absolute path and its arguments; empty: nothing is fetched
  std::filesystem::path folder;      // below it each adapter has a folder
  std::chrono::milliseconds timeout{300'000};
  std::uint64_t bytes = std::uint64_t{1} << 30;         // limit of one adapter
  std::uint64_t total_bytes = std::uint64_t{16} << 30;  // limit of all that the folder holds
  int at_once = 4;                                      // commands that run at one time
  int waiting = 32;                                     // requests that wait for them, at most
};

// Why an adapter could not be fetched. It names the adapter, and no path of the host.
class FetchError : public tenon::Error {
 public:
  enum class Why { failed, timed_out, busy, stopped };

  FetchError(Why why, const AdapterReference& name, const std::string& what)
      : tenon::Error(why == Why::failed ? Kind::invalid_file : Kind::overloaded, "adapter " + name.text(), what),
        why_(why) {}
  Why why() const { return why_; }

 private:
  Why why_;
};

// Any thread.
class AdapterFetcher {
 public:
  // Takes the folder for this process and removes what was left unfinished in it. tenon::Error io if it cannot be made
  // or another process has it.
  explicit AdapterFetcher(FetchOptions options);
  AdapterFetcher(const AdapterFetcher&) = delete;
  ~AdapterFetcher();

  // The folder of the adapter. Runs the command if it is not there yet, once however many ask for it at the same time.
  // The command runs on, for the others, if the first that asked is no longer `wanted`; others then stop waiting.
  // FetchError. A failure is remembered for 2 s.
  std::filesystem::path folder(const AdapterReference& name, const std::function<bool()>& wanted = {});

  bool has(const AdapterReference& name) const;
  std::vector<std::string> list() const;  // the names of all that are there
  // Removes it, so that the next request fetches it again. False if it is not there, or cannot be removed.
  bool forget(const AdapterReference& name);
  // Ends running commands, and lets none begin.
  void stop();

 private:
  struct Failure {
    FetchError error;
    tenon::TimePoint until;
  };

  std::filesystem::path path_of(const std::string& name) const;
  // Returns the bytes of the adapter. `room`: bytes that it may have.
  std::uint64_t fetch(const AdapterReference& name, std::uint64_t room);
  std::uint64_t run(const AdapterReference& name, const std::filesystem::path& folder, std::uint64_t room);
  // Bytes that the folder may still take. Call it with the mutex.
  std::uint64_t left_bytes() const { return options_.total_bytes > total_ ? options_.total_bytes - total_ : 0; }
  void remember(const std::string& name, const FetchError& error);

  const FetchOptions options_;
  int lock_file_ = -1;
  std::atomic<bool> stopping_{false};
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable ended_;
  std::map<std::string, std::uint64_t> there_;  // name -> bytes
  std::uint64_t total_ = 0;                     // bytes of there_, and those reserved for running commands
  std::set<std::string> running_;
  std::map<std::string, Failure> failures_;
  int waiting_ = 0;
};

// The words of a command line, split at spaces. tenon::Error invalid_request if it holds a character that only a shell
// understands, or the program is not found. The first word becomes an absolute path; `path` is the value of PATH.
std::vector<std::string> command_words(const std::string& line, const std::string& path);

}  // namespace serve
