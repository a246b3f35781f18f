/// The laws of ReusesPrefixes and ForksSequences: a found prefix, and a fork, hold what the same text would have
/// written itself, and no sequence's writes reach another sequence.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <iterator>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "tenon/core/concepts.h"
#include "tenon/core/hash.h"
#include "tenon/testing/fits.h"
#include "tenon/testing/random.h"

namespace tenon::testing {

namespace detail {

// Every position of every sequence holds a tag of the text up to there. Texts have two kinds of tokens, so that many
// begin alike.
template <class P>
class SharingTrial {
  using Ledger = typename P::Ledger;

 public:
  SharingTrial(const KvShape& shape, int tokens, std::uint64_t seed, Violations& broken)
      : shape_(shape),
        tokens_(tokens),
        broken_(broken),
        random_(seed),
        ledger_(P::ledger(shape, tokens)),
        memory_(P::bytes(shape, tokens) / sizeof(std::max_align_t) + 1) {}

  void live(int rounds) {
    const int all = ledger_.free_tokens();
    for (int round = 0; round < rounds; ++round) {
      const int what = texts_.empty() ? 0 : random_.between(0, 5);
      if (what <= 1) start();
      if (what == 2 || what == 3) write(any(), random_.between(1, 30));
      if (what == 4) fork();
      if (what == 5) release(any());
      check();
    }
    while (!texts_.empty()) release(texts_.begin()->first);
    note(broken_, ledger_.free_tokens() == all, "cache: what was shared is free when nobody holds it");
  }

 private:
  struct Text {
    std::vector<TokenId> tokens;
    std::string identity;
  };

  SeqId any() { return std::next(texts_.begin(), random_.between(0, static_cast<int>(texts_.size()) - 1))->first; }
  TokenId any_token() { return random_.between(0, 9) == 0; }

  void start() {
    const SeqId seq = next_++;
    Text text{{}, random_.between(0, 3) == 0 ? "salt" : ""};
    if (random_.between(0, 1) == 0) text.tokens = last_;
    for (int i = random_.between(1, shape_.positions - 1); i > 0; --i) text.tokens.push_back(any_token());
    text.tokens.resize(std::min(text.tokens.size(), static_cast<std::size_t>(shape_.positions - 1)));
    if constexpr (ReusesPrefixes<Ledger>) {
      const int free = ledger_.free_tokens();
      const PrefixMatch match = ledger_.match(text.tokens, text.identity);
      const int taken = ledger_.reuse(seq, text.tokens, text.identity);
      note(broken_, taken == match.tokens, "cache: reuse takes over what match found");
      note(broken_, free - ledger_.free_tokens() == match.idle, "cache: match says what reuse takes from the free");
      note(broken_, taken <= static_cast<int>(text.tokens.size()), "cache: no more is found than was asked for");
      text.tokens.resize(static_cast<std::size_t>(taken));
    } else {
      text.tokens.clear();
    }
    const int found = static_cast<int>(text.tokens.size());
    if (found == 0 && !ledger_.grow(seq, 1)) return;
    if (found == 0) text.tokens.push_back(any_token());
    texts_[seq] = text;
    if (found == 0) tag(seq, 0);
    check();
    write(seq, random_.between(1, 40));
  }

  void write(SeqId seq, int more) {
    Text& text = texts_[seq];
    const auto before = text.tokens.size();
    if (!ledger_.grow(seq, more)) return;
    for (int i = 0; i < more; ++i) text.tokens.push_back(any_token());
    tag(seq, before);
  }

  void tag(SeqId seq, std::size_t from) {
    each(seq, from,
         [](auto& element, unsigned char tag) { std::memset(static_cast<void*>(&element), tag, sizeof element); });
    const Text& text = texts_[seq];
    if constexpr (ReusesPrefixes<Ledger>) ledger_.publish(seq, text.tokens, text.identity);
  }

  void fork() {
    const SeqId parent = any();
    if constexpr (ForksSequences<Ledger>) {
      const SeqId child = next_++;
      const int free = ledger_.free_tokens();
      Text text = texts_[parent];
      text.tokens.resize(static_cast<std::size_t>(random_.between(1, static_cast<int>(text.tokens.size()))));
      if (!ledger_.fork(parent, child, static_cast<int>(text.tokens.size()))) {
        note(broken_, ledger_.free_tokens() == free, "cache: fork is all or nothing");
        return;
      }
      texts_[child] = text;
      make_copies();
      check();
      write(child, random_.between(1, 10));
    } else {
      write(parent, 1);
    }
  }

  void make_copies() {
    if constexpr (ForksSequences<Ledger>) {
      const BlockLayout layout = P::block_layout(shape_, tokens_);
      auto* storage = reinterpret_cast<std::byte*>(memory_.data());
      for (int layer = 0; layer < shape_.layers; ++layer, storage += layout.blocks * layout.block_bytes) {
        for (const BlockCopy& copy : ledger_.copies()) {
          std::memcpy(storage + static_cast<std::size_t>(copy.to) * layout.block_bytes,
                      storage + static_cast<std::size_t>(copy.from) * layout.block_bytes, layout.block_bytes);
        }
      }
      ledger_.clear_copies();
    }
  }

  void release(SeqId seq) {
    ledger_.release(seq);
    last_ = std::move(texts_[seq].tokens);
    texts_.erase(seq);
  }

  void check() {
    for (const auto& [seq, text] : texts_) {
      each(seq, 0, [&](const auto& element, unsigned char tag) {
        unsigned char expected[sizeof element];
        std::memset(expected, tag, sizeof element);
        note(broken_, std::memcmp(&element, expected, sizeof element) == 0,
             "cache: what is shared is what the text would have written, and stays");
      });
    }
  }

  // Calls f(element, tag of the text up to there) for a key and a value of each position from `from` on, in every layer
  // and head.
  template <class F>
  void each(SeqId seq, std::size_t from, F&& f) {
    const Text& text = texts_[seq];
    const std::vector<SequenceRows> rows = {{seq, 0, 1, static_cast<int>(text.tokens.size()) - 1, 0}};
    table_.assign(P::table_entries(shape_, rows), 0);
    const auto view = P::view(shape_, tokens_, ledger_, rows, memory_.data(), table_);
    for (std::size_t i = from; i < text.tokens.size(); ++i) {
      const auto prefix = std::as_bytes(std::span(text.tokens).first(i + 1));
      const std::uint64_t tag = hash64(prefix, hash64(text.identity));
      const int position = static_cast<int>(i), lane = position % kTilePositions;
      for (int layer = 0; layer < shape_.layers; ++layer) {
        for (int head = 0; head < shape_.heads; ++head) {
          const auto tile = view.tile(layer, 0, head, position / kTilePositions);
          f(tile.keys[lane], static_cast<unsigned char>(mix64(tag + static_cast<std::uint64_t>(layer))));
          f(tile.values[lane * shape_.value_stride()],
            static_cast<unsigned char>(mix64(tag + static_cast<std::uint64_t>(head))));
        }
      }
    }
  }

  KvShape shape_;
  int tokens_;
  Violations& broken_;
  Random random_;
  Ledger ledger_;
  std::vector<std::max_align_t> memory_;
  std::vector<std::int32_t> table_;
  std::map<SeqId, Text> texts_;
  std::vector<TokenId> last_;  // the text released last: many texts continue it
  SeqId next_ = 0;
};

}  // namespace detail

/// Runs a cache whose ledger reuses prefixes or forks through random lives, on the host. Returns no violation for a
/// ledger that does neither.
template <class P>
Violations sharing_laws(KvShape shape = {2, 2, 3, 130}, int tokens = 500) {
  detail::must_fit<Cache<P>>();
  Violations broken;
  if constexpr (!detail::fits<Cache<P>>) {
    return broken;
  } else if constexpr (ReusesPrefixes<typename P::Ledger> || ForksSequences<typename P::Ledger>) {
    try {
      for (std::uint64_t seed = 1; seed <= 4; ++seed) detail::SharingTrial<P>(shape, tokens, seed, broken).live(150);
    } catch (const std::exception& e) {
      broken.push_back(std::string("cache: throws nothing, but threw: ") + e.what());
    }
  }
  return broken;
}

}  // namespace tenon::testing
