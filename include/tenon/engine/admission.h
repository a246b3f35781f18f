// What a request must satisfy before an engine takes it. Refusals name the field.
#pragma once
#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "tenon/core/error.h"
#include "tenon/core/request.h"
#include "tenon/model/config.h"
#include "tenon/tokenizer/bpe.h"

namespace tenon {

// A text that cannot fit into `positions` (0: no bound) is refused before it costs anything, as `field`.
inline void check_length_of_text(const std::string& text, const Tokenizer& tokenizer, int positions,
                                 const char* field = "prompt") {
  const auto most = tokenizer.most_bytes_a_token();
  if (positions <= 0 || !most || *most == 0) return;
  const std::size_t fewest = (text.size() + *most - 1) / *most;
  if (fewest <= static_cast<std::size_t>(positions)) return;
  throw Error(Error::Kind::invalid_request, field,
              std::to_string(text.size()) + " bytes are at least " + std::to_string(fewest) + " tokens; at most " +
                  std::to_string(positions) + " are possible");
}

inline std::vector<TokenId> prompt_tokens(const Request& request, const Tokenizer* tokenizer, int positions = 0) {
  const auto refuse = [](const char* field, const char* what) {
    throw Error(Error::Kind::invalid_request, field, what);
  };
  if (!request.prompt.empty() && !request.input_ids.empty())
    refuse("input_ids", "given beside prompt; keep one of them");
  if (!request.input_ids.empty()) return request.input_ids;
  if (!tokenizer) refuse("prompt", "this model has no tokenizer; send input_ids");
  if (request.prompt.empty()) refuse("prompt", "must hold at least one token");  // a begin of text alone says nothing
  check_length_of_text(request.prompt, *tokenizer, positions);
  // With the begin of text that the model expects.
  return tokenizer->encode_prompt(request.prompt, request.parse_special);
}

// What a request's keys and values depend on beside its tokens: the user's salt, of which equal ones share prefixes,
// and the length of the prompt where positions stretch with it. adapters: AdapterLease::identity. What a user writes
// comes last, so that it can imitate nothing.
inline std::string cache_identity(const Options& o, const ModelConfig& config, std::size_t prompt,
                                  const std::string& adapters = {}) {
  std::string identity = o.cache_salt.empty() ? std::string{} : "salt " + o.cache_salt;
  if (RotaryFrequencies::depends_on_prompt(config.rotary, prompt))
    identity = std::to_string(prompt) + " positions " + identity;
  if (!adapters.empty()) identity = "adapters " + adapters + " " + identity;
  return identity;
}

// So many of a prompt's tokens may come from the cache without hiding logits that somebody asked for.
inline int reuse_limit(const Options& o) {
  int limit = o.nll || o.prompt_logprobs >= 0 ? 0 : std::numeric_limits<int>::max();
  for (const int position : o.logits_at) limit = std::min(limit, position);
  return limit;
}

inline void check_constraint(const Request& request, const ModelConfig& config) {
  const bool finishes = request.options.finish_within_budget;
  detail::require(!finishes || (request.constraint && request.constraint->counts_tokens()), "finish_within_budget",
                  "needs a constraint that can tell");
  if (!request.constraint) return;
  detail::require(request.options.min_new_tokens == 0, "min_new_tokens",
                  "cannot be combined with a constraint: that says when a text ends");
  if (request.constraint->vocab() != config.vocab) {
    throw Error(Error::Kind::invalid_request, "constraint",
                "is for " + std::to_string(request.constraint->vocab()) + " logits; the model has " +
                    std::to_string(config.vocab));
  }
}

// Takes the lease of a request's adapters, where it has none. False where the adapters in use leave no room and others
// run, whose end will make some: for callers that step the engine themselves, and so cannot wait.
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

// Ranges that depend on the model: ids within its vocabulary, positions within its table.
inline void check_against_model(const Options& o, const std::vector<TokenId>& tokens, const ModelConfig& config,
                                bool has_tokenizer) {
  const auto refuse = [](const char* field, const std::string& what) {
    throw Error(Error::Kind::invalid_request, field, what);
  };
  const auto check_id = [&](const char* field, TokenId id) {
    if (id >= 0 && id < config.vocab) return;
    refuse(field, "token " + std::to_string(id) + " is outside the vocabulary of " + std::to_string(config.vocab));
  };
  for (const TokenId id : tokens) check_id("input_ids", id);
  for (const TokenId id : o.stop_ids) check_id("stop_ids", id);
  for (const auto& bias : o.logit_bias) check_id("logit_bias", bias.first);
  const auto check_alternatives = [&](const char* field, int alternatives) {
    if (alternatives > config.vocab) refuse(field, "must be at most the vocabulary of " + std::to_string(config.vocab));
  };
  check_alternatives("top_logprobs", o.top_logprobs);
  check_alternatives("prompt_logprobs", o.prompt_logprobs);
  if (!o.stop.empty() && !has_tokenizer) refuse("stop", "this model has no tokenizer to find stop strings with");
  for (const int position : o.logits_at) {
    if (position >= 0 && static_cast<std::size_t>(position) < tokens.size()) continue;
    refuse("logits_at", "position " + std::to_string(position) + " is outside the prompt of " +
                            std::to_string(tokens.size()) + " tokens");
  }
  const std::size_t positions = cache_tokens_of(tokens.size(), o.max_new_tokens);
  if (positions > static_cast<std::size_t>(config.positions)) {
    refuse("max_new_tokens", std::to_string(tokens.size()) + " prompt tokens and " + std::to_string(o.max_new_tokens) +
                                 " new ones need " + std::to_string(positions) + " positions; the model has " +
                                 std::to_string(config.positions));
  }
}

}  // namespace tenon
