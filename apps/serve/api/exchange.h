// One request of a client for text, from its arrival to the last byte of its answer: what it took, and how it ended.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "serve/api/admission.h"
#include "serve/api/answer.h"
#include "serve/api/gate.h"
#include "serve/api/resume/handover.h"
#include "serve/api/writer.h"
#include "serve/http/message.h"
#include "serve/serving.h"
#include "signature/receipt_key.h"
#include "tenon/core/request.h"

namespace serve {

// What a route has made of a body.
struct Asked {
  std::unique_ptr<Writer> writer = {};
  std::vector<tenon::Request> requests = {};  // one a prompt; none: the writer has the answer
  bool stream = false;
  bool resumable = false;     // the stream can be continued after a cut
  bool is_continued = false;  // the client has events of it from before
  // How the answer's text is taken apart into reasoning, text and calls: for ids of streams. Empty: it is all text.
  std::string reading = {};
  std::shared_ptr<const program::ReceiptKey> receipt_key = {};  // signs receipts; null: they are not signed
  // Called when the request has the lease of its adapters, before it is submitted. ApiError refuses it. None: the
  // service takes the lease.
  std::function<void(const tenon::Request&)> on_lease = {};
  std::optional<HandedStream> handed = {};    // what a hand-over needs of it; none: it is not handed over
  std::shared_ptr<ParkedStream> parked = {};  // a stream that was taken up, with which it goes on; null: none
  std::string adapter;                        // empty: none
  int max_new_tokens = 0;
  std::size_t characters = 0;               // of the input
  std::vector<std::string> ignored = {};    // unknown fields that a lenient server left out
  std::string warnings = {};                // a header: a JSON list of what the answer's form does not enforce
  std::optional<Gate::Ticket> listed = {};  // for the log-probabilities that it may hold
};

// One thread: that of the connection.
class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(Serving& serving, const HttpRequest& request, std::string id);
  ~Exchange();  // counts and logs it

  // Takes a place among those that are served, and a request of the key's minute. ApiError where there is none, or
  // nothing is served now.
  Model& enter(Caller caller);

  // Answers, or has the answer streamed once its first token is there: what fails before has a status of its own.
  // ApiError.
  void serve(Asked asked, HttpResponse& response);
  void failed(const ApiError& error) { error_ = error; }
  // Writes the rest of the key's minute into headers.
  void tell_rates(HttpResponse& response) const;

 private:
  struct Times {
    tenon::TimePoint arrived, submitted, started, first, last;
  };

  void count(const Usage& usage) const;
  void log(const Usage& usage) const;

  void fetch_adapters(HttpResponse& response);
  void take_work();
  void settle_tokens(const Usage& usage);
  void submit(HttpResponse& response);
  void follow(tenon::RequestId request);
  void lease_adapters(tenon::Request& request, tenon::SubmitOptions& options);
  void refuse_another_wait(const Settings& settings) const;
  void check_moved();
  bool take(tenon::Clock::duration patience, Answer::Wish wish = {});
  void note(const tenon::Event& event);
  void answer_whole(HttpResponse& response);
  void answer_at_once(HttpResponse& response);
  void answer_stream(HttpResponse& response);
  bool write_more(HttpSink& sink);
  void settle() noexcept;
  bool client_has_left();
  [[noreturn]] void drop(HttpResponse& response);
  void cancel();
  bool can_come_again() const;
  std::string next_text();
  void add_headers(HttpResponse& response, bool whole) const;

  Serving& serving_;
  Model* model_ = nullptr;
  Caller caller_;
  std::int64_t tokens_taken_ = 0;  // of the key's minute, and not settled
  std::optional<Admission::Ticket> ticket_;
  const std::string route_, id_;
  const std::optional<TraceContext> trace_;
  const std::shared_ptr<const HttpPeer> peer_;
  Asked asked_;
  std::optional<Answer> answer_;
  std::shared_ptr<RunningStream> running_;  // null: it is not handed over
  Times times_{};
  tenon::TimePoint written_{};  // when the stream last said something
  tenon::TimePoint sent_{};     // when its last tokens were taken
  tenon::TimePoint looked_{};   // when somebody last looked whether the client is there
  tenon::FinishReason reason_ = tenon::FinishReason::error;
  std::optional<ApiError> error_;
  bool entered_ = false, dropped_ = false;
  bool has_written_ = false;  // the client has got text of the stream
};

}  // namespace serve
