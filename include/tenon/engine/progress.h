// The progress of an answer, for another engine that goes on with it.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tenon/core/request.h"
#include "tenon/core/views.h"
#include "tenon/io/sha256.h"

namespace tenon {

/// One choice of an answer, as far as it is computed. Its text and the state of its constraint follow from its tokens.
struct ChoiceProgress {
  std::vector<TokenId> ids = {};
  std::vector<float> logprobs = {};  ///< [ids] if the request asks for them, or for best_of answers
  std::vector<std::vector<TokenLogprob>> top_logprobs = {};  ///< [ids] likewise
  std::uint64_t logits_hash = 0;                             ///< over the rows of ids, if Options::logits_hash
  std::vector<Sha256::Digest> chain = {};                    ///< [ids] links of the receipt, if Options::receipt
};

/// An answer, as far as it is computed. Its prompt is read again where it goes on, and so are the scores of the prompt.
struct AnswerProgress {
  std::string fingerprint = {};               ///< of the engine, long; any other one is refused
  std::vector<std::string> digests = {};      ///< of the adapters (AdapterLease::digests); others are refused
  std::vector<ChoiceProgress> choices = {};   ///< all of them, in their order: Options::n, or best_of
  std::shared_ptr<const Scores> scores = {};  ///< of the prompt, if choice 0 has ended and the request asks for them
};

}  // namespace tenon
