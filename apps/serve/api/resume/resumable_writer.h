// Gives each event of a stream an id, and leaves out those that the client has.
#pragma once
#include <cstdint>
#include <functional>
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
  struct Terms {
    StreamPlace place;                       // of the stream's begin
    std::optional<SentStreamId> after = {};  // the last event that the client has; none: it has no event
    std::function<std::string()> adapters;   // digests of those that the request names, once tokens have come
  };

  ResumableWriter(std::unique_ptr<Writer> writer, StreamSeal seal, Terms terms)
      : writer_(std::move(writer)), seal_(std::move(seal)), terms_(std::move(terms)), next_(terms_.place) {}

  // ApiError, too, where adapters have changed since the stream began. Nothing is written then.
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
  const Terms terms_;
  StreamPlace next_;
  bool sealed_ = false;
  std::string streamed_;
};

}  // namespace serve
