// Answers as Anthropic's Messages API writes them.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "serve/api/writer.h"
#include "serve/chat.h"

namespace serve {

class MessagesWriter final : public Writer {
 public:
  struct Terms {
    std::string id, model;  // as the client is told them
    int prompt_tokens = 0;
    bool stream = false;
    bool shows_reasoning = true;
    AnswerStyle style = {};
    // Texts that end the answer: the client's stop sequences, then those of the template. The request must have
    // Options::include_stop, so that the text tells which of them came.
    std::vector<std::string> stops = {};
    std::size_t client_stops = 0;
    bool keeps_stop = false;                // the text of the stop is a part of the answer
    std::vector<tenon::TokenId> ends = {};  // tokens that end an answer; no stop ends one of them
  };

  explicit MessagesWriter(Terms terms);

  void take(const tenon::Event& event) override;
  bool complete() const override { return reason_ != nullptr; }
  Usage usage() const override { return {terms_.prompt_tokens, tokens_}; }
  std::string whole() const override;
  std::string streamed() override { return std::exchange(streamed_, {}); }
  bool has_streamed() const override { return !streamed_.empty(); }
  std::string end_of_stream() override { return {}; }
  std::string failure(const ApiError& error) override;

 private:
  struct Block {
    AnswerPart::Kind kind;       // text, call or reasoning
    std::string text, name, id;  // call: the arguments
  };

  std::string without_stop(std::string text);
  const char* reason_of(const tenon::Event& event) const;
  void read(const AnswerPart& part);
  void begin(const AnswerPart& part);
  void end_block();
  tenon::OrderedJson block_json(const Block& block) const;
  tenon::OrderedJson message(bool begins) const;
  tenon::OrderedJson stop_json() const;
  void send(const char* type, tenon::OrderedJson members);

  const Terms terms_;
  AnswerReader reader_;
  std::vector<Block> blocks_;
  bool open_ = false;  // the last block is being written
  int tokens_ = 0;
  const char* reason_ = nullptr;               // null: being written
  std::optional<std::string> stop_ = {};       // the client's stop sequence that ended the answer
  std::optional<std::string> last_text_ = {};  // of the final token, until the event of the end
  bool stop_may_end_ = false;                  // the final token is none of Terms::ends
  std::string streamed_;
};

}  // namespace serve
