// Answers as Ollama's /api/chat and /api/generate write them: one JSON object, or a line of JSON for each piece.
#pragma once
#include <string>
#include <utility>

#include "serve/api/writer.h"
#include "serve/chat.h"

namespace serve {

class OllamaWriter final : public Writer {
 public:
  struct Terms {
    std::string model;  // as the client is told it
    bool chat = false;  // a message; else a text
    int prompt_tokens = 0;
    bool stream = false;
    AnswerStyle style = {};
    bool loads = false;  // there is no answer: the model is in memory
    tenon::TimePoint arrived = tenon::Clock::now();
  };

  explicit OllamaWriter(Terms terms);

  void take(const tenon::Event& event) override;
  bool complete() const override { return reason_ != nullptr; }
  Usage usage() const override { return {terms_.prompt_tokens, tokens_}; }
  std::string whole() const override { return line(/*is_last=*/true); }
  std::string streamed() override { return std::exchange(streamed_, {}); }
  bool has_streamed() const override { return !streamed_.empty(); }
  std::string end_of_stream() override { return {}; }
  std::string failure(const ApiError& error) override { return body(error, Dialect::ollama) + "\n"; }
  const char* stream_type() const override { return "application/x-ndjson"; }
  std::string heartbeat() const override { return {}; }  // clients parse every line

 private:
  // What the answer has, in a stream since the last line.
  struct Piece {
    std::string text, thinking;
    tenon::OrderedJson calls = tenon::OrderedJson::array();
  };

  void read(const AnswerPart& part);
  void end_call();
  void send();
  std::string line(bool is_last) const;

  const Terms terms_;
  AnswerReader reader_;
  Piece piece_;
  std::string call_name_, call_arguments_;  // of the call that is being written; no name: none is
  int calls_ = 0;
  int tokens_ = 0;
  tenon::TimePoint started_{}, first_{}, last_{};  // the request, its first token, its last one
  const char* reason_ = nullptr;                   // null: being written
  std::string streamed_;
};

}  // namespace serve
