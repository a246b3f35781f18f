// From the events of an answer to what a client reads: one class for each API.
#pragma once
#include <algorithm>
#include <string>
#include <string_view>

#include "conversation/listed_tokens.h"
#include "serve/api/api_error.h"
#include "tenon/core/request.h"
#include "tenon/io/json.h"
#include "tenon/tokenizer/bpe.h"
#include "tenon/tokenizer/unicode.h"

namespace serve {

struct Usage {
  int prompt_tokens = 0, generated_tokens = 0;  // of all prompts; of all choices
};

class Writer {
 public:
  virtual ~Writer() = default;

  // An event of the answer. ApiError where the answer has failed, or was cut short.
  virtual void take(const tenon::Event& event) = 0;
  // Nothing else is wanted, though more may come: a stop string of LoRAX has ended it.
  virtual bool complete() const = 0;
  virtual Usage usage() const = 0;

  virtual std::string whole() const = 0;    // a body, once it is complete
  virtual std::string streamed() = 0;       // events of SSE for what was taken since the last call; may be empty
  virtual bool has_streamed() const = 0;    // whether there are any
  virtual std::string end_of_stream() = 0;  // what follows the last of them
  virtual const char* stream_type() const { return "text/event-stream"; }
  virtual std::string heartbeat() const { return ":\n\n"; }  // what a stream that has nothing to say says; may be empty
  virtual std::string failure(const ApiError& error) = 0;    // and what stands there instead, where it failed
};

// Code points of UTF-8.
inline std::size_t characters(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

// One event of server-sent events.
inline std::string sse(const std::string& data) { return "data: " + data + "\n\n"; }

// On one line; bytes that are no UTF-8 as U+FFFD.
inline std::string one_line(const tenon::OrderedJson& json) {
  return json.dump(-1, ' ', false, tenon::OrderedJson::error_handler_t::replace);
}

using program::finite_logprob;

// A token by itself; half a character is U+FFFD.
inline std::string text_of(const tenon::Tokenizer& tokenizer, tenon::TokenId id) {
  return tenon::sanitize_utf8(std::string(tokenizer.bytes(id)));
}

// What ended an answer that is no answer. Kind::finished with a reason that is none of a whole answer, or Kind::error.
inline void refuse_failed(const tenon::Event& event, Dialect dialect) {
  if (event.kind == tenon::Event::Kind::error) throw from(tenon::Error(event.error_kind, "", event.error), dialect);
  if (event.kind != tenon::Event::Kind::finished) return;
  if (event.reason == tenon::FinishReason::deadline)
    throw ApiError(ApiError::Kind::timeout, "the request took longer than the server allows");
  if (event.reason == tenon::FinishReason::moved)
    throw ApiError(ApiError::Kind::incomplete,
                   "the stream was handed over to another server: continue it by its Last-Event-ID");
  if (event.reason == tenon::FinishReason::cancelled)
    throw ApiError(ApiError::Kind::incomplete, "the answer was cut short: the server is going down");
}

}  // namespace serve
