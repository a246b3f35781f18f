#include "serve/fetch/adapter_fetcher.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "output.h"
#include "serve/fetch/command.h"
#include "serve/text.h"
#include "tenon/io/file.h"

namespace serve {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using tenon::Error;
using Why = FetchError::Why;

constexpr std::size_t kMostEntries = 1000;  // files and folders of one adapter
constexpr auto kRemembered = 2s;            // as AdapterOptions::remember_failures
constexpr auto kWantedLook = 50ms;          // interval at which a waiting request looks whether its client is there
constexpr const char* kPartial = ".partial-";

[[noreturn]] void refuse_folder(const fs::path& folder, const std::string& what) {
  throw Error(Error::Kind::io, "--adapter-fetch-folder", folder.string() + " " + what);
}

std::string megabytes(std::uint64_t bytes) { return std::to_string((bytes + 500'000) / 1'000'000) + " MB"; }

// Names of folders have '+' for '/', which no name holds.
std::string swapped(std::string text, char from, char to) {
  std::replace(text.begin(), text.end(), from, to);
  return text;
}

// Environment of the command: three variables of the server's own, and what the command fetches.
std::vector<std::string> environment_for(const AdapterReference& name) {
  std::vector<std::string> all;
  for (const char* const variable : {"PATH", "HOME", "LANG"})
    if (const char* const value = std::getenv(variable)) all.push_back(std::string(variable) + "=" + value);
  all.push_back("TENON_ADAPTER_SOURCE=" + name.source);
  all.push_back("TENON_ADAPTER_REVISION=" + name.revision);
  return all;
}

// Removes a folder of any modes that a command may have left. False where something is left.
bool remove_folder(const fs::path& folder) {
  std::error_code failed;
  fs::remove_all(folder, failed);
  if (!failed) return true;
  // Entries of a folder without write permission cannot be removed.
  fs::permissions(folder, fs::perms::owner_all, failed);
  for (auto each = fs::recursive_directory_iterator(folder, failed); !failed && each != fs::end(each);
       each.increment(failed))
    if (fs::is_directory(each->symlink_status(failed)))
      fs::permissions(each->path(), fs::perms::owner_all, fs::perm_options::add, failed);
  fs::remove_all(folder, failed);
  return !failed;
}

// A folder that is removed unless it was renamed.
struct PartialFolder {
  fs::path path;
  explicit PartialFolder(const fs::path& parent) {
    std::string pattern = (parent / (std::string(kPartial) + "XXXXXX")).string();
    if (::mkdtemp(pattern.data()) != nullptr) path = pattern;
  }
  PartialFolder(const PartialFolder&) = delete;
  ~PartialFolder() {
    if (!path.empty()) remove_folder(path);
  }
};

}  // namespace

AdapterFetcher::AdapterFetcher(FetchOptions options) : options_(std::move(options)) {
  const fs::path& folder = options_.folder;
  std::error_code failed;
  if (!fs::is_directory(folder, failed)) {
    if (!fs::create_directories(folder, failed)) refuse_folder(folder, "cannot be made");
    fs::permissions(folder, fs::perms::owner_all, failed);
  }
  lock_file_ = ::open((folder / ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (lock_file_ < 0) refuse_folder(folder, "cannot be written to");
  if (::flock(lock_file_, LOCK_EX | LOCK_NB) != 0) {
    ::close(lock_file_);
    refuse_folder(folder, "is in use by another server");
  }
  std::vector<fs::path> unfinished;
  for (auto each = fs::directory_iterator(folder, failed); !failed && each != fs::directory_iterator();
       each.increment(failed)) {
    const std::string name = each->path().filename().string();
    if (name.starts_with(kPartial)) unfinished.push_back(each->path());
    const std::string key = swapped(name, '+', '/');
    const auto reference = adapter_reference(key);
    std::error_code gone;
    if (!reference || !reference->remote() || !fs::is_directory(each->symlink_status(gone))) continue;
    const std::uint64_t bytes = contents_of(each->path()).bytes;
    there_.emplace(key, bytes);
    total_ += bytes;
  }
  for (const fs::path& each : unfinished) remove_folder(each);
}

AdapterFetcher::~AdapterFetcher() {
  if (lock_file_ >= 0) ::close(lock_file_);
}

fs::path AdapterFetcher::path_of(const std::string& name) const { return options_.folder / swapped(name, '/', '+'); }

bool AdapterFetcher::has(const AdapterReference& name) const {
  std::lock_guard lock(mutex_);
  return there_.contains(name.text());
}

std::vector<std::string> AdapterFetcher::list() const {
  std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [name, bytes] : there_) names.push_back(name);
  return names;
}

bool AdapterFetcher::forget(const AdapterReference& name) {
  const std::string key = name.text();
  std::lock_guard lock(mutex_);
  failures_.erase(key);
  const auto found = there_.find(key);
  if (found == there_.end()) return false;
  if (!remove_folder(path_of(key))) return false;
  total_ -= found->second;
  there_.erase(found);
  return true;
}

void AdapterFetcher::stop() {
  stopping_ = true;
  ended_.notify_all();
}

void AdapterFetcher::remember(const std::string& name, const FetchError& error) {
  const tenon::TimePoint now = tenon::Clock::now();
  std::erase_if(failures_, [&](const auto& each) { return each.second.until <= now; });
  failures_.insert_or_assign(name, Failure{error, now + kRemembered});
}

fs::path AdapterFetcher::folder(const AdapterReference& name, const std::function<bool()>& wanted) {
  const std::string key = name.text();
  std::unique_lock lock(mutex_);
  for (;;) {
    if (there_.contains(key)) return path_of(key);
    if (stopping_) throw FetchError(Why::stopped, name, "cannot be fetched: the server is going down");
    if (const auto found = failures_.find(key); found != failures_.end() && tenon::Clock::now() < found->second.until)
      throw FetchError(found->second.error);
    // A command needs room for the largest adapter. Where less is left, it waits until it is the only one.
    const bool has_room = running_.empty() || left_bytes() >= options_.bytes;
    if (!running_.contains(key) && running_.size() < static_cast<std::size_t>(options_.at_once) && has_room) break;
    if (waiting_ >= options_.waiting)
      throw FetchError(Why::busy, name, "cannot be fetched now: too many requests wait for adapters already");
    ++waiting_;
    ended_.wait_for(lock, kWantedLook);
    --waiting_;
    if (wanted && !wanted()) throw FetchError(Why::stopped, name, "is no longer wanted");
  }
  const std::uint64_t room = std::min(options_.bytes, left_bytes());
  running_.insert(key);
  total_ += room;
  lock.unlock();
  std::optional<FetchError> failure;
  std::uint64_t bytes = 0;
  try {
    bytes = fetch(name, room);
  } catch (const FetchError& error) {
    failure.emplace(error);
  } catch (const std::exception&) {  // no memory
    failure.emplace(Why::failed, name, "could not be fetched: out of memory");
  }
  lock.lock();
  running_.erase(key);
  total_ -= room - bytes;
  ended_.notify_all();
  if (failure) {
    if (failure->why() != Why::stopped) remember(key, *failure);
    throw FetchError(*failure);
  }
  there_[key] = bytes;
  return path_of(key);
}

std::uint64_t AdapterFetcher::fetch(const AdapterReference& name, std::uint64_t room) {
  const auto fail = [&](const char* what) -> void {
    throw FetchError(Why::failed, name, std::string("could not be fetched: the folder of fetched adapters ") + what);
  };
  if (room == 0) fail("is full; unload some");
  const PartialFolder partial(options_.folder);
  if (partial.path.empty()) fail("cannot be written to");
  const auto begin = tenon::Clock::now();
  const std::uint64_t bytes = run(name, partial.path, room);
  std::error_code failed;
  const fs::path folder = path_of(name.text());
  remove_folder(folder);
  fs::rename(partial.path, folder, failed);
  if (failed) fail("cannot be written to");
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(tenon::Clock::now() - begin);
  program::say("adapter " + name.text() + " was fetched: " + megabytes(bytes) + " in " + std::to_string(took.count()) +
               " ms");
  return bytes;
}

// Runs the command in the folder. Returns the bytes that it wrote.
std::uint64_t AdapterFetcher::run(const AdapterReference& name, const fs::path& folder, std::uint64_t room) {
  std::vector<std::string> words = options_.command;
  words.insert(words.end(), {"--", name.id});
  const CommandLimits limits{.time = options_.timeout, .bytes = room, .entries = kMostEntries};
  const CommandResult result = run_command(words, environment_for(name), folder, limits, stopping_);
  const auto fail = [&](const std::string& what, Why why = Why::failed) -> void {
    program::say("adapter " + name.text() + " was not fetched: " + what +
                 (result.said.empty() ? "" : "; the command said: " + result.said));
    throw FetchError(why, name, "could not be fetched: " + what);
  };
  using Ended = CommandResult::End;
  std::string too_much = "it is larger than " + megabytes(options_.bytes) + " or " + std::to_string(kMostEntries) +
                         " files, the limits of this server";
  if (room < options_.bytes) too_much += "; or the folder of fetched adapters is full: unload some";
  if (result.end == Ended::not_started) fail("the command cannot be started");
  if (result.end == Ended::signalled) fail("the command was ended by signal " + std::to_string(result.status));
  if (result.end == Ended::timed_out) fail("the command took too long", Why::timed_out);
  if (result.end == Ended::too_large) fail(too_much);
  if (result.end == Ended::stopped) fail("the server is going down", Why::stopped);
  if (result.status != 0) fail("the command ended with status " + std::to_string(result.status));
  const FolderContents there = contents_of(folder);
  if (there.bytes > room || there.entries > kMostEntries) fail(too_much);
  if (!there.other.empty()) fail("the command wrote " + there.other);
  std::error_code failed;
  if (!fs::is_regular_file(folder / "adapter_config.json", failed)) fail("the command wrote no adapter_config.json");
  return there.bytes;
}

std::vector<std::string> command_words(const std::string& line, const std::string& path) {
  const auto refuse = [](const std::string& what) -> void {
    throw Error(Error::Kind::invalid_request, "--adapter-fetch", what);
  };
  if (line.find_first_of("'\"\\`$|&;<>(){}*?~#!\n\r\t") != line.npos)
    refuse(
        "no shell reads the command: it is split at spaces and has none of ' \" \\ ` $ | & ; < > ( ) { } * ? ~ # !; "
        "put what needs them into a script");
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin < line.size();) {
    const std::size_t end = std::min(line.find(' ', begin), line.size());
    if (end > begin) words.push_back(line.substr(begin, end - begin));
    begin = end + 1;
  }
  if (words.empty()) refuse("names no program");
  const auto runs = [](const fs::path& file) {
    std::error_code failed;
    return fs::is_regular_file(file, failed) && ::access(file.c_str(), X_OK) == 0;
  };
  const std::string program = words.front();
  if (program.find('/') != program.npos) {
    if (!runs(program)) refuse(program + " is no program that can be run");
    words.front() = fs::absolute(program).string();
    return words;
  }
  for (std::size_t begin = 0; begin < path.size();) {
    const std::size_t end = std::min(path.find(':', begin), path.size());
    const fs::path file = fs::path(path.substr(begin, end - begin)) / program;
    if (file.is_absolute() && runs(file)) {
      words.front() = file.string();
      return words;
    }
    begin = end + 1;
  }
  refuse(program + " is no program in PATH");
  return {};
}

}  // namespace serve
