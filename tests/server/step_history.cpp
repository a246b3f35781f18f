// The steps that the page draws: a text keeps its place, and the oldest steps go.
#include "serve/page/step_history.h"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(server_step_history)

using namespace serve;

BOOST_AUTO_TEST_CASE(a_text_keeps_its_place_and_others_get_the_first_that_is_free) {
  StepHistory history;
  auto places = [&, step = std::uint64_t{0}](const std::vector<tenon::SeqId>& texts) mutable {
    std::vector<tenon::StepRow> rows;
    for (const tenon::SeqId text : texts)
      rows.push_back({text, -1, static_cast<int>(text), 0});  // told apart by their tokens
    const auto now = tenon::Clock::now();
    history.add({++step, now, now, rows});
    std::vector<std::pair<int, int>> found;  // place, text
    const auto drawn = history.behind(step - 1);
    for (const auto& row : drawn.at(0).rows) found.emplace_back(row.place, row.tokens);
    return found;
  };
  using Places = std::vector<std::pair<int, int>>;
  BOOST_TEST((places({10, 11, 12}) == Places{{0, 10}, {1, 11}, {2, 12}}));
  BOOST_TEST((places({12, 10}) == Places{{0, 10}, {2, 12}}));
  BOOST_TEST((places({12}) == Places{{2, 12}}));  // alone, in a place beyond the number of texts
  BOOST_TEST((places({20, 12, 21, 22}) == Places{{0, 20}, {1, 21}, {2, 12}, {3, 22}}));
  BOOST_TEST((places({30}) == Places{{0, 30}}));
  BOOST_TEST((places({12}) == Places{{0, 12}}));  // who was away for a step has no place any more
}

BOOST_AUTO_TEST_CASE(the_last_steps_are_kept_and_told_once) {
  StepHistory history;
  BOOST_TEST(history.last() == 0u);
  BOOST_TEST(history.behind(0).empty());
  const auto begin = tenon::Clock::now();
  const std::vector<tenon::StepRow> rows = {{7, 2, 5, 4}};
  for (std::uint64_t step = 1; step <= 1000; ++step) {
    const auto at = begin + step * std::chrono::milliseconds(10);
    history.add({step, at, at + std::chrono::milliseconds(3), rows});
  }
  BOOST_TEST(history.last() == 1000u);
  const auto all = history.behind(0);
  BOOST_TEST(all.size() == StepHistory::kKept);
  for (std::size_t i = 0; i < all.size(); ++i) {
    BOOST_TEST(all[i].number == 1000 - StepHistory::kKept + 1 + i);
    BOOST_TEST(all[i].ms == 3, boost::test_tools::tolerance(1e-6));  // of differences of doubles of some 10 s
    BOOST_TEST_REQUIRE(all[i].rows.size() == 1u);
    BOOST_TEST(all[i].rows[0].adapter == 2);
    BOOST_TEST(all[i].rows[0].tokens == 5);
    BOOST_TEST(all[i].rows[0].prompt_tokens == 4);
  }
  BOOST_TEST(all.back().at_ms - all.front().at_ms == 10.0 * (StepHistory::kKept - 1),
             boost::test_tools::tolerance(1e-9));
  BOOST_TEST(history.behind(998).size() == 2u);
  BOOST_TEST(history.behind(1000).empty());
}

BOOST_AUTO_TEST_SUITE_END()
