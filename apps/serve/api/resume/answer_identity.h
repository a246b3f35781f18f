// The id, time and seed of one answer, and the event after which a client has it continued.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "serve/api/api_error.h"
#include "serve/api/resume/stream_id.h"

namespace serve {

struct AnswerIdentity {
  std::string id;                          // APIs whose answers have none: a nonce, for ids of events alone
  std::int64_t created = 0;                // seconds since 1970
  std::uint64_t seed = 0;                  // where the request gives none
  std::optional<SentStreamId> after = {};  // the answer goes on after this event; not checked yet
  std::optional<ApiError> refusal = {};  // of a Last-Event-ID that is no id; only a resumable stream is refused for it
};

}  // namespace serve
