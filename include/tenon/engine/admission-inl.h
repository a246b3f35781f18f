#pragma once
#include <algorithm>
#include <limits>

#include "tenon/core/require.h"
#include "tenon/engine/admission.h"

namespace tenon {

TENON_INLINE void check_length_of_text(const std::string& text, const Tokenizer& tokenizer, int positions,
                                       const char* field) {
  const auto most = tokenizer.most_bytes_a_token();
  if (positions <= 0 || !most || *most == 0) return;
  const std::size_t fewest = (text.size() + *most - 1) / *most;
  if (fewest <= static_cast<std::size_t>(positions)) return;
  throw Error(Error::Kind::invalid_request, field,
              std::to_string(text.size()) + " bytes are at least " + std::to_string(fewest) + " tokens; at most " +
                  std::to_string(positions) + " are possible");
}

TENON_INLINE std::vector<TokenId> prompt_tokens(const Request& request, const Tokenizer* tokenizer, int positions) {
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

TENON_INLINE std::string cache_identity(const Options& o, const ModelConfig& config, std::size_t prompt,
                                        const std::string& adapters) {
  std::string identity = o.cache_salt.empty() ? std::string{} : "salt " + o.cache_salt;
  if (RotaryFrequencies::depends_on_prompt(config.rotary, prompt))
    identity = std::to_string(prompt) + " positions " + identity;
  if (!adapters.empty()) identity = "adapters " + adapters + " " + identity;
  return identity;
}

TENON_INLINE int reuse_limit(const Options& o) {
  int limit = o.nll || o.prompt_logprobs >= 0 ? 0 : std::numeric_limits<int>::max();
  for (const int position : o.logits_at) limit = std::min(limit, position);
  return limit;
}

TENON_INLINE void check_constraint(const Request& request, const ModelConfig& config) {
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

TENON_INLINE void check_against_model(const Options& o, const std::vector<TokenId>& tokens, const ModelConfig& config,
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
