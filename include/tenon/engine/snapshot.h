// Snapshots: a running request as data, with which another engine or process goes on (docs/service.md).
#pragma once
#include <string>

#include "tenon/core/request.h"
#include "tenon/engine/progress.h"
#include "tenon/io/json_fwd.h"

namespace tenon {

class Fields;  // io/fields.h

/// A running request as data: what was asked, and what is computed. The cache is left out: the engine that goes on
/// reads the prompt and the tokens so far as one prompt.
struct Snapshot {
  static constexpr int kFormat = 1;  ///< of the JSON object; another number is refused

  /// The prompt is in input_ids. The constraint is its source alone; it has neither lease nor code.
  Request request;
  AnswerProgress progress;
};

/// The snapshot as a JSON object. It holds the user's text, as tokens. Log-probabilities and logits are the bits of
/// their float32, as integers, and a deadline is in milliseconds since 1970.
Json to_json(const Snapshot& snapshot);

/// The progress alone, likewise, for a server that makes the request again from its own text.
Json to_json(const AnswerProgress& progress);
AnswerProgress progress_from(const Fields& fields);

/// Reads such an object. Error invalid_request, with the field's name, for a field that is missing, unknown, of another
/// type or out of range.
Snapshot snapshot_from(const Json& json);

/// The request that goes on with the snapshot, for Engine::submit and Service::submit. An engine with another
/// fingerprint, or with adapters of other contents, refuses it by name. Error invalid_request, `constraint`, where the
/// snapshot has one and `make` is empty; errors of `make`.
Request request_of(const Snapshot& snapshot, const ConstraintMaker& make = {});

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/engine/snapshot-inl.h"
#endif
