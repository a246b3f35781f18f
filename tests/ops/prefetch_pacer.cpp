// Paced prefetches: all lines, evenly.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tenon/ops/cpu/prefetch_pacer.h"

BOOST_AUTO_TEST_SUITE(ops_prefetch_pacer)

using namespace tenon;

// Every line is prefetched by the last pass, and not long before.
BOOST_AUTO_TEST_CASE(lines_are_asked_for_evenly) {
  for (const std::ptrdiff_t passes : {1, 3, 64, 1000, 9216}) {
    for (const int lines : {0, 1, 2, 63, 64, 1000}) {
      std::vector<cpu::PrefetchPacer::Lines> ranges;
      const auto begin = reinterpret_cast<std::uintptr_t>(&ranges) / 64 * 64;  // memory that exists
      for (int left = lines, i = 0; left > 0; ++i) {
        const int some = std::min(left, 1 + i % 7);
        ranges.push_back({begin, begin + 64 * static_cast<std::uintptr_t>(some)});
        left -= some;
      }
      cpu::PrefetchPacer pacer;
      pacer.begin(ranges);
      BOOST_TEST(pacer.lines() == static_cast<std::size_t>(lines));
      pacer.spread(passes);
      std::ptrdiff_t done = 0;
      while (done < passes && pacer.lines() > 0) pacer.pass(), ++done;
      BOOST_TEST(pacer.lines() == 0u, lines << " lines in " << passes << " passes");
      // The last comes at most two of its own shares early.
      if (lines > 0) BOOST_TEST((done + 2) * lines >= passes * (lines - 1));
      pacer.begin(ranges);
      pacer.prefetch_all();
      BOOST_TEST(pacer.lines() == 0u);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
