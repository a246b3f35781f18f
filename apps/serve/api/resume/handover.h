// Hand-over: a server that ends writes its running streams to a folder, and a new one goes on with them.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_set>

#include "serve/api/answer.h"
#include "serve/api/resume/answer_identity.h"
#include "serve/api/resume/handed_stream.h"
#include "serve/http/message.h"

namespace serve {

struct Asked;
class Model;
class Serving;
struct Caller;

// A stream that runs here for a client.
struct RunningStream {
  HandedStream stream;  // without its progress
  tenon::RequestId request = 0;
  std::atomic<bool> has_sent{false};  // the client may have an event, and so can continue
  // The hand-over's mutex guards these.
  bool is_listed = false;       // a hand-over decides on it
  bool is_settled = false;      // the hand-over has decided
  bool is_handed_over = false;  // it was written
};

// A stream that was taken up and waits for its client. It runs meanwhile.
struct ParkedStream {
  HandedStream stream;  // as it was taken up
  Answer answer;        // all events from the first on
};

// Any thread. Without a folder it does nothing.
class Handover {
 public:
  // Makes of a body what its route makes of it.
  using Make = std::function<Asked(Model& model, const HttpRequest& request, const AnswerIdentity& identity)>;

  // tenon::Error io where the folder is none, or others may write to it.
  Handover(std::filesystem::path folder, std::chrono::milliseconds timeout);
  ~Handover();
  Handover(const Handover&) = delete;
  Handover& operator=(const Handover&) = delete;

  bool is_on() const { return !folder_.empty(); }
  void add_route(const std::string& path, Make make);  // before the first request

  // ---- streams of clients
  // has_sent: the client has an event of it from before. ApiError unavailable once streams are being handed over.
  std::shared_ptr<RunningStream> enter(HandedStream stream, tenon::RequestId request, bool has_sent);
  // Waits as wait_settled() where a hand-over has begun, and returns the same.
  bool leave(const std::shared_ptr<RunningStream>& running);
  // After the end that says `moved`. True: another server finds the stream. False: it was not written.
  bool wait_settled(const RunningStream& running);

  // ---- streams that were handed over
  // Takes up all that the folder has; messages say how many, and why not.
  void take_up_all(Serving& serving, Model& model);
  // The one with this answer's id, from memory or from the folder; null: there is none.
  std::shared_ptr<ParkedStream> find(Serving& serving, Model& model, const std::string& answer);
  // Gives it to one client. False: another one has it.
  bool claim(const std::shared_ptr<ParkedStream>& parked);
  // The client was refused after all: it may come again.
  void give_back(std::shared_ptr<ParkedStream> parked);
  // The client left before it had anything new: it may come again, and finds the stream in the folder. `request`: the
  // one that computes it. False where it cannot be written.
  bool put_back(Service& service, const HandedStream& stream, tenon::RequestId request);

  // ---- the end
  // Ends all running streams, and writes those that a client can continue. Returns their number. Once a stream cannot
  // be written, the streams that are left run on.
  std::size_t hand_over(Service& service);
  // Writes streams back whose clients have not come.
  std::size_t hand_back(Service& service);

 private:
  // From the file, which is removed. Null where it cannot be taken up: a message says why, and the file stays.
  std::shared_ptr<ParkedStream> take_up(Serving& serving, Model& model, const std::filesystem::path& file);
  std::shared_ptr<ParkedStream> start(Model& model, HandedStream stream, const Caller& caller);
  bool write(HandedStream stream);
  bool take_out(Service& service, RunningStream& running);
  void settle(RunningStream& running) noexcept;
  std::filesystem::path file_of(const std::string& answer) const { return folder_ / (answer + ".stream"); }
  void sweep();

  const std::filesystem::path folder_;
  const std::chrono::milliseconds timeout_;
  std::map<std::string, Make> makes_;  // by route
  std::mutex mutex_;                   // guards what follows
  std::condition_variable changed_;
  std::unordered_set<std::shared_ptr<RunningStream>> running_;
  std::map<std::string, std::shared_ptr<ParkedStream>> parked_;  // by the answer's id
  bool is_closed_ = false;                                       // nothing new is entered or parked
  bool is_ending_ = false;
  std::thread sweeper_;  // drops what is too old
};

}  // namespace serve
