// Answers as OpenAI's Responses API writes them.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "serve/api/openai/responses_request.h"
#include "serve/api/writer.h"
#include "serve/chat.h"

namespace serve {

class ResponsesWriter final : public Writer {
 public:
  struct Terms {
    std::string id, model;     // as the client is told them
    std::int64_t created = 0;  // seconds since 1970
    int prompt_tokens = 0;
    bool stream = false;
    bool shows_reasoning = true;
    AnswerStyle style = {};
    ResponsesRequest request;  // that the answer repeats
  };

  explicit ResponsesWriter(Terms terms);

  void take(const tenon::Event& event) override;
  bool complete() const override { return status_ != nullptr; }
  Usage usage() const override { return {terms_.prompt_tokens, tokens_}; }
  std::string whole() const override { return one_line(response()); }
  std::string streamed() override { return std::exchange(streamed_, {}); }
  bool has_streamed() const override { return !streamed_.empty(); }
  std::string end_of_stream() override { return {}; }
  std::string failure(const ApiError& error) override;

 private:
  // An element of `output`: a message, a call, or reasoning.
  struct Item {
    AnswerPart::Kind kind;  // text, call or reasoning
    std::string id, text;   // call: the arguments
    std::string name, call_id;
    bool done = false;
  };

  void read(const AnswerPart& part);
  void begin(const AnswerPart& part);
  void end_item();
  tenon::OrderedJson item_json(const Item& item) const;
  tenon::OrderedJson part_json(const Item& item) const;
  tenon::OrderedJson response() const;
  void send(const char* type, tenon::OrderedJson members);
  tenon::OrderedJson place() const;  // of the last item, in events about its text

  const Terms terms_;
  AnswerReader reader_;
  std::vector<Item> items_;
  int tokens_ = 0, reasoning_tokens_ = 0, sequence_ = 0;
  const char* status_ = nullptr;  // null: being written
  bool cuts_call_ = false;        // the answer ended within its last call
  bool failed_ = false;
  std::string error_, streamed_;
};

}  // namespace serve
