// Random requests with every option. Models need a vocabulary of more than kPoison tokens.
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "tenon/core/request.h"
#include "tenon/testing/random.h"

namespace tenon::invariance {

using testing::Random;

// The longest text: beyond two splits of attention, and the last of kSizes.
inline constexpr int kLongest = 513;

// A token whose embedding is NaN (PoisonedHead in invariance.h): a request with it in its text fails.
inline constexpr TokenId kPoison = 66;

inline bool chance(Random& random, int one_in) { return random.between(1, one_in) == 1; }

template <class Container>
auto pick(Random& random, const Container& from) {
  return from[static_cast<std::size_t>(random.between(0, static_cast<int>(std::size(from)) - 1))];
}

// A random text without kPoison.
inline std::vector<TokenId> random_text(Random& random, int tokens) {
  std::vector<TokenId> text;
  for (int i = 0; i < tokens; ++i) text.push_back(random.between(0, kPoison - 1));
  return text;
}

inline std::vector<int> positions_up_to(int count) {
  std::vector<int> positions;
  for (int i = 0; i < count; ++i) positions.push_back(i);
  return positions;
}

// A text of a given number of tokens, and every option of a request.
inline Request whole_request(std::vector<TokenId> text, int max_new_tokens) {
  Request r{.input_ids = std::move(text)};
  const int tokens = static_cast<int>(r.input_ids.size());
  r.options = {.max_new_tokens = max_new_tokens,
               .ignore_eos = true,
               .top_logprobs = 3,
               .logits_at = positions_up_to(tokens),
               .nll = true,
               .logits_hash = true};
  r.options.logit_bias = {{kPoison, -INFINITY}};
  return r;
}

// whole_request() without the options that need the prompt's logits, so that the prompt may come from the cache.
inline Request plain_request(std::vector<TokenId> text, int max_new_tokens) {
  Request r = whole_request(std::move(text), max_new_tokens);
  r.options.logits_at.clear();
  r.options.nll = false;
  return r;
}

// Texts that requests begin with.
struct Documents {
  explicit Documents(Random& random) {
    for (auto& text : texts) text = random_text(random, kLongest);
  }
  std::array<std::vector<TokenId>, 3> texts;
};

inline int random_length(Random& random) {
  if (chance(random, 30)) return random.between(200, kLongest);
  if (chance(random, 6))
    return pick(random, std::array{15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257});
  return random.between(1, 60);
}

inline void draw_sampling(Random& random, Options& o) {
  o.temperature = pick(random, std::array{0.0f, 0.0f, 0.7f, 1.3f});
  o.seed = random.next();
  if (chance(random, 4)) o.top_k = random.between(1, 20);
  if (chance(random, 4)) o.top_p = 0.8f;
  if (chance(random, 8)) o.min_p = 0.01f;
  if (chance(random, 8)) o.typical_p = 0.9f;
  if (chance(random, 4)) o.repetition_penalty = 1.3f;
  if (chance(random, 8)) o.presence_penalty = 0.5f;
  if (chance(random, 8)) o.frequency_penalty = 0.25f;
  if (chance(random, 4)) o.logit_bias.emplace_back(random.between(0, kPoison - 1), 2.0f);
  if (chance(random, 8)) o.stop_ids = {random.between(0, kPoison - 1)};
  o.ignore_eos = !chance(random, 4);
}

// Changes a request so that it fails. Either every token is forbidden, or a prompt token is kPoison, so that the logits
// are not finite from there on.
inline void spoil(Random& random, Request& r, int vocab) {
  if (chance(random, 4)) {
    r.options.logit_bias.clear();
    for (TokenId id = 0; id < vocab; ++id) r.options.logit_bias.emplace_back(id, -INFINITY);
  } else {
    r.input_ids[static_cast<std::size_t>(random.between(0, static_cast<int>(r.input_ids.size()) - 1))] = kPoison;
  }
  r.options.max_new_tokens = std::max(r.options.max_new_tokens, 1);
}

inline Request random_request(Random& random, const Documents& documents, int vocab) {
  Request r;
  const int length = random_length(random);
  if (!chance(random, 3)) {
    r.input_ids = pick(random, documents.texts);
    r.input_ids.resize(static_cast<std::size_t>(length));
  }
  const int tail = r.input_ids.empty() ? length : std::min(random.between(0, 12), kLongest - length);
  for (const TokenId id : random_text(random, tail)) r.input_ids.push_back(id);
  Options& o = r.options;
  o.max_new_tokens = chance(random, 20) ? 0 : chance(random, 12) ? random.between(17, 40) : random.between(1, 16);
  o.logit_bias = {{kPoison, -INFINITY}};
  draw_sampling(random, o);
  o.top_logprobs = pick(random, std::array{-1, 0, 3, vocab});
  o.logits_hash = !chance(random, 4);
  o.nll = chance(random, 6);
  o.prompt_logprobs = chance(random, 8) ? random.between(0, 3) : -1;
  if (chance(random, 6)) o.min_new_tokens = random.between(0, o.max_new_tokens);
  const int tokens = static_cast<int>(r.input_ids.size());
  if (chance(random, 3))
    o.logits_at = {tokens - 1};
  else if (chance(random, 6))
    o.logits_at = positions_up_to(tokens);
  o.priority = random.between(-1, 1);
  o.cache_salt = chance(random, 5) ? "salt" : "";
  if (chance(random, 12)) {
    spoil(random, r, vocab);
  } else if (chance(random, 6)) {
    o.n = random.between(2, 4);
    if (chance(random, 4)) o.best_of = o.n + random.between(1, 2);
  }
  return r;
}

inline std::vector<Request> random_requests(std::uint64_t seed, int count, int vocab) {
  Random random(seed);
  const Documents documents(random);
  std::vector<Request> requests;
  for (int i = 0; i < count; ++i) requests.push_back(random_request(random, documents, vocab));
  return requests;
}

// Cache tokens that a request needs at its end. The last new token is not cached.
inline int tokens_of(const Request& r) {
  return static_cast<int>(r.input_ids.size()) + std::max(r.options.max_new_tokens, 1) - 1;
}

// Capacity of a tight cache, in tokens: the whole blocks that the largest request needs. A second request rarely fits
// beside it.
inline int tight_cache(const std::vector<Request>& requests, int block) {
  int most = 0;
  for (const Request& r : requests) most = std::max(most, tokens_of(r));
  return (most + block - 1) / block * block;
}

}  // namespace tenon::invariance
