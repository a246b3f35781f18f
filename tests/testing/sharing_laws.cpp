// The built-in caches obey the laws of sharing, and ledgers with one fault each do not.
#include "tenon/testing/sharing_laws.h"

#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <string>

#include "obeys.h"
#include "tenon/cache/contiguous.h"
#include "tenon/cache/no_cache.h"
#include "tenon/cache/paged.h"

BOOST_AUTO_TEST_SUITE(testing_sharing_laws)

using namespace tenon;
using tenon::testing::sharing_laws;
using test::breaks;
using test::obeys;

namespace {

// A paged cache with another ledger in it.
template <class L>
struct With : PagedKV {
  using Ledger = L;
  static Ledger ledger(const KvShape& shape, int tokens) { return Ledger(PagedKV::ledger(shape, tokens)); }
};

struct Sound : PagedKV::Ledger {
  explicit Sound(const PagedKV::Ledger& other) : PagedKV::Ledger(other) {}
};

struct ForgetsIdentity : Sound {
  using Sound::Sound;
  PrefixMatch match(std::span<const TokenId> tokens, std::string_view) const { return Sound::match(tokens, ""); }
  int reuse(SeqId seq, std::span<const TokenId> tokens, std::string_view) { return Sound::reuse(seq, tokens, ""); }
  void publish(SeqId seq, std::span<const TokenId> tokens, std::string_view) { Sound::publish(seq, tokens, ""); }
};

struct ForgetsCopies : Sound {
  using Sound::Sound;
  std::span<const BlockCopy> copies() const { return {}; }
};

struct PublishesTooEarly : Sound {
  using Sound::Sound;
  void publish(SeqId seq, std::span<const TokenId> tokens, std::string_view identity) {
    std::vector<TokenId> guessed(tokens.begin(), tokens.end());
    guessed.resize(Sound::blocks(seq).size() * 16, 0);
    Sound::publish(seq, guessed, identity);
  }
};

struct MatchesTooMuch : Sound {
  using Sound::Sound;
  PrefixMatch match(std::span<const TokenId> tokens, std::string_view identity) const {
    auto m = Sound::match(tokens, identity);
    m.tokens += m.tokens > 0;
    return m;
  }
};

struct HidesWhatItTakes : Sound {
  using Sound::Sound;
  PrefixMatch match(std::span<const TokenId> tokens, std::string_view identity) const {
    return {Sound::match(tokens, identity).tokens, 0};
  }
};

struct ForksHalf : Sound {
  using Sound::Sound;
  bool fork(SeqId parent, SeqId child, int tokens) {
    Sound::fork(parent, child, tokens);
    return false;
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(our_caches_obey) {
  obeys(sharing_laws<PagedKV>());
  obeys(sharing_laws<PagedKVOf<32>>());
  obeys(sharing_laws<PagedKVOf<32, bfloat16>>());
  obeys(sharing_laws<PagedKVOf<64, std::int8_t>>());
  obeys(sharing_laws<PagedKV>({1, 1, 4, 60}, 64));  // hardly any room
  obeys(sharing_laws<With<Sound>>());
  BOOST_TEST(sharing_laws<ContiguousKV>().empty());
  BOOST_TEST(sharing_laws<NoCache>().empty());
}

BOOST_AUTO_TEST_CASE(wrong_ledgers_are_caught) {
  BOOST_TEST(breaks(sharing_laws<With<ForgetsIdentity>>(), "what the text would have written"));
  BOOST_TEST(breaks(sharing_laws<With<ForgetsCopies>>(), "what the text would have written"));
  BOOST_TEST(breaks(sharing_laws<With<PublishesTooEarly>>(), "what the text would have written"));
  BOOST_TEST(breaks(sharing_laws<With<MatchesTooMuch>>(), "what match found"));
  BOOST_TEST(breaks(sharing_laws<With<HidesWhatItTakes>>(), "what reuse takes from the free"));
  BOOST_TEST(breaks(sharing_laws<With<ForksHalf>>(), "fork is all or nothing"));
}

BOOST_AUTO_TEST_SUITE_END()
