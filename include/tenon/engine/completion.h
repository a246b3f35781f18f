// Answers for callers that wait: a range of tokens, or whole answers of one request or of many.
#pragma once
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tenon/core/request.h"

namespace tenon {

/// A generated token as `generate` yields it.
struct Token {
  TokenId id = -1;
  std::string text;                        ///< whole characters: may be empty, or more than the token's own
  float logprob = 0;                       ///< if top_logprobs >= 0
  std::vector<TokenLogprob> top_logprobs;  ///< likeliest first
};

/// One whole answer to a request.
struct Choice {
  std::vector<TokenId> ids;
  std::string text;
  FinishReason reason = FinishReason::error;
  std::vector<float> logprobs;                          ///< [ids] if top_logprobs >= 0
  std::vector<std::vector<TokenLogprob>> top_logprobs;  ///< [ids] likewise
  std::optional<std::uint64_t> logits_hash;             ///< if Options::logits_hash
  GuessCounts guesses;                                  ///< how it came, not what it says
  std::shared_ptr<const Receipt> receipt;               ///< if Options::receipt (engine/receipt.h)

  /// Adds an event of this choice.
  void add(const Event& event, bool with_logprobs);
};

/// All answers to a request: choice 0 in itself, and the others where n > 1.
struct Completion : Choice {
  std::string error;                     ///< FinishReason::error
  std::shared_ptr<const Scores> scores;  ///< of the prompt, if the request asks for any
  std::vector<Choice> others;            ///< choices 1..n-1

  /// Adds the request's next event; true if it was the last.
  bool add(const Event& event, bool with_logprobs);
};

/// The result of a classification.
struct Classification {
  std::vector<float> logits;  ///< [labels]
  int label = 0;              ///< the largest logit, the lowest of equal ones
};

class TokenRange;

namespace detail {

template <class>
inline constexpr bool kMisused = false;

// The calls that wait for tokens, over an engine that they step. Virtual, so that they are compiled once for all
// engines.
class SteppedEngine {
 public:
  /// Tokens as they come: for (auto& token : engine.generate("Once", {.max_new_tokens = 10})) ... Error where the
  /// request is refused or fails, or asks for more than one choice. Requests that were submitted run beside it; their
  /// events wait for the next step(). The engine must outlive the range and not move, so that a temporary one is
  /// refused.
  TokenRange generate(std::string prompt, Options options = {}) &;
  TokenRange generate(std::vector<TokenId> input_ids, Options options = {}) &;
  TokenRange generate(Request request) &;
  template <class E = SteppedEngine, class Input = Request>
  TokenRange generate(Input&&, Options = {}) &&;

  /// Runs requests together, and returns one Completion for each, in their order. A refused one has the reason `error`.
  /// One whose adapters have no room waits, and those after it too, until another one ends.
  std::vector<Completion> complete(std::vector<Request> requests);
  Completion complete(Request request);

  /// Embeddings of prompts, which run together, in their order: the row of the last token after the final norm, or the
  /// mean over all tokens (Pooling::mean). normalize: divides by the Euclidean length. Throws the error of the first
  /// request that is refused or fails.
  std::vector<std::vector<float>> embed(std::vector<Request> requests, Pooling pooling = Pooling::last,
                                        bool normalize = true);
  std::vector<float> embed(Request request, Pooling pooling = Pooling::last, bool normalize = true);

  /// Classifies prompts, by the head of the adapter or else of the model. Errors as embed().
  std::vector<Classification> classify(std::vector<Request> requests);
  Classification classify(Request request);

  virtual RequestId take(Request request) = 0;
  // Holds the request's adapters, where there is room; false: not yet, and others run that will make room.
  virtual bool has_lease(Request& request, bool others_run) = 0;
  virtual std::span<const Event> step_or_wait() = 0;  // naps where the scheduler waits for more requests
  virtual void abandon(RequestId request) = 0;        // cancels it, and drops its events
  virtual std::vector<Event>& waiting_events() = 0;   // of other requests, for the next step()
  virtual bool exchange_draining(bool draining) = 0;

 protected:
  SteppedEngine() = default;
  SteppedEngine(const SteppedEngine&) = default;
  SteppedEngine& operator=(const SteppedEngine&) = default;
  ~SteppedEngine() = default;
};

}  // namespace detail

/// The tokens of one request as they come, an input range. Incrementing steps the engine; leaving the loop early
/// cancels the request. Throws Error where the request fails.
class TokenRange {
 public:
  TokenRange(detail::SteppedEngine& engine, RequestId request) : engine_(&engine), request_(request) {}
  TokenRange(TokenRange&& other) noexcept
      : engine_(std::exchange(other.engine_, nullptr)), request_(other.request_), token_(std::move(other.token_)) {}
  TokenRange& operator=(TokenRange&&) = delete;
  ~TokenRange() {
    if (engine_) engine_->abandon(request_);
  }

  class Iterator {
   public:
    using value_type = Token;
    using difference_type = std::ptrdiff_t;
    explicit Iterator(TokenRange* of) : of_(of) {}
    Token& operator*() const { return of_->token_; }
    Token* operator->() const { return &of_->token_; }
    Iterator& operator++() {
      of_->next();
      return *this;
    }
    void operator++(int) { of_->next(); }
    bool operator==(std::default_sentinel_t) const { return of_->engine_ == nullptr; }

   private:
    TokenRange* of_;
  };

  Iterator begin() {
    next();
    return Iterator(this);
  }
  std::default_sentinel_t end() const { return {}; }

 private:
  void next();
  // Events of other requests wait for the next step().
  Event next_event();

  detail::SteppedEngine* engine_;  // null once the request has ended
  RequestId request_;
  Token token_;
};

template <class E, class Input>
TokenRange detail::SteppedEngine::generate(Input&&, Options) && {
  static_assert(
      kMisused<E>,
      "tenon: generate() reads from the Engine as long as its tokens are read, and a temporary Engine is gone "
      "by then; give it a name first: auto engine = Engine{files}");
  return generate(Request{});
}

/// Requests that run together while their caller waits for all of them. Requests that have not ended when it throws are
/// cancelled.
class BatchRun {
 public:
  BatchRun(detail::SteppedEngine& engine, std::vector<Request> requests);
  ~BatchRun();
  BatchRun(const BatchRun&) = delete;
  BatchRun& operator=(const BatchRun&) = delete;

  /// One Completion for each request, in their order.
  std::vector<Completion> run();

 private:
  // Submits up to the first request whose adapters have no room yet.
  void submit_those_with_room();

  detail::SteppedEngine& engine_;
  std::vector<Request> requests_;
  std::vector<Completion> answers_;
  const bool draining_;  // as it was before
  std::vector<bool> with_logprobs_;
  std::unordered_map<RequestId, std::size_t> open_;
  std::size_t next_ = 0;  // to submit
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/engine/completion-inl.h"
#endif
