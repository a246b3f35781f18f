// Processors that obey the laws, and for each law one that breaks it.
#include "tenon/testing/processor_laws.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>
#include <memory>
#include <stdexcept>
#include <thread>

#include "obeys.h"

BOOST_AUTO_TEST_SUITE(testing_processor_laws)

using namespace tenon;
using test::breaks;
using test::obeys;
using testing::processor_laws;

namespace {

using Tokens = std::span<const TokenId>;
constexpr float kBanned = -std::numeric_limits<float>::infinity();

struct Neutral {
  void operator()(std::span<float>, Tokens, Tokens) const {}
};
struct NoRepeats {  // bans what was generated
  void operator()(std::span<float> logits, Tokens, Tokens generated) const {
    for (const TokenId id : generated) logits[static_cast<std::size_t>(id)] = kBanned;
  }
};
struct Counts {  // its calls, by all copies
  std::shared_ptr<int> calls = std::make_shared<int>(0);
  void operator()(std::span<float> logits, Tokens, Tokens) const { logits[0] += static_cast<float>(++*calls); }
};
struct CountsCopies {
  int copies = 0;
  CountsCopies() = default;
  CountsCopies(const CountsCopies& other) : copies(other.copies + 1) {}
  void operator()(std::span<float> logits, Tokens, Tokens) const { logits[0] += static_cast<float>(copies); }
};
struct OneThread {  // other results on any other thread
  std::thread::id own = std::this_thread::get_id();
  void operator()(std::span<float> logits, Tokens, Tokens) const {
    if (std::this_thread::get_id() != own) logits[0] += 1;
  }
};
struct OneTooFar {  // counts tokens from 1
  void operator()(std::span<float> logits, Tokens, Tokens generated) const {
    for (const TokenId id : generated) logits.data()[id + 1] = 0;
  }
};
struct Root {  // of a logit that may be negative
  void operator()(std::span<float> logits, Tokens, Tokens) const { logits[3] = std::sqrt(logits[3]); }
};
struct BansAll {
  void operator()(std::span<float> logits, Tokens, Tokens generated) const {
    if (generated.empty())
      for (float& x : logits) x = kBanned;
  }
};
struct Throws {
  void operator()(std::span<float>, Tokens, Tokens) const { throw std::runtime_error("no"); }
};
struct ThrowsElsewhere : OneThread {
  void operator()(std::span<float>, Tokens, Tokens) const {
    if (std::this_thread::get_id() != own) throw std::runtime_error("no");
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(these_obey) {
  obeys(processor_laws(Neutral{}));
  obeys(processor_laws(NoRepeats{}));
  obeys(processor_laws(NoRepeats{}, 1000));
  obeys(processor_laws(AnyLogitsProcessor(NoRepeats{})));
  obeys(processor_laws([](std::span<float> logits, Tokens prompt, Tokens) {
    logits[static_cast<std::size_t>(prompt[0])] = std::numeric_limits<float>::infinity();
  }));
}

BOOST_AUTO_TEST_CASE(each_law_can_be_broken) {
  BOOST_TEST(breaks(processor_laws(Counts{}), "whatever was called between"));
  BOOST_TEST(!breaks(processor_laws(CountsCopies{}), "whatever was called between"));
  BOOST_TEST(breaks(processor_laws(CountsCopies{}), "copies give equal logits"));
  BOOST_TEST(processor_laws(OneThread{}) ==
             testing::Violations{"processor: any thread gets the same logits, several at once"});
  for (const int vocab : {50, 4096}) BOOST_TEST(breaks(processor_laws(OneTooFar{}, vocab), "nothing beside it"));
  BOOST_TEST(processor_laws(Root{}) == testing::Violations{"processor: writes no NaN"});
  BOOST_TEST(processor_laws(BansAll{}) == testing::Violations{"processor: does not ban all tokens"});
  BOOST_TEST(breaks(processor_laws(Throws{}), "throws nothing"));
  BOOST_TEST(breaks(processor_laws(ThrowsElsewhere{}), "throws nothing"));
}

BOOST_AUTO_TEST_SUITE_END()
