/// Requests, their options, and the events of their answers.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tenon/core/adapter_task.h"
#include "tenon/core/classifier_head.h"
#include "tenon/core/constraint.h"
#include "tenon/core/error.h"
#include "tenon/core/logits_processor.h"
#include "tenon/core/low_rank.h"
#include "tenon/core/views.h"

namespace tenon {

using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;

/// Results of a request beside text, from the rows of its prompt after the model's final norm. Sums are in double, in
/// the order of positions: the bits do not depend on the batch.
enum class Pooling : std::uint8_t {
  none,      ///< text or scores
  last,      ///< the row of the last token: Scores::embedding
  mean,      ///< the mean of the rows of all tokens: Scores::embedding
  classify,  ///< the head's products with the row of the rightmost token that is no padding: Scores::class_logits
};

/// Options of one request. Each has a default that means "not used". A field out of its range is refused by name
/// (validate, below).
struct Options {
  int max_new_tokens = 16;  ///< most new tokens; 0: only score the prompt
  int min_new_tokens =
      0;  ///< fewest new tokens: before, the end of text and stop_ids are banned, and stop strings not looked for
  float temperature = 0;         ///< 0 is greedy, with ties to the lowest id
  int top_k = 0;                 ///< keeps the k likeliest tokens; 0: all
  float top_p = 1;               ///< keeps the smallest set of likeliest tokens with this mass (Holtzman et al., 2020)
  float min_p = 0;               ///< drops tokens below min_p x the likeliest
  float typical_p = 1;           ///< locally typical sampling (Meister et al., 2023)
  float repetition_penalty = 1;  ///< divides positive, multiplies negative logits of seen tokens (Keskar et al., 2019)
  float presence_penalty = 0;    ///< subtracted once from the logits of tokens generated before
  float frequency_penalty = 0;   ///< subtracted for each time a token was generated before
  std::vector<std::pair<TokenId, float>> logit_bias = {};  ///< added to raw logits
  std::uint64_t seed = 0;                                  ///< the draw at a position depends on (seed, position) alone
  std::vector<std::string> stop = {};                      ///< texts that end the answer, left out of `text`
  bool include_stop = false;           ///< keeps the stop string that ends the answer at the end of `text`
  bool skip_special_tokens = false;    ///< special tokens add nothing to `text`, and stop strings do not see them
  std::vector<TokenId> stop_ids = {};  ///< tokens that end the answer, like the model's own end token
  bool ignore_eos = false;             ///< continues past the model's end token
  int top_logprobs = -1;              ///< 0 or more: log-probability of each new token, and this number of alternatives
  std::vector<int> logits_at = {};    ///< prompt positions whose raw logits are returned
  bool nll = false;                   ///< returns the mean negative log-likelihood of prompt tokens 1..n-1
  int prompt_logprobs = -1;           ///< 0 or more: the same as top_logprobs for prompt tokens 1..n-1
  Pooling pooling = Pooling::none;    ///< an embedding or class logits, not text: then max_new_tokens must be 0
  bool finish_within_budget = false;  ///< a constraint's text is brought to its end within max_new_tokens
  bool logits_hash = false;           ///< returns 64 bits over the raw logits of all new tokens, to verify the promise
  bool receipt = false;               ///< returns a Receipt, from which the answer can be computed again and compared
  int priority = 0;                   ///< larger runs sooner, if the scheduler reads it
  /// Account that a fair scheduler charges; requests of equal numbers share one. Below 0: the client is unknown, and
  /// drafts of other requests learn nothing from these texts (DraftState::group).
  int client = 0;
  /// Number of sequences before this one, if a client sends several prompts at once. The choices of a request count on
  /// from it. FairPolicy runs low numbers first.
  int ordinal = 0;
  std::uint64_t tag = 0;                  ///< your own number for your own scheduler (Candidate::tag)
  TimePoint deadline = TimePoint::max();  ///< schedulers see it; a Service ends the answer then, an Engine does not
  int n = 1;                              ///< number of answers; answer i is drawn with the seed choice_seed(seed, i)
  int best_of = 0;              ///< answers to generate; the n of highest mean log-probability are returned; 0: n
  std::string cache_salt = {};  ///< requests share cached prefixes only with requests of the same salt
};

/// An adapter of a request. Several add up, each update times its weight.
struct AdapterUse {
  std::string name;  ///< a folder, or another name that AdapterOptions::folder_of takes
  float weight = 1;

  friend bool operator==(const AdapterUse&, const AdapterUse&) = default;
};

/// The adapters of a request, held. While a copy of `set` lives, they are neither dropped nor changed.
struct AdapterLease {
  std::shared_ptr<const AdapterSet> set = {};  ///< null: no adapter
  std::string identity = {};                   ///< digests and weights: equal ones give equal bits
  int tenant = -1;              ///< number of the (first) adapter's name, for policies that are fair between adapters
  const void* owner = nullptr;  ///< the store that made it (AdapterStore::is_own), alive as long as `set`
  /// An activated LoRA acts from the start of the last occurrence of these tokens in the prompt. Without one it does
  /// not act. Empty: the adapter acts everywhere.
  std::vector<TokenId> invocation = {};
  /// The adapter's own classification head; null: it has none.
  std::shared_ptr<const ClassifierHead> head = {};
  AdapterTask task = AdapterTask::text;   ///< task of the adapters; with several, one that is not `text`
  std::vector<std::string> digests = {};  ///< of the adapters, in the order of the request
};

/// How long a caller waits for room in the adapter budget: not at all, until a time, or while `wanted` returns true.
struct Patience {
  TimePoint until{};
  std::function<bool()> wanted = {};  ///< called now and then, in the thread that waits; none: always

  Patience() = default;
  Patience(TimePoint moment, std::function<bool()> still_wanted = {})
      : until(moment), wanted(std::move(still_wanted)) {}
};

/// The text that a constraint was made from. A receipt holds it, so that the constraint can be made again.
struct ConstraintSource {
  std::string kind = {};  ///< "schema", "regex", "grammar", "choice", "calls", or your own word; empty: unknown
  std::string text = {};  ///< schemas, choices and calls as JSON; other kinds unchanged

  friend bool operator==(const ConstraintSource&, const ConstraintSource&) = default;
};

/// Makes a constraint from its source. It may throw Error.
using ConstraintMaker = std::function<std::shared_ptr<const Constraint>(const ConstraintSource&)>;

struct AnswerProgress;  // engine/progress.h

/// A request: exactly one of prompt and input_ids, and what it runs with.
struct Request {
  std::string prompt = {};                            ///< text, for engines with a tokenizer
  std::vector<TokenId> input_ids = {};                ///< tokens
  std::vector<AdapterUse> adapters = {};              ///< none: the plain model
  AdapterLease lease = {};                            ///< lease of `adapters`, if the caller took one (Engine::lease)
  std::shared_ptr<const Constraint> constraint = {};  ///< null: any tokens
  ConstraintSource constraint_source = {};            ///< of `constraint`; needed with Options::receipt alone
  AnyLogitsProcessor logits_processor = {};           ///< your own pure function, called before the penalties
  Options options = {};
  bool parse_special = false;  ///< spellings of special tokens in `prompt` become their ids; false: text is text
  /// A likely answer, from which Draft<P> guesses first. It changes the speed alone, never the answer.
  std::vector<TokenId> prediction = {};
  /// The progress of this request in another engine. This one goes on after it, with the same bits. Null: none.
  std::shared_ptr<const AnswerProgress> begun = {};
  bool repeats_begun = false;  ///< the events of `begun` come once more, before the new ones
};

/// Guessed tokens of an answer that were verified, and how many of them were right (Draft<P>).
struct GuessCounts {
  int drafted = 0, accepted = 0;                        ///< in all
  int prediction_drafted = 0, prediction_accepted = 0;  ///< of these, from Request::prediction

  friend bool operator==(const GuessCounts&, const GuessCounts&) = default;
};

/// A token and its log-probability.
struct TokenLogprob {
  TokenId id;
  float logprob;  ///< natural logarithm, of the softmax of the raw logits
};

/// Why an answer ended. moved: it goes on elsewhere (Service::snapshot); its event has no text, scores or receipt.
enum class FinishReason { length, stop, cancelled, deadline, error, moved };

const char* to_string(FinishReason reason);

/// A token of the prompt, given those before it.
struct PromptLogprob {
  TokenLogprob token;
  std::vector<TokenLogprob> top;  ///< likeliest first, as many as prompt_logprobs asks
  int rank = 0;                   ///< 1: no other token of the vocabulary is likelier
};

/// Scores of the prompt, as Options asks for them.
struct Scores {
  std::vector<std::pair<int, std::vector<float>>> logits;  ///< [position] -> [vocab_size], as logits_at asks
  std::optional<double> nll_mean;                          ///< absent for prompts of one token
  std::vector<PromptLogprob> prompt;                       ///< of tokens 1..n-1, as prompt_logprobs asks
  std::vector<float> embedding;     ///< [hidden] for Pooling::last and Pooling::mean, not normalised
  std::vector<float> class_logits;  ///< [labels] for Pooling::classify
};

struct Receipt;  // engine/receipt.h

/// An event of a request: a token, the end of a choice, or an error.
struct Event {
  enum class Kind { token, finished, error };
  Kind kind = Kind::token;
  RequestId request = 0;
  int choice = 0;                               ///< 0..n-1 of a request with several answers
  bool last = false;                            ///< the last event of this request
  TokenId token = -1;                           ///< Kind::token
  bool final = false;                           ///< Kind::token: the last of its choice
  std::string text = {};                        ///< text that this event adds; whole UTF-8, empty without a tokenizer
  float logprob = 0;                            ///< if top_logprobs >= 0
  std::vector<TokenLogprob> top_logprobs = {};  ///< likeliest first
  FinishReason reason = FinishReason::length;   ///< Kind::finished
  std::string error = {};                       ///< Kind::error
  Error::Kind error_kind = Error::Kind::internal;  ///< Kind::error
  std::shared_ptr<const Scores> scores = {};       ///< of choice 0: Kind::finished; prompt_logprobs: first token, too
  std::optional<std::uint64_t> logits_hash = {};   ///< Kind::finished, if asked for
  GuessCounts guesses = {};                        ///< Kind::finished
  std::shared_ptr<const Receipt> receipt = {};     ///< Kind::finished, if asked for
  TimePoint started{};                             ///< Kind::finished: when its first step began; {}: it had none
  TimePoint came{};  ///< when the step that brought it had ended, if a Service sent it; else {}
};

namespace detail {
void require(bool holds, const char* field, const char* needed);
}  // namespace detail

/// Most tokens of a request in the cache: the last new token is never fed back.
constexpr std::size_t cache_tokens_of(std::size_t prompt, int max_new_tokens) {
  return prompt + static_cast<std::size_t>(max_new_tokens > 1 ? max_new_tokens - 1 : 0);
}

/// Most answers of a request.
inline constexpr int kMostChoices = 128;

/// The seed that choice i of a request draws with, modulo 2^64. A request with seed + i gets that answer alone.
inline std::uint64_t choice_seed(std::uint64_t seed, int choice) { return seed + static_cast<std::uint64_t>(choice); }

/// Throws Error invalid_request if a field is out of range. The engine checks the limits of its model (vocabulary,
/// positions).
void validate(const Options& o);

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/core/request-inl.h"
#endif
