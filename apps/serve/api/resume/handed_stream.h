// A running stream as data, for the process that takes it up.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "serve/api/resume/stream_id.h"
#include "tenon/engine/progress.h"

namespace serve {

// A stream as data: the client's request, with its text, and the progress of the answer.
struct HandedStream {
  StreamPlace begin = {};  // of the stream; no event
  std::string route = {}, body = {};
  bool receipt = false;                    // asked for by a header
  std::string owner = {};                  // the name of the API key; empty: there are no keys
  int client = 0;                          // number of the client's address, where there are no keys
  std::string fingerprint = {};            // of the model, short
  int event_form = 0;                      // kEventForm of the server that began it
  std::vector<std::string> versions = {};  // of the servers that wrote ids of it
  std::int64_t until = 0;                  // seconds since 1970; no server takes it up later
  tenon::AnswerProgress progress = {};
};

// One line of JSON.
std::string text_of(const HandedStream& stream);
// tenon::Error invalid_file where it is none.
HandedStream handed_stream_from(const std::string& text);

}  // namespace serve
