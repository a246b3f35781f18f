/// The draws of a seed of the simulation: sizes, rates, faults, and requests that share prefixes.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tenon/core/views.h"
#include "tenon/testing/random.h"
#include "tenon/testing/simulated_engine.h"

namespace tenon::testing::detail {

// Every power of two of the range is equally likely, because small sizes are the tight ones.
inline int log_between(Random& random, int low, int high) {
  int bits = 0;
  for (int reach = std::max(low, 1); reach < high; reach *= 2) ++bits;
  const int least = std::max(low, 1) << random.between(0, bits);
  return std::clamp(random.between(least / 2, least), low, high);
}
inline bool chance(Random& random, int per_mille) { return random.between(0, 999) < per_mille; }

struct SimulationConfig {
  int block_tokens = 16, blocks = 64, positions = 1024;
  int window = 0;  // positions that a row sees, with a WindowLedger; 0: all, with a BlockLedger
  int hash_bits = 64;
  bool keeps_tokens = true;  // false: like NoCache, nothing outlives a step
  bool reuses_prefixes = true;
  bool drains = true;  // false: only the clock says that no other request comes
  int token_budget = 64;
  int requests = 100, longest_prompt = 64, longest_answer = 32;
  int burst = 1;  // most requests that come at once
  int adapters = 0, salts = 0, openings = 0;
  // In a thousand steps:
  int arrivals = 300, cancels = 0, holds = 0, failures = 0, refusals = 0, jumps = 0, forgets = 0, reloads = 0,
      toggles = 0;
  int guesses = 0;  // in a thousand texts that get a token
  // In a thousand requests:
  int sampled = 0, several = 0, scored = 0, stopping = 0, urgent = 0, repeated = 0, misfits = 0, activated = 0;

  // Most tokens of one sequence. With a window it reaches its end if it can always continue by one token.
  int capacity() const {
    const bool goes_on = window > 0 && blocks * block_tokens >= window + block_tokens - 1;
    return goes_on ? positions : std::min(positions, blocks * block_tokens);
  }
  // Blocks that it may hold at once: the blocks that it needs to continue by an eighth of the window.
  int ring() const {
    const int most = window > 0 ? window + std::max(window / 8, 1) + block_tokens - 2 : positions;
    return std::min(blocks, (std::min(most, positions) + block_tokens - 1) / block_tokens);
  }
  std::uint64_t hash_mask() const {
    return hash_bits == 64 ? std::numeric_limits<std::uint64_t>::max() : (std::uint64_t{1} << hash_bits) - 1;
  }
};

// Texts that outgrow their window. Most of them outgrow the cache too, which has a few rings.
inline void draw_window(SimulationConfig& c, int text, Random& random) {
  c.window = log_between(random, 1, 64);
  c.positions = std::max(text, log_between(random, 8, 256));
  c.blocks = log_between(random, 1, 4 * (2 + c.window / c.block_tokens)) + random.between(0, 2);
  c.keeps_tokens = true;
  c.reuses_prefixes = false;
}

inline SimulationConfig draw_config(Random& random) {
  const auto half = [&](int most) { return random.between(0, 1) ? 0 : log_between(random, 1, most); };
  SimulationConfig c;
  constexpr int kBlocks[] = {1, 2, 4, 4, 16, 16, 32, 64};
  c.block_tokens = kBlocks[random.between(0, 7)];
  const int text = log_between(random, 4, c.block_tokens > 16 ? 256 : 128);
  const int texts = random.between(0, 2) ? random.between(1, 6) : 0;  // texts that fit the pool; 0: a pool of any size
  c.blocks = texts > 0 ? std::clamp(text * texts / c.block_tokens, 4, 512) : log_between(random, 4, 512);
  c.positions = random.between(0, 3) ? c.blocks * c.block_tokens : log_between(random, 4, c.blocks * c.block_tokens);
  constexpr int kBits[] = {0, 1, 2, 4, 64, 64};
  c.hash_bits = kBits[random.between(0, 5)];
  c.keeps_tokens = random.between(0, 24) > 0;
  c.reuses_prefixes = random.between(0, 3) > 0;
  c.drains = random.between(0, 3) > 0;
  const bool sees_a_window = random.between(0, 3) == 0;
  if (sees_a_window) draw_window(c, text, random);
  c.token_budget = log_between(random, 1, 256);
  c.requests = log_between(random, 20, 200);
  const int longest = std::min(c.capacity(), sees_a_window ? c.positions : text);
  c.longest_answer = random.between(1, std::min(std::max(longest / 2, 1), 40));
  c.longest_prompt = std::max(1, longest - c.longest_answer);
  c.burst = log_between(random, 1, 16);
  c.arrivals = log_between(random, 60, 1000);
  c.adapters = random.between(0, 1) ? 0 : random.between(1, 8);
  c.salts = random.between(0, 3);
  c.openings = random.between(0, 6);
  c.cancels = half(120);
  c.holds = half(120);
  c.failures = half(200);
  c.refusals = half(100);
  c.jumps = half(30);
  c.forgets = random.between(0, 3) ? 0 : log_between(random, 1, 60);
  c.reloads = half(60);
  c.toggles = random.between(0, 7) || sees_a_window ? 0 : 50;
  c.sampled = random.between(0, 1000);
  c.several = random.between(0, 2) * random.between(0, 250);
  c.scored = half(200);
  c.stopping = half(500);
  c.urgent = half(700);
  c.repeated = half(500);
  c.misfits = half(60);
  c.activated = half(1000);
  if (random.between(0, 7) == 0) {  // requests of several choices, in steps that fail or with cancels
    c.several = 900;
    c.failures = std::max(c.failures, 100);
    c.cancels = std::max(c.cancels, 30);
    c.arrivals = std::min(c.arrivals, 200);  // few others wait, so children join before their parents end
  }
  c.guesses = random.between(0, 1) ? 0 : random.between(200, 1000);
  return c;
}

inline std::string to_string(const SimulationConfig& c) {
  std::string text;
  for (const auto& [name, value] :
       std::initializer_list<std::pair<const char*, int>>{{"blocks", c.blocks},
                                                          {"of", c.block_tokens},
                                                          {"positions", c.positions},
                                                          {"window", c.window},
                                                          {"hash bits", c.hash_bits},
                                                          {"budget", c.token_budget},
                                                          {"requests", c.requests},
                                                          {"prompts to", c.longest_prompt},
                                                          {"answers to", c.longest_answer},
                                                          {"adapters", c.adapters},
                                                          {"salts", c.salts},
                                                          {"openings", c.openings},
                                                          {"per mille: arrivals", c.arrivals},
                                                          {"cancels", c.cancels},
                                                          {"holds", c.holds},
                                                          {"failures", c.failures},
                                                          {"refusals", c.refusals},
                                                          {"jumps", c.jumps},
                                                          {"forgets", c.forgets},
                                                          {"toggles", c.toggles},
                                                          {"guesses", c.guesses},
                                                          {"several", c.several},
                                                          {"scored", c.scored},
                                                          {"activated", c.activated}}) {
    if (value != 0) text += (text.empty() ? "" : ", ") + std::string(name) + " " + std::to_string(value);
  }
  if (!c.keeps_tokens) text += ", keeps nothing";
  if (!c.reuses_prefixes) text += ", no reuse";
  if (!c.drains) text += ", never draining";
  return text;
}

struct SimulatedRequest {
  static constexpr int kClients = 3;

  std::vector<TokenId> prompt;
  int max_new_tokens = 1;
  int choices = 1;
  int adapter = -1;
  int priority = 0;
  int client = 0;  // 0 .. kClients - 1
  SimulatedKey key;
  SimulatedSampling sampling;
  int score_from = std::numeric_limits<int>::max();  // first position of the prompt whose sum is returned
};

// Makes requests one after another. Their prompts begin with one of a few openings, or with the text of another answer,
// and end anywhere within a block. So prefix reuse has something to find, and something to mistake for it.
class SimulatedLoad {
 public:
  SimulatedLoad(const SimulationConfig& config, Random& random) : config_(config), random_(random) {
    for (int i = 0; i < config.openings; ++i) openings_.push_back(words(config.longest_prompt));
    generations_.resize(static_cast<std::size_t>(config.adapters));
  }

  SimulatedRequest next() {
    SimulatedRequest r;
    r.prompt = prompt();
    const int kind = random_.between(0, 9);
    r.max_new_tokens = kind == 0 ? 0 : kind == 1 ? 1 : random_.between(1, config_.longest_answer);
    if (chance(random_, config_.misfits)) {  // one token too many, or, of short texts, an exact fit
      const int over = config_.capacity() <= 128 ? random_.between(0, 1) : 1;
      r.max_new_tokens = config_.capacity() + 1 + over - static_cast<int>(r.prompt.size());
    }
    r.choices = chance(random_, config_.several) ? random_.between(2, 4) : 1;
    r.adapter = random_.between(-1, config_.adapters - 1);
    r.priority = chance(random_, config_.urgent) ? random_.between(-1, 3) : 0;
    r.client = requests_++ % SimulatedRequest::kClients;
    r.key = key(r.adapter, static_cast<int>(r.prompt.size()));
    r.sampling = {.greedy = !chance(random_, config_.sampled),
                  .seed = static_cast<std::uint64_t>(random_.between(0, 3)),
                  .stop_every = chance(random_, config_.stopping) ? random_.between(2, 12) : 0};
    if (r.choices > 1 && random_.between(0, 2) > 0) {  // the first writes for long, so that the others find it there
      r.max_new_tokens = config_.longest_answer;
      r.sampling.stop_every = 0;
    }
    if (chance(random_, config_.scored)) r.score_from = random_.between(0, static_cast<int>(r.prompt.size()) - 1);
    return r;
  }

  // Guesses the tokens of an answer from `at` on: at most `most`, of which one may be wrong.
  std::vector<TokenId> guesses(std::span<const TokenId> answer, int at, int most) {
    std::vector<TokenId> found;
    for (int left = random_.between(1, most); left > 0; --left, ++at)
      found.push_back(at < static_cast<int>(answer.size()) ? answer[static_cast<std::size_t>(at)] : 0);
    if (random_.between(0, 2) > 0) return found;
    TokenId& wrong = found[static_cast<std::size_t>(random_.between(0, static_cast<int>(found.size()) - 1))];
    wrong = random_.between(0, 2) == 0 ? wrong + 1 : random_.between(0, 2);
    return found;
  }

  // A text was completed: a later request may continue it.
  void remember(std::span<const TokenId> text) {
    if (answers_.size() < 8) answers_.emplace_back();
    answers_[static_cast<std::size_t>(random_.between(0, static_cast<int>(answers_.size()) - 1))].assign(text.begin(),
                                                                                                         text.end());
  }

  // Replaces an adapter by another one of the same name.
  void reload() {
    if (!generations_.empty()) ++generations_[static_cast<std::size_t>(random_.between(0, config_.adapters - 1))];
  }

 private:
  // A small vocabulary, so that texts have common parts.
  std::vector<TokenId> words(int n) {
    std::vector<TokenId> text(static_cast<std::size_t>(n));
    for (TokenId& token : text) token = random_.between(0, 2);
    return text;
  }

  std::vector<TokenId> prompt() {
    std::vector<TokenId> text;
    const auto begin_with = [&](const std::vector<std::vector<TokenId>>& texts) {
      if (!texts.empty())
        text = texts[static_cast<std::size_t>(random_.between(0, static_cast<int>(texts.size()) - 1))];
    };
    if (chance(random_, config_.repeated))
      begin_with(answers_);
    else if (random_.between(0, 3))
      begin_with(openings_);
    int kept = random_.between(0, static_cast<int>(text.size()));
    if (random_.between(0, 1)) kept = static_cast<int>(text.size());
    if (random_.between(0, 2) == 0) kept -= kept % config_.block_tokens;
    text.resize(static_cast<std::size_t>(kept));
    const int more = random_.between(0, 2) ? log_between(random_, 1, config_.longest_prompt) : 0;
    for (const TokenId token : words(more)) text.push_back(token);
    text.resize(std::clamp<std::size_t>(text.size(), 1, static_cast<std::size_t>(config_.longest_prompt)));
    return text;
  }

  // Draws salts that are prefixes of others, or look like others, and where in the prompt an adapter is activated.
  SimulatedKey key(int adapter, int prompt_tokens) {
    const int salt = random_.between(0, config_.salts);
    SimulatedKey k;
    if (salt > 0) k.identity = "salt " + std::string(static_cast<std::size_t>(salt), 's');
    if (adapter < 0) return k;
    k.adapter =
        " adapter " + std::to_string(adapter) + "." + std::to_string(generations_[static_cast<std::size_t>(adapter)]);
    if (chance(random_, config_.activated))
      k.share_limit = random_.between(1, prompt_tokens);
    else
      k.identity += k.adapter;
    return k;
  }

  const SimulationConfig& config_;
  Random& random_;
  std::vector<std::vector<TokenId>> openings_, answers_;
  std::vector<int> generations_;  // [adapters]
  int requests_ = 0;              // made so far
};

}  // namespace tenon::testing::detail
