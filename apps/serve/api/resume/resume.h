// Streams that go on after a cut, on any server with the same engine, settings and key: docs/server.md.
#pragma once
#include <cstdint>
#include <string>

#include "serve/api/exchange.h"
#include "serve/api/resume/answer_identity.h"
#include "serve/http/message.h"
#include "serve/model.h"

namespace serve {

// That of the stream which the header Last-Event-ID names, or else a new one. `prefix`: of the answer's id. A header
// that is no id gives a new one, with the refusal for make_resumable().
AnswerIdentity identity_of(const HttpRequest& request, const std::string& prefix);

// Gives the events of a resumable stream their ids, and has it begin after the event that the client has. Other answers
// stay as they are. Call it when the options of the request are final. ApiError where the stream cannot be resumable,
// or cannot be continued.
void make_resumable(Asked& asked, const AnswerIdentity& identity, const HttpRequest& request, const Caller& caller,
                    Model& model, Serving& serving);

// ApiError other_engine where the stream was begun by another engine, or by a server with other forms of events.
void check_engine(const HandedStream& stream, const Model& model);

}  // namespace serve
