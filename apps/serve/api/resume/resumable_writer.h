// Gives each event of a stream an id, and leaves out those that the client has.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "serve/api/resume/stream_id.h"
#include "serve/api/writer.h"

namespace serve {

// The events of the writer below must depend on the tokens alone, and not on the time at which they come.
class ResumableWriter final : public Writer {
 public:
  // `begin`: of the stream. `after`: the last event that the client has; none: it has no event. is_checked: it was
  // found to be of this stream.
  ResumableWriter(std::unique_ptr<Writer> writer, StreamSeal seal, StreamPlace begin, std::optional<SentStreamId> after,
                  bool is_checked = false)
      : writer_(std::move(writer)),
        seal_(std::move(seal)),
        after_(std::move(after)),
        is_checked_(is_checked),
        next_(std::move(begin)) {}

  // Call it before the first event, with digests of the contents of the request's adapters; empty: it names none.
  // ApiError where they are not those with which the stream began.
  void bind_adapters(const std::string& digests);

  void take(const tenon::Event& event) override;
  bool complete() const override { return writer_->complete(); }
  Usage usage() const override { return writer_->usage(); }
  std::string whole() const override { return writer_->whole(); }
  std::string streamed() override { return std::exchange(streamed_, {}); }
  bool has_streamed() const override { return !streamed_.empty(); }
  std::string end_of_stream() override;
  // It has no id: it is no part of the answer.
  std::string failure(const ApiError& error) override { return writer_->failure(error); }

 private:
  void add(std::string_view events);

  const std::unique_ptr<Writer> writer_;
  StreamSeal seal_;
  const std::optional<SentStreamId> after_;
  const bool is_checked_;
  StreamPlace next_;
  std::string streamed_;
};

}  // namespace serve
