#include "serve/api/resume/handover.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "output.h"
#include "serve/api/exchange.h"
#include "serve/api/resume/resume.h"
#include "serve/api/route_table.h"
#include "serve/serving.h"
#include "serve/text.h"
#include "serve/threads.h"
#include "tenon/core/error.h"
#include "tenon/io/file.h"
#include "tenon/io/new_file.h"

namespace serve {
namespace {

using namespace std::chrono_literals;
using tenon::Error;

constexpr const char* kStreamEnding = ".stream";
constexpr const char* kPartEnding = ".part";  // of files that are being written or taken up, as of tenon::NewFile
constexpr std::uint64_t kLargestFile = 1ULL << 30;
constexpr auto kSweep = 10s;

void check_folder(const std::filesystem::path& folder) {
  struct stat found {};
  const auto refuse = [&](const char* why) { throw Error(Error::Kind::io, "--handover " + folder.string(), why); };
  if (::stat(folder.c_str(), &found) != 0 || !S_ISDIR(found.st_mode))
    refuse("is no folder; make it with: mkdir -m 700");
  if (found.st_uid != ::geteuid() && found.st_uid != 0) refuse("belongs to another user; take a folder of your own");
  if ((found.st_mode & (S_IWGRP | S_IWOTH)) != 0) refuse("may be written to by others; close it with: chmod 700");
}

// The files of a folder whose names are wanted, in the order of the names: folders list files in any order.
template <class Wanted>
std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder, const Wanted& wanted) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    if (wanted(entry.path().filename())) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

bool is_stream(const std::filesystem::path& name) { return name.extension() == kStreamEnding; }
// A part that a killed server has not removed.
bool is_stream_part(const std::filesystem::path& name) {
  return name.extension() == kPartEnding && is_stream(name.stem().stem());
}

// It was written too long ago to be taken up. This holds even where the file names a later time.
bool is_old(const std::filesystem::path& file, std::chrono::milliseconds timeout) {
  std::error_code error;
  const auto written = std::filesystem::last_write_time(file, error);
  return !error && written + timeout < std::filesystem::file_time_type::clock::now();
}

// The caller who asked for the stream. ApiError where its key is gone, or may not write text any more.
Caller caller_of(Serving& serving, const HandedStream& stream) {
  if (stream.owner.empty()) {
    if (serving.keys.required()) throw ApiError(ApiError::Kind::unauthorized, "its client had no API key");
    return {stream.client};
  }
  auto tenant = serving.keys.named(stream.owner);
  if (!tenant || !tenant->may(find_route("POST", stream.route).roles))
    throw ApiError(ApiError::Kind::unauthorized, "its API key is not valid any more");
  return {tenant->client(), tenant};
}

}  // namespace

Handover::Handover(std::filesystem::path folder, std::chrono::milliseconds timeout)
    : folder_(std::move(folder)), timeout_(timeout) {
  if (!is_on()) return;
  check_folder(folder_);
  sweeper_ = begin_thread("drops old hand-overs", [this] { sweep(); });
}

Handover::~Handover() {
  {
    std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  if (sweeper_.joinable()) sweeper_.join();
}

void Handover::add_route(const std::string& path, Make make) { makes_[path] = std::move(make); }

// ---- streams of clients

std::shared_ptr<RunningStream> Handover::enter(HandedStream stream, tenon::RequestId request, bool has_sent) {
  auto running = std::make_shared<RunningStream>();
  running->stream = std::move(stream);
  running->request = request;
  running->has_sent = has_sent;
  std::lock_guard lock(mutex_);
  if (is_closed_) throw ApiError(ApiError::Kind::unavailable, "the server is going down");
  running_.insert(running);
  return running;
}

bool Handover::leave(const std::shared_ptr<RunningStream>& running) {
  std::unique_lock lock(mutex_);
  running_.erase(running);
  changed_.wait(lock, [&] { return !running->is_listed || running->is_settled; });
  return running->is_handed_over;
}

bool Handover::wait_settled(const RunningStream& running) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return running.is_settled; });
  return running.is_handed_over;
}

// ---- streams that were handed over

void Handover::take_up_all(Serving& serving, Model& model) {
  if (!is_on()) return;
  std::size_t taken = 0;
  for (const std::filesystem::path& file : files_in(folder_, is_stream))
    taken += take_up(serving, model, file) != nullptr;
  if (taken > 0) program::say("took up " + std::to_string(taken) + " streams that were handed over");
}

std::shared_ptr<ParkedStream> Handover::find(Serving& serving, Model& model, const std::string& answer) {
  if (!is_on()) return nullptr;
  {
    std::lock_guard lock(mutex_);
    const auto found = parked_.find(answer);
    if (found != parked_.end()) return found->second;
  }
  std::error_code error;
  const std::filesystem::path file = file_of(answer);
  return std::filesystem::exists(file, error) ? take_up(serving, model, file) : nullptr;
}

bool Handover::claim(const std::shared_ptr<ParkedStream>& parked) {
  std::lock_guard lock(mutex_);
  const auto found = parked_.find(parked->stream.begin.answer);
  if (found == parked_.end() || found->second != parked) return false;
  parked_.erase(found);
  return true;
}

void Handover::give_back(std::shared_ptr<ParkedStream> parked) {
  {
    std::lock_guard lock(mutex_);
    if (!is_closed_) {
      parked_[parked->stream.begin.answer] = parked;
      return;
    }
  }
  write(std::move(parked->stream));
}

// If several servers try to rename the file, one of them can: it takes the stream up.
std::shared_ptr<ParkedStream> Handover::take_up(Serving& serving, Model& model, const std::filesystem::path& file) try {
  HandedStream stream = handed_stream_from(tenon::read_text_file(file, kLargestFile));
  if (is_old(file, timeout_) || stream.until < seconds_now()) {
    std::filesystem::remove(file);
    return nullptr;
  }
  if (file_of(stream.begin.answer).filename() != file.filename())
    throw Error(Error::Kind::invalid_file, "answer", "is not that of the file's name");
  check_engine(stream, model);
  const Caller caller = caller_of(serving, stream);
  const std::filesystem::path own = file.string() + "." + std::to_string(::getpid()) + kPartEnding;
  std::error_code error;
  std::filesystem::rename(file, own, error);
  if (error) return nullptr;
  std::shared_ptr<ParkedStream> parked;
  try {
    parked = start(model, std::move(stream), caller);
  } catch (...) {
    std::filesystem::rename(own, file, error);
    throw;
  }
  std::filesystem::remove(own, error);
  give_back(parked);
  return parked;
} catch (const std::exception& error) {
  program::say("not taken up: " + tenon::file_name_of(file) + ": " + shown(error.what()) +
               "; the file stays until its time is over, and its client has the answer computed again here");
  return nullptr;
}

// As Exchange does it for a client.
std::shared_ptr<ParkedStream> Handover::start(Model& model, HandedStream stream, const Caller& caller) {
  const auto make = makes_.find(stream.route);
  if (make == makes_.end()) throw Error(Error::Kind::invalid_file, "route", "is none of this server");
  HttpRequest request;
  request.method = "POST";
  request.path = request.route = stream.route;
  request.body = stream.body;
  if (stream.receipt) request.headers.emplace_back("x-tenon-receipt", "1");
  const AnswerIdentity identity{.id = stream.begin.answer, .created = stream.begin.created, .seed = stream.begin.seed};
  Asked asked = make->second(model, request, identity);
  if (!asked.resumable || asked.requests.size() != 1)
    throw Error(Error::Kind::invalid_file, "body", "asks for no resumable stream");
  tenon::Request made = std::move(asked.requests.front());
  for (const tenon::AdapterUse& use : made.adapters)
    if (!model.adapters().is_known(use.name)) throw unknown_adapter(use.name);
  made.options.client = caller.client;
  made.begun = std::make_shared<const tenon::AnswerProgress>(stream.progress);
  made.repeats_begun = true;
  Answer answer(model.service());
  const Settings& settings = model.settings();
  answer.submit(std::move(made), {.timeout = settings.request_timeout, .adapter_wait = settings.adapter_wait});
  return std::shared_ptr<ParkedStream>(new ParkedStream{std::move(stream), std::move(answer)});
}

// ---- the end

bool Handover::write(HandedStream stream) try {
  stream.until = std::min(stream.begin.expires,
                          seconds_now() + std::chrono::duration_cast<std::chrono::seconds>(timeout_).count());
  const std::string text = text_of(stream);
  tenon::NewFile file(file_of(stream.begin.answer), 0600);
  file.write_at(0, std::as_bytes(std::span(text)));
  file.publish();
  return true;
} catch (const std::exception& error) {
  program::say(std::string("a stream was not handed over: ") + error.what());
  return false;
}

// Ends the stream, and writes it if its client has an event: a client that has none asks again. False where it cannot
// be written. One that has ended by now needs nothing.
bool Handover::take_out(Service& service, RunningStream& running) try {
  HandedStream stream = running.stream;
  try {
    stream.progress = service.take_progress(running.request);
  } catch (const Error&) {
    return true;
  }
  if (!running.has_sent) return true;
  if (!write(std::move(stream))) return false;
  std::lock_guard lock(mutex_);
  running.is_handed_over = true;
  return true;
} catch (const std::exception&) {
  return false;
}

void Handover::settle(RunningStream& running) noexcept {
  {
    std::lock_guard lock(mutex_);
    running.is_settled = true;
  }
  changed_.notify_all();
}

std::size_t Handover::hand_over(Service& service) {
  std::vector<std::shared_ptr<RunningStream>> all;
  {
    std::lock_guard lock(mutex_);
    is_closed_ = true;
    all.assign(running_.begin(), running_.end());
    for (const auto& each : all) each->is_listed = true;
  }
  std::size_t written = 0;
  bool can_write = true;
  for (const auto& each : all) {
    can_write = can_write && take_out(service, *each);
    settle(*each);
    written += each->is_handed_over;
  }
  if (!can_write) program::say("streams that are left are finished here: the folder takes none");
  return written + hand_back(service);
}

// One that was computed to its end is written as it was taken up.
bool Handover::put_back(Service& service, const HandedStream& stream, tenon::RequestId request) try {
  HandedStream latest = stream;
  try {
    latest.progress = service.take_progress(request);
  } catch (const Error&) {
  }
  return write(std::move(latest));
} catch (const std::exception&) {
  return false;
}

std::size_t Handover::hand_back(Service& service) {
  std::map<std::string, std::shared_ptr<ParkedStream>> all;
  {
    std::lock_guard lock(mutex_);
    is_closed_ = true;
    all.swap(parked_);
  }
  std::size_t written = 0;
  for (const auto& [answer, each] : all) written += put_back(service, each->stream, each->answer.id());
  return written;
}

void Handover::sweep() {
  for (std::unique_lock lock(mutex_); !changed_.wait_for(lock, kSweep, [this] { return is_ending_; });) {
    std::vector<std::shared_ptr<ParkedStream>> dropped;  // they cancel their requests once the lock is released
    for (auto i = parked_.begin(); i != parked_.end();) {
      const bool is_late = i->second->stream.until < seconds_now();
      if (is_late) dropped.push_back(i->second);
      i = is_late ? parked_.erase(i) : std::next(i);
    }
    lock.unlock();
    dropped.clear();
    std::error_code ignored;
    const auto is_ours = [](const auto& name) { return is_stream(name) || is_stream_part(name); };
    for (const std::filesystem::path& file : files_in(folder_, is_ours))
      if (is_old(file, timeout_)) std::filesystem::remove(file, ignored);
    lock.lock();
  }
}

}  // namespace serve
