// The id, time and seed of one answer, and the event after which a client has it continued.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "serve/api/resume/stream_id.h"

namespace serve {

struct AnswerIdentity {
  std::string id;                          // that the client is told; empty: the API tells none
  std::int64_t created = 0;                // seconds since 1970
  std::uint64_t seed = 0;                  // where the request gives none
  std::optional<SentStreamId> after = {};  // the answer goes on after this event; not checked yet
};

}  // namespace serve
