// Random mixes of all engines and requests: each answer must equal, to the bit, the one that its request gets alone.
// The tests run 200 mixes, with the label `full` 2,000. scripts/check-invariance runs 10,000: it passes `-- --mixes N
// --seed S` to this program.
#define BOOST_TEST_MODULE engine_invariance_mixes
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstdio>
#include <string>
#include <string_view>

#include "mixes.h"

using namespace tenon;
using namespace tenon::invariance;

namespace {

// Sanitizers take ten times as long.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kMixes = 30;
#else
constexpr std::uint64_t kMixes = 200;
#endif

std::uint64_t argument(std::string_view name, std::uint64_t otherwise) {
  const auto& suite = boost::unit_test::framework::master_test_suite();
  for (int i = 1; i + 1 < suite.argc; ++i) {
    if (suite.argv[i] == name) return std::stoull(suite.argv[i + 1]);
  }
  return otherwise;
}

void print(const Totals& t, double seconds) {
  const auto number = [](std::uint64_t n) { return static_cast<unsigned long long>(n); };
  std::printf(
      "%llu answers, %llu tokens, %llu steps, %llu preemptions, %llu prompt tokens from the cache, %llu holds, "
      "%llu cancelled, %llu failed, %llu further choices, %llu of %llu guesses right\n",
      number(t.answers), number(t.tokens), number(t.steps), number(t.preemptions), number(t.hit_tokens),
      number(t.holds), number(t.cancelled), number(t.failed), number(t.choices), number(t.accepted), number(t.drafted));
  std::printf("%llu of %llu mixes: %llu differing bits (%.0f s)\n", number(t.equal), number(t.mixes), number(t.bits),
              seconds);
  std::fflush(stdout);
}

}  // namespace

BOOST_AUTO_TEST_CASE(random_mixes_give_what_each_request_gives_alone) {
  const auto begin = std::chrono::steady_clock::now();
  const std::uint64_t mixes = argument("--mixes", kMixes);
  const Totals totals = run_mixes(argument("--seed", 1), mixes, make_engine<>);
  print(totals, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  BOOST_TEST(totals.equal == totals.mixes);
  BOOST_TEST(totals.bits == 0u);
  if (mixes < 200) return;
  // Each kind of event and of engine must have occurred.
  BOOST_TEST(totals.preemptions > 0u);
  BOOST_TEST(totals.hit_tokens > 0u);
  BOOST_TEST(totals.holds > 0u);
  BOOST_TEST(totals.cancelled > 0u);
  BOOST_TEST(totals.failed > 0u);
  BOOST_TEST(totals.choices > 0u);
  BOOST_TEST(totals.accepted > totals.tokens / 10);        // guesses that were right ...
  BOOST_TEST(totals.drafted > totals.accepted * 11 / 10);  // ... and wrong
  for (const char* kind :
       {"float32",     "bfloat16",   "int8",      "flash",      "direct",    "none",      "contiguous",
        "paged 16",    "paged 32",   "paged 64",  "sequential", "static",    "fair",      "longest first",
        "small steps", "continuous", "threads 1", "threads 2",  "threads 3", "threads 4", "portable"}) {
    BOOST_TEST(totals.kinds.contains(kind), "no mix had " << kind);
  }
}
