// Answers as OpenAI's completions and chat completions write them.
#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "serve/api/writer.h"
#include "serve/chat.h"
#include "tenon/tokenizer/stream_decoder.h"

namespace serve {

class OpenAiWriter final : public Writer {
 public:
  struct Terms {
    bool chat = false;
    std::string id, model;     // as the client is told them
    std::int64_t created = 0;  // seconds since 1970
    std::string fingerprint = {};
    std::vector<std::vector<tenon::TokenId>> prompts = {};
    bool echo = false;                     // the prompt stands before its answers, in logprobs, too
    std::vector<std::string> echoes = {};  // by prompt, what stands before the answers; empty: nothing
    int n = 1;                             // answers to each prompt
    bool stream = false, include_usage = false;
    bool continuous_usage = false;  // with include_usage: in each chunk, of its choice
    bool logprobs = false;
    int alternatives = 0;                     // to each token of an echoed prompt
    std::optional<int> prompt_logprobs = {};  // alternatives to each token of a prompt, in vLLM's form; none: not asked
    bool return_token_ids = false;            // in vLLM's form
    bool tells_prediction = false;            // in the usage: how much of `prediction` was right
    bool skip_special = true;                 // special tokens add nothing to the text
    std::vector<tenon::TokenId> ends = {};    // that end an answer, and are no part of it
    std::optional<AnswerStyle> style = {};    // of a chat's answer; none: it is all text
    bool shows_reasoning = true;
  };

  // The tokenizer must outlive it.
  OpenAiWriter(Terms terms, const tenon::Tokenizer& tokenizer);

  void take(const tenon::Event& event) override;
  bool complete() const override { return open_ == 0; }
  Usage usage() const override;
  std::string whole() const override;
  std::string streamed() override { return std::exchange(streamed_, {}); }
  bool has_streamed() const override { return !streamed_.empty(); }
  std::string end_of_stream() override;
  std::string failure(const ApiError& error) override { return sse(body(error, Dialect::openai)) + kDone; }

 private:
  static constexpr const char* kDone = "data: [DONE]\n\n";

  // A token and what else might have stood in its place.
  struct Listed {
    tenon::TokenId id;
    std::string text;
    std::size_t offset;  // in characters, of the answer's text
    float logprob;
    std::vector<tenon::TokenLogprob> top;
  };

  struct Choice {
    explicit Choice(const tenon::Tokenizer& tokenizer) : decoder(tokenizer) {}
    std::optional<AnswerReader> reader;     // without it all text is content
    AnswerMessage message;                  // with it
    std::vector<AnswerPart> parts;          // in a stream: read since the last chunk
    tenon::StreamDecoder decoder;           // without stop strings: of tokens
    std::size_t decoded = 0, released = 0;  // characters
    std::string text;                       // released
    std::deque<Listed> waiting;             // tokens of whose text nothing is released yet
    std::vector<Listed> listed;
    int tokens = 0;
    tenon::GuessCounts guesses;
    std::vector<tenon::TokenId> ids;  // where asked for; in a stream those since the last chunk
    const char* reason = nullptr;     // null: still being written
    std::string unsent;               // in a stream: released since the last chunk,
    std::size_t unsent_from = 0;      // with the tokens listed from here on
    bool begun = false;
    bool held = false;  // in a stream: until the scores of the prompt come
    std::shared_ptr<const tenon::Scores> scores;
    std::shared_ptr<const tenon::Receipt> receipt;  // null: not asked for
  };

  void list(Choice& choice, const tenon::Event& event);
  void release(Choice& choice, const std::string& text, bool ended);
  void read(Choice& choice, const std::string& text, bool ended);
  std::string next_call_id();
  void stream_choice(int index);
  void stream_held(int first);
  void stream_parts(int index, const tenon::OrderedJson& logprobs);
  tenon::OrderedJson delta_of(const Choice& choice, const AnswerPart& part) const;
  // `ids`: the choice's tokens since the last chunk that told them go with it.
  void stream_part(int index, tenon::OrderedJson part, const char* reason, tenon::OrderedJson logprobs,
                   bool ids = false);
  bool is_end(tenon::TokenId token) const;

  tenon::OrderedJson head(const char* object) const;
  tenon::OrderedJson listed_of(int index, std::size_t from, bool with_prompt) const;
  tenon::OrderedJson logprobs_of(const Choice& choice, std::size_t from, std::size_t echoed) const;
  tenon::OrderedJson prompt_and_listed(int index) const;
  tenon::OrderedJson prompt_logprobs(int index) const;
  const std::vector<tenon::TokenId>& prompt_of(int index) const {
    return terms_.prompts[static_cast<std::size_t>(index / terms_.n)];
  }
  bool lists_prompt() const { return terms_.logprobs && terms_.echo; }
  const std::shared_ptr<const tenon::Scores>& found_scores(int index) const;
  const tenon::Scores& scores_of(int index) const;
  tenon::OrderedJson usage_json() const;
  tenon::OrderedJson usage_so_far(int index, int tokens) const;
  const std::string& echo_of(int index) const { return terms_.echoes[static_cast<std::size_t>(index / terms_.n)]; }

  const Terms terms_;
  const tenon::Tokenizer& tokenizer_;
  std::vector<Choice> choices_;
  std::size_t open_;
  std::uint32_t calls_ = 0;  // of functions, in all choices
  std::string streamed_;
};

}  // namespace serve
