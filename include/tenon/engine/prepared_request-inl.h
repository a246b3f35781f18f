#pragma once
#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>

#include "tenon/core/require.h"
#include "tenon/engine/prepared_request.h"
#include "tenon/engine/progress.h"
#include "tenon/engine/receipt.h"
#include "tenon/io/file.h"
#include "tenon/io/sha256.h"
#include "tenon/tokenizer/unicode.h"

namespace tenon {

namespace detail {

[[noreturn]] inline void refuse_field(const char* field, const std::string& what) {
  throw Error(Error::Kind::invalid_request, field, what);
}

TENON_INLINE std::vector<TokenId> tokens_of(Request& request, const AdmissionLimits& limits) {
  if (!request.prompt.empty() && !request.input_ids.empty())
    refuse_field("input_ids", "given beside prompt; keep one of them");
  if (!request.input_ids.empty()) return std::move(request.input_ids);
  if (!limits.tokenizer) refuse_field("prompt", "this model has no tokenizer; send input_ids");
  return prompt_tokens(request.prompt, *limits.tokenizer, limits.config.positions, request.parse_special);
}

TENON_INLINE void check_ids(const Request& request, int vocab) {
  const Options& o = request.options;
  const auto check = [&](const char* field, TokenId id) {
    if (id >= 0 && id < vocab) return;
    refuse_field(field, "token " + std::to_string(id) + " is outside the vocabulary of " + std::to_string(vocab));
  };
  for (const TokenId id : request.input_ids) check("input_ids", id);
  for (const TokenId id : request.prediction) check("prediction", id);
  for (const TokenId id : o.stop_ids) check("stop_ids", id);
  for (const auto& bias : o.logit_bias) check("logit_bias", bias.first);
  const auto check_alternatives = [&](const char* field, int alternatives) {
    if (alternatives > vocab) refuse_field(field, "must be at most the vocabulary of " + std::to_string(vocab));
  };
  check_alternatives("top_logprobs", o.top_logprobs);
  check_alternatives("prompt_logprobs", o.prompt_logprobs);
}

// Takes the prediction out of the request, without tokens that no answer can reach. Null: there is none.
TENON_INLINE std::shared_ptr<const std::vector<TokenId>> prediction_of(Request& request, int positions) {
  std::vector<TokenId> prediction = std::exchange(request.prediction, {});
  if (positions > 0 && prediction.size() > static_cast<std::size_t>(positions))
    prediction.resize(static_cast<std::size_t>(positions));
  return prediction.empty() ? nullptr : std::make_shared<const std::vector<TokenId>>(std::move(prediction));
}

TENON_INLINE void check_positions(const Options& o, std::size_t prompt, const AdmissionLimits& limits) {
  for (const int position : o.logits_at) {
    if (position >= 0 && static_cast<std::size_t>(position) < prompt) continue;
    refuse_field("logits_at", "position " + std::to_string(position) + " is outside the prompt of " +
                                  std::to_string(prompt) + " tokens");
  }
  const std::size_t positions = cache_tokens_of(prompt, o.max_new_tokens);
  if (positions > static_cast<std::size_t>(limits.config.positions)) {
    refuse_field("max_new_tokens", std::to_string(prompt) + " prompt tokens and " + std::to_string(o.max_new_tokens) +
                                       " new ones need " + std::to_string(positions) + " positions; the model has " +
                                       std::to_string(limits.config.positions));
  }
  check_cache_room(prompt, o.max_new_tokens, limits.cache_tokens);
}

TENON_INLINE void check_constraint(const Request& request, int vocab) {
  const bool finishes = request.options.finish_within_budget;
  require(!finishes || (request.constraint && request.constraint->counts_tokens()), "finish_within_budget",
          "needs a constraint that can tell");
  if (!request.constraint) return;
  require(request.options.min_new_tokens == 0, "min_new_tokens",
          "cannot be combined with a constraint: that says when a text ends");
  if (request.constraint->vocab() != vocab) {
    refuse_field("constraint", "is for " + std::to_string(request.constraint->vocab()) + " logits; the model has " +
                                   std::to_string(vocab));
  }
}

TENON_INLINE bool is_utf8(const std::string& text) { return sanitize_utf8(text) == text; }

// Progress from another engine must fit the request.
TENON_INLINE void check_begun(const Request& request, int vocab) {
  if (!request.begun) return;
  const Options& o = request.options;
  const auto check = [](bool holds, const char* needed) { require(holds, "begun", needed); };
  const auto known = [vocab](TokenId id) { return id >= 0 && id < vocab; };
  const auto all_known = [known](const std::vector<TokenLogprob>& list) {
    return std::all_of(list.begin(), list.end(), [known](const TokenLogprob& each) { return known(each.id); });
  };
  check(request.begun->choices.size() == static_cast<std::size_t>(std::max(o.n, o.best_of)),
        "must have all choices of the request");
  for (const ChoiceProgress& each : request.begun->choices) {
    const std::size_t ids = each.ids.size(), listed = o.top_logprobs >= 0 || o.best_of > o.n ? ids : 0;
    check(ids <= static_cast<std::size_t>(o.max_new_tokens), "has more tokens than max_new_tokens");
    check(std::all_of(each.ids.begin(), each.ids.end(), known) &&
              std::all_of(each.top_logprobs.begin(), each.top_logprobs.end(), all_known),
          "has a token outside the vocabulary");
    check(each.logprobs.size() == listed && each.top_logprobs.size() == listed,
          "must have log-probabilities of its tokens if the request asks for them or for best_of, and else none");
    check(each.chain.size() == (o.receipt ? ids : 0), "must have a link for each token if a receipt is asked for");
  }
  if (!request.begun->scores) return;
  const Scores& scores = *request.begun->scores;
  const auto prompt = static_cast<int>(request.input_ids.size());
  for (const auto& [position, row] : scores.logits)
    check(position >= 0 && position < prompt && row.size() == static_cast<std::size_t>(vocab),
          "has logits of a position outside the prompt, or of another vocabulary");
  for (const PromptLogprob& each : scores.prompt)
    check(known(each.token.id) && all_known(each.top),
          "has a token outside the vocabulary in its scores of the prompt");
  check(scores.prompt.size() < std::max<std::size_t>(1, request.input_ids.size()),
        "has scores of more tokens than the prompt has");
}

// A receipt holds all that decides the answer. It cannot hold code.
TENON_INLINE void check_receipt(const Request& request) {
  if (!request.options.receipt) return;
  require(!request.logits_processor, "receipt", "cannot be given beside a logits processor, because that is code");
  require(!request.constraint || !request.constraint_source.kind.empty(), "receipt",
          "cannot be given beside a constraint of which the request has no text (constraint_source)");
  require(is_utf8(request.constraint_source.text) &&
              std::all_of(request.options.stop.begin(), request.options.stop.end(), is_utf8),
          "receipt", "needs stop strings and constraints in UTF-8, because it is JSON");
}

// A checkpoint without a language head gives no text, and one without any classification head no classes.
TENON_INLINE void check_heads(const Request& request, const ModelConfig& config) {
  const Pooling pooling = request.options.pooling;
  require(pooling != Pooling::none || config.language_head, "model",
          "has no language head: it classifies or embeds, and gives no text, logits or log-probabilities");
  const bool may_have_head = !config.labels.empty() || !request.adapters.empty() || request.lease.set;
  require(pooling != Pooling::classify || may_have_head, "model",
          "has no classification head, and the request names no adapter with one");
}

// Prompt tokens that may come from the cache without hiding logits or rows that the request asks for.
TENON_INLINE int reuse_limit(const Options& o, const RowPool& pool) {
  if (pool.pools()) return pool.first();
  int limit = o.nll || o.prompt_logprobs >= 0 ? 0 : std::numeric_limits<int>::max();
  for (const int position : o.logits_at) limit = std::min(limit, position);
  return limit;
}

}  // namespace detail

TENON_INLINE PreparedRequest prepare(Request request, const AdmissionLimits& limits) {
  validate(request.options);
  request.input_ids = detail::tokens_of(request, limits);
  request.prompt = {};
  PreparedRequest prepared(std::move(request));
  const Options& o = prepared.options();
  detail::check_ids(prepared.request_, limits.config.vocab);
  if (!o.stop.empty() && !limits.tokenizer)
    detail::refuse_field("stop", "this model has no tokenizer to find stop strings with");
  detail::check_positions(o, prepared.tokens().size(), limits);
  detail::check_constraint(prepared.request_, limits.config.vocab);
  detail::check_heads(prepared.request_, limits.config);
  detail::check_begun(prepared.request_, limits.config.vocab);
  prepared.prediction_ = detail::prediction_of(prepared.request_, limits.config.positions);
  detail::check_receipt(prepared.request_);
  prepared.pad_ = limits.config.pad;
  prepared.positions_depend_on_prompt_ =
      RotaryFrequencies::depends_on_prompt(limits.config.rotary, prepared.tokens().size());
  prepared.engine_ = limits.engine;
  return prepared;
}

TENON_INLINE std::string PreparedRequest::guess_group() const {
  const Options& o = options();
  if (o.cache_salt.empty() || o.client < 0) return {};
  return Sha256().update(std::to_string(o.client) + ' ' + o.cache_salt).hex();  // a salt may be of any length
}

TENON_INLINE int PreparedRequest::sequences() const { return std::max(options().n, options().best_of); }

TENON_INLINE NewSequence PreparedRequest::sequence(RequestId id, int choice, SeqId parent) const {
  const Options& o = options();
  const std::optional<int>& from = adapters_from_;
  constexpr int kNoLimit = std::numeric_limits<int>::max();
  return {.request = id,
          .choice = choice,
          .tokens = tokens(),
          .generated = begun() ? begun()->choices[static_cast<std::size_t>(choice)].ids : std::vector<TokenId>(),
          .max_new_tokens = o.max_new_tokens,
          .arrival = Clock::now(),
          .adapter = lease().tenant,
          .priority = o.priority,
          .client = o.client,
          .ordinal = o.ordinal + choice,
          .tag = o.tag,
          .deadline = o.deadline,
          .identity = cache_identity(),
          .adapters = from ? lease().set : nullptr,
          .adapters_from = from.value_or(0),
          .share_limit = from.value_or(0) > 0 ? *from : kNoLimit,
          .reuse_limit = choice == 0 ? detail::reuse_limit(o, pool_) : kNoLimit,
          .parent = parent};
}

namespace detail {

// Where the last occurrence of `pattern` starts, by Knuth, Morris and Pratt: linear in both lengths. Nothing: it does
// not occur.
TENON_INLINE std::optional<int> last_occurrence(std::span<const TokenId> text, std::span<const TokenId> pattern) {
  std::vector<std::size_t> borders(pattern.size() + 1, 0);  // of each prefix: its longest proper prefix and suffix
  for (std::size_t i = 1, matched = 0; i < pattern.size(); ++i) {
    while (matched > 0 && pattern[i] != pattern[matched]) matched = borders[matched];
    matched += pattern[i] == pattern[matched] ? 1 : 0;
    borders[i + 1] = matched;
  }
  std::optional<int> last;
  for (std::size_t i = 0, matched = 0; i < text.size(); ++i) {
    while (matched > 0 && (matched == pattern.size() || text[i] != pattern[matched])) matched = borders[matched];
    matched += text[i] == pattern[matched] ? 1 : 0;
    if (matched == pattern.size()) last = static_cast<int>(i + 1 - matched);
  }
  return last;
}

}  // namespace detail

TENON_INLINE void PreparedRequest::set_head(std::shared_ptr<const ClassifierHead> head) {
  const Pooling pooling = options().pooling;
  detail::require(pooling != Pooling::none || !lease().head, "adapter",
                  "is a classifier (task_type SEQ_CLS): it gives classes or embeddings, and no text");
  detail::require(pooling == Pooling::last || pooling == Pooling::mean || lease().task != AdapterTask::embed, "adapter",
                  "is for embeddings (task_type FEATURE_EXTRACTION): it gives neither text nor classes");
  if (lease().head) head = lease().head;
  detail::require(pooling != Pooling::classify || head, "adapter",
                  "has no classification head, and neither has the model");
  pool_ = RowPool(pooling, tokens(), pad_, std::move(head));
}

TENON_INLINE void PreparedRequest::set_lease(AdapterLease lease) {
  detail::require(!begun() || lease.digests == begun()->digests, "adapters",
                  "have other contents than those that the answer began with");
  adapters_from_ = lease.invocation.empty() ? 0 : detail::last_occurrence(tokens(), lease.invocation);
  request_.lease = std::move(lease);
}

TENON_INLINE void PreparedRequest::check_begun(const std::string& fingerprint) const {
  if (!begun() || begun()->fingerprint == fingerprint) return;
  throw Error(Error::Kind::invalid_request, "fingerprint",
              "is " + printable(begun()->fingerprint, 80) + " of the engine that began the answer, and " + fingerprint +
                  " here: the rest could have other bits");
}

TENON_INLINE Request PreparedRequest::data() const {
  Request data;
  data.adapters = request_.adapters;
  if (constraint()) data.constraint_source = request_.constraint_source;
  data.options = request_.options;
  return data;
}

TENON_INLINE std::string PreparedRequest::unmovable_field() const {
  const auto all_utf8 = [](const auto& list, auto text_of) {
    return std::all_of(list.begin(), list.end(), [&](const auto& each) { return detail::is_utf8(text_of(each)); });
  };
  if (logits_processor()) return "logits_processor";
  const ConstraintSource& source = request_.constraint_source;
  if (constraint() && (source.kind.empty() || !detail::is_utf8(source.kind) || !detail::is_utf8(source.text)))
    return "constraint";
  if (!all_utf8(options().stop, [](const std::string& text) { return text; })) return "stop";
  if (!all_utf8(adapters(), [](const AdapterUse& use) { return use.name; })) return "adapters";
  return detail::is_utf8(options().cache_salt) ? "" : "cache_salt";
}

TENON_INLINE void PreparedRequest::begin_receipt(const std::string& fingerprint) {
  auto receipt = std::make_shared<Receipt>();
  receipt->fingerprint = fingerprint;
  receipt->prompt_ids = tokens();
  detail::require(adapters().size() == lease().digests.size(), "adapters", "are not those of the lease");
  for (std::size_t i = 0; i < adapters().size(); ++i)
    receipt->adapters.push_back({adapters()[i].name, lease().digests[i], adapters()[i].weight});
  if (constraint()) receipt->constraint = request_.constraint_source;
  receipt_ = std::move(receipt);
}

// The salt comes last: it is the user's text, and imitates nothing that stands before it.
TENON_INLINE std::string PreparedRequest::cache_identity() const {
  const Options& o = options();
  std::string identity = o.cache_salt.empty() ? std::string{} : "salt " + o.cache_salt;
  if (positions_depend_on_prompt_) identity = std::to_string(tokens().size()) + " positions " + identity;
  if (!lease().identity.empty() && adapters_from_ == 0) identity = "adapters " + lease().identity + " " + identity;
  return identity;
}

TENON_INLINE std::vector<TokenId> prompt_tokens(const std::string& text, const Tokenizer& tokenizer, int positions,
                                                bool parse_special) {
  detail::require(!text.empty(), "prompt", "must hold at least one token");  // a begin of text is no prompt
  check_length_of_text(text, tokenizer, positions);
  return tokenizer.encode_prompt(text, parse_special);
}

TENON_INLINE void check_length_of_text(const std::string& text, const Tokenizer& tokenizer, int positions,
                                       const char* field) {
  const auto most = tokenizer.most_bytes_a_token();
  if (positions <= 0 || !most || *most == 0) return;
  const std::size_t fewest = (text.size() + *most - 1) / *most;
  if (fewest <= static_cast<std::size_t>(positions)) return;
  detail::refuse_field(field, std::to_string(text.size()) + " bytes are at least " + std::to_string(fewest) +
                                  " tokens; at most " + std::to_string(positions) + " are possible");
}

}  // namespace tenon
