// prepare(): the one function that checks a request and reads its prompt, before an engine takes it.
#pragma once
#include <cstddef>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tenon/core/error.h"
#include "tenon/core/request.h"
#include "tenon/engine/row_pool.h"
#include "tenon/model/config.h"
#include "tenon/schedule/sequence.h"
#include "tenon/tokenizer/bpe.h"

namespace tenon {

/// The facts that a request is checked against. They never change while an engine lives.
struct AdmissionLimits {
  const ModelConfig& config;
  const Tokenizer* tokenizer = nullptr;                ///< null: requests bring tokens
  int cache_tokens = std::numeric_limits<int>::max();  ///< that one sequence can hold
  std::shared_ptr<const void> engine = {};             ///< identifies the engine (PreparedRequest::is_for)
};

/// A request that an engine accepts: options in range, the prompt as tokens, every limit of the model kept.
/// Only prepare() makes one.
class PreparedRequest {
 public:
  /// The prompt: [1..positions] ids, all within the vocabulary.
  const std::vector<TokenId>& tokens() const { return request_.input_ids; }
  const Options& options() const { return request_.options; }
  const std::vector<AdapterUse>& adapters() const { return request_.adapters; }
  const Constraint* constraint() const { return request_.constraint.get(); }  ///< null: any tokens
  const AnyLogitsProcessor& logits_processor() const { return request_.logits_processor; }
  /// Request::begun; null: nothing.
  const std::shared_ptr<const AnswerProgress>& begun() const { return request_.begun; }
  bool repeats_begun() const { return request_.repeats_begun; }
  /// Error invalid_request, `fingerprint`, where begun() is of another engine.
  void check_begun(const std::string& fingerprint) const;
  /// The request without its prompt, its prediction and its code.
  Request data() const;
  /// The field that cannot be written as JSON, because it is code or no UTF-8; empty: all can.
  std::string unmovable_field() const;
  /// Request::prediction; null: none.
  const std::shared_ptr<const std::vector<TokenId>>& prediction() const { return prediction_; }
  /// DraftState::group.
  std::string guess_group() const;

  /// The lease of adapters(). Empty: Engine::enqueue takes one.
  const AdapterLease& lease() const { return request_.lease; }
  /// Error invalid_request, `adapters`, where begun() has adapters of other contents.
  void set_lease(AdapterLease lease);

  /// Chooses the classification head: that of the lease, else `head`, the model's own (null: it has none). Call it
  /// after set_lease(). Error invalid_request for a classification without a head, for text by an adapter that
  /// classifies, and for text or a classification by an adapter for embeddings (AdapterLease::task).
  void set_head(std::shared_ptr<const ClassifierHead> head);

  /// Begins the receipt that Options::receipt asks for. Call it after set_lease(). fingerprint:
  /// Engine::full_fingerprint().
  void begin_receipt(const std::string& fingerprint);
  /// The receipt as far as it is known before the first token; null: none is asked for.
  const std::shared_ptr<const Receipt>& receipt() const { return receipt_; }

  /// The rows that the request pools, with the head of set_head().
  RowPool pool() const { return pool_; }

  /// Whether it was checked against the limits of this engine (AdmissionLimits::engine).
  bool is_for(const std::shared_ptr<const void>& engine) const { return engine_ == engine; }

  /// Sequences that write it: `n` of them, or `best_of`.
  int sequences() const;

  /// The sequence that writes choice `choice`, under lease(). parent: the sequence of choice 0.
  NewSequence sequence(RequestId id, int choice, SeqId parent) const;

 private:
  friend PreparedRequest prepare(Request request, const AdmissionLimits& limits);

  explicit PreparedRequest(Request request) : request_(std::move(request)) {}

  // Names what keys and values depend on beside the tokens: the salt, the prompt's length if positions depend on it,
  // and adapters that act from the first token on.
  std::string cache_identity() const;

  Request request_;  // without text: input_ids holds the prompt
  bool positions_depend_on_prompt_ = false;
  // First position where the lease's adapters act: 0, or for an activated LoRA its last invocation in the prompt. None
  // if that is not invoked.
  std::optional<int> adapters_from_ = 0;
  std::optional<TokenId> pad_;  // ModelConfig::pad
  std::shared_ptr<const std::vector<TokenId>> prediction_;
  RowPool pool_;
  std::shared_ptr<const Receipt> receipt_;
  std::shared_ptr<const void> engine_;  // shared, so that no other engine gets the address
};

/// Checks a request and reads its prompt. A function of its arguments: from any thread.
/// Error invalid_request, unsupported or capacity, with the field's name, where the request could never be answered.
PreparedRequest prepare(Request request, const AdmissionLimits& limits);

/// The tokens of a prompt, with the begin of text that the model expects. parse_special: as Request::parse_special.
/// Error invalid_request, field `prompt`, where the text is empty or cannot fit into `positions` (0: no bound).
std::vector<TokenId> prompt_tokens(const std::string& text, const Tokenizer& tokenizer, int positions = 0,
                                   bool parse_special = false);

/// Refuses a text that cannot fit into `positions` (0: no bound) before it is tokenised. Error invalid_request,
/// `field`.
void check_length_of_text(const std::string& text, const Tokenizer& tokenizer, int positions,
                          const char* field = "prompt");

/// Takes the lease of a request's adapters, where it has none. For callers that step the engine themselves, and so
/// cannot wait. False: the adapters in use leave no room, and others run whose end will make some.
template <class E>
bool take_lease(E& engine, Request& request, bool others_run) {
  if (request.lease.set) return true;
  try {
    request.lease = engine.lease(request.adapters);
  } catch (const Error& error) {
    if (error.kind() == Error::Kind::overloaded && others_run) return false;
    throw;
  }
  return true;
}

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/engine/prepared_request-inl.h"
#endif
