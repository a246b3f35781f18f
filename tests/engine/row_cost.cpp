#include "tenon/engine/row_cost.h"

#include <boost/test/unit_test.hpp>

#include <vector>

#include "tenon/engine/guess_record.h"

BOOST_AUTO_TEST_SUITE(engine_row_cost)

using namespace tenon;

namespace {

// Measures `count` steps.
void measure(RowCost& cost, int rows, int guesses, double seconds, int count = RowCost::kFewest) {
  for (int i = 0; i < count; ++i) cost.measure(rows, guesses, seconds);
}

// Every step of one or two sequences measured, the newest ones without guesses: `first` seconds for one row, `more` for
// each further row.
RowCost measured(double first, double more) {
  RowCost cost;
  for (int rows = 1; rows <= 2; ++rows)
    for (int guesses = RowCost::kMostRows - rows; guesses >= 0; --guesses)
      measure(cost, rows, guesses, first + more * (rows + guesses - 1), guesses == 0 ? RowCost::kFewest : 1);
  return cost;
}

std::vector<int> chosen(std::vector<DraftOffer> offers, StepToDraft step, const RowCost& cost) {
  step.rows = step.rows ? step.rows : static_cast<int>(offers.size());
  step.picking = step.picking ? step.picking : step.rows;
  step.most = step.most ? step.most : 100;
  choose_guesses(offers, step, cost);
  std::vector<int> taken;
  for (const DraftOffer& offer : offers) taken.push_back(offer.taken);
  return taken;
}

using Taken = std::vector<int>;

}  // namespace

BOOST_AUTO_TEST_CASE(measurements_are_a_mean_and_others_lie_between) {
  RowCost cost;
  BOOST_TEST(cost.of(1, 0) == 1);
  BOOST_TEST(cost.of(1, 1) > 1);
  cost.measure(2, 1, 4);
  cost.measure(2, 5, 8);
  BOOST_TEST(cost.of(2, 1) == 4);
  BOOST_TEST(cost.of(2, 3) == 6);
  BOOST_TEST(cost.of(2, 0) < cost.of(2, 1));
  BOOST_TEST(cost.of(2, 0) < 4);
  BOOST_TEST(cost.of(2, 6) > 8);
  BOOST_TEST(cost.of(500, 1) > cost.of(500, 0));
  cost.measure(2, 1, 6);
  BOOST_TEST(cost.of(2, 1) == 5);
  for (int i = 0; i < 60; ++i) cost.measure(2, 1, 5);
  cost.measure(2, 1, 13);
  BOOST_TEST(cost.of(2, 1) == 6);  // a slow one counts an eighth
  cost.measure(2, 1, 2);
  BOOST_TEST(cost.of(2, 1) == 4);  // a fast one counts half
  cost.measure(0, 1, 1);
  cost.measure(124, 5, 1);
  cost.measure(2, -1, 1);
  cost.measure(2, 5, 0);
  BOOST_TEST(cost.of(2, 5) == 8);
}

// One request alone, whose tokens were cheap to draw, made guesses beside others look cheap.
BOOST_AUTO_TEST_CASE(batches_of_different_sizes_are_not_compared) {
  RowCost cost;
  measure(cost, 1, 7, 10);
  measure(cost, 1, 15, 11);
  measure(cost, 8, 0, 20);
  BOOST_TEST(cost.of(8, 8) > 20);
  measure(cost, 8, 8, 20.1);
  const StepToDraft beside_seven = {.rows = 8, .picking = 8, .has_others = true};
  BOOST_TEST(chosen({{.chance = 1, .tokens = 8}}, beside_seven, cost) == (Taken{8}));
  measure(cost, 8, 8, 24, 20);
  BOOST_TEST(chosen({{.chance = 1, .tokens = 8}}, beside_seven, cost) == (Taken{0}));
  BOOST_TEST(cost.of(1, 7) == 10);
}

// While every step had guesses, one without them was as dear as in the first moments, and guesses looked cheap.
BOOST_AUTO_TEST_CASE(steps_without_guesses_are_measured_again) {
  RowCost cost;
  measure(cost, 8, 0, 60);
  const StepToDraft step = {.rows = 8, .picking = 8, .has_others = true};
  const std::vector<DraftOffer> offers = {{.chance = 1, .tokens = 8}};
  measure(cost, 8, 8, 45, RowCost::kRefresh - 1);
  BOOST_TEST(chosen(offers, step, cost) == (Taken{8}));
  cost.measure(8, 8, 45);
  BOOST_TEST(chosen(offers, step, cost) == (Taken{0}));
  cost.measure(8, 0, 30);
  BOOST_TEST(cost.of(8, 0) == 30);  // the old ones do not count
  BOOST_TEST(chosen(offers, step, cost) == (Taken{0}));
  measure(cost, 8, 0, 30);
  BOOST_TEST(chosen(offers, step, cost) == (Taken{0}));

  // Steps of other batches make it old, too.
  measure(cost, 8, 0, 60);
  measure(cost, 8, 8, 30);
  BOOST_TEST(chosen(offers, step, cost) == (Taken{8}));
  measure(cost, 9, 0, 60, RowCost::kLongAgo);
  BOOST_TEST(chosen(offers, step, cost) == (Taken{0}));
}

// Guesses beside others may be cheap on a machine. None were made, so it was never learned.
BOOST_AUTO_TEST_CASE(a_few_likely_guesses_are_tried_beside_others) {
  RowCost cost;
  const StepToDraft step = {.rows = 8, .picking = 8, .has_others = true};
  const std::vector<DraftOffer> offers = {{.chance = 0.4, .tokens = 8}, {.chance = 0.9, .tokens = 8}};
  measure(cost, 8, 0, 10, RowCost::kProbe - 1);
  BOOST_TEST(chosen(offers, step, cost) == (Taken{0, 0}));
  cost.measure(8, 0, 10);
  BOOST_TEST(chosen(offers, step, cost) == (Taken{0, RowCost::kFewProbed}));
  BOOST_TEST(chosen({{.chance = 0.4, .tokens = 8}}, step, cost) == (Taken{0}));
  BOOST_TEST(chosen({{.chance = 0.9, .tokens = 2}}, step, cost) == (Taken{2}));
  BOOST_TEST(chosen({}, step, cost) == Taken());
  RowCost dear = cost;
  dear.measure(8, RowCost::kFewProbed, 15);
  BOOST_TEST(chosen(offers, step, dear) == (Taken{0, 0}));
  cost.measure(8, RowCost::kFewProbed, 10.01);  // so are more of them, as far as is known
  BOOST_TEST(chosen({{.chance = 0.9, .tokens = 8}}, step, cost) == (Taken{8}));
}

// A probe that is too large to be measured would be tried in each step.
BOOST_AUTO_TEST_CASE(a_try_is_measured) {
  for (int rows = RowCost::kMostRows - 5; rows <= RowCost::kMostRows; ++rows) {
    RowCost cost;
    measure(cost, rows, 0, 10, RowCost::kProbe);
    const StepToDraft step = {.rows = rows, .picking = rows, .has_others = true};
    BOOST_TEST(chosen({{.chance = 0.9, .tokens = 8}}, step, cost) ==
               (Taken{std::min(RowCost::kFewProbed, RowCost::kMostRows - rows)}));
  }
}

// Rows that looked free once made a long prediction fill the step, which was then never measured.
BOOST_AUTO_TEST_CASE(guesses_grow_by_what_was_measured) {
  RowCost cost;
  cost.measure(1, 0, 10);
  const std::vector<DraftOffer> offers = {{.chance = 0.99, .tokens = 480}};
  BOOST_TEST(chosen(offers, {.most = 500}, cost) == (Taken{8}));
  cost.measure(1, 8, 10);
  BOOST_TEST(chosen(offers, {.most = 500}, cost) == (Taken{16}));
  for (const int guesses : {16, 32, 64, 100}) cost.measure(1, guesses, 10);
  BOOST_TEST(chosen(offers, {.most = 500}, cost) == (Taken{RowCost::kMostRows - 1}));
  BOOST_TEST(chosen(offers, {.most = 500, .gain = 0}, cost) == (Taken{480}));
}

// A row adds less to a step of many rows.
BOOST_AUTO_TEST_CASE(guesses_are_tried_in_a_batch_of_copies) {
  RowCost cost;
  measure(cost, 32, 0, 10);
  BOOST_TEST(chosen(std::vector<DraftOffer>(32, {.chance = 0.95, .tokens = 1}), {}, cost) == Taken(32, 1));
}

BOOST_AUTO_TEST_CASE(steps_that_read_prompts_are_not_those_that_were_measured) {
  RowCost cost;
  const StepToDraft step = {.rows = 40, .picking = 1, .has_others = false, .reads_texts = true};
  BOOST_TEST(chosen({{.chance = 0.9, .tokens = 4}}, step, cost) == (Taken{4}));
  measure(cost, 40, 0, 1);
  measure(cost, 40, 4, 1000);
  BOOST_TEST(chosen({{.chance = 0.9, .tokens = 4}}, step, cost) == (Taken{4}));
}

// A slow first step, of page faults perhaps, looked dear for good.
BOOST_AUTO_TEST_CASE(old_measurements_are_forgotten) {
  RowCost cost;
  measure(cost, 1, 0, 10);
  cost.measure(1, 8, 100);
  BOOST_TEST(chosen({{.chance = 0.9, .tokens = 8}}, {}, cost) == (Taken{0}));
  measure(cost, 2, 0, 10, RowCost::kMostAge + 1);  // says nothing about one row
  BOOST_TEST(cost.of(1, 8) == 100);
  measure(cost, 1, 0, 10, RowCost::kMostAge + 1);
  BOOST_TEST(cost.of(1, 0) == 10);
  BOOST_TEST(chosen({{.chance = 0.9, .tokens = 8}}, {}, cost) == (Taken{8}));
}

BOOST_AUTO_TEST_CASE(rows_that_cost_nothing_are_taken_and_dear_ones_are_not) {
  BOOST_TEST(chosen({{.chance = 0.9, .tokens = 8}}, {}, measured(1, 0)) == (Taken{8}));
  BOOST_TEST(chosen({{.chance = 0.9, .tokens = 8}}, {}, measured(1, 1)) == (Taken{0}));
  BOOST_TEST(chosen({{.chance = 0.9, .tokens = 8}}, {.gain = 0}, measured(1, 1)) == (Taken{8}));
  // At 0.3 a second guess is right in 9 of 100 steps: less than 0.1 of a step.
  BOOST_TEST(chosen({{.chance = 0.3, .tokens = 8}}, {}, measured(1, 0.1)) == (Taken{1}));
}

// Where all steps had guesses, a step without them looked dear, and dear guesses looked cheap.
BOOST_AUTO_TEST_CASE(no_guess_before_steps_without_guesses_were_measured) {
  RowCost cost;
  BOOST_TEST(chosen({{.chance = 0.5, .tokens = 4}}, {}, cost) == (Taken{0}));
  measure(cost, 1, 4, 2.5);
  measure(cost, 5, 0, 2.5);
  BOOST_TEST(!cost.knows(1, 1));
  BOOST_TEST(cost.knows(5));
  BOOST_TEST(chosen({{.chance = 0.5, .tokens = 4}}, {}, cost) == (Taken{0}));
  BOOST_TEST(chosen({{.chance = 0.5, .tokens = 4}}, {.gain = 0}, cost) == (Taken{4}));
  measure(cost, 1, 0, 1, RowCost::kFewest - 1);
  BOOST_TEST(chosen({{.chance = 0.5, .tokens = 4}}, {}, cost) == (Taken{1}));  // it delays itself alone
  BOOST_TEST(!cost.knows(1));
  cost.measure(1, 0, 1);
  BOOST_TEST(cost.knows(1));
  BOOST_TEST(!cost.knows(500));

  // Beside others, more steps are needed, although the guesses cost nothing.
  const StepToDraft beside_one = {.rows = 2, .picking = 2, .has_others = true};
  measure(cost, 2, 4, 1);
  measure(cost, 2, 0, 1, RowCost::kFewest - 1);
  BOOST_TEST(chosen({{.chance = 0.9, .tokens = 4}}, beside_one, cost) == (Taken{0}));
  cost.measure(2, 0, 1);
  BOOST_TEST(chosen({{.chance = 0.9, .tokens = 4}}, beside_one, cost) == (Taken{4}));
}

BOOST_AUTO_TEST_CASE(steps_of_more_rows_than_are_measured_have_guesses) {
  const std::vector<DraftOffer> offers(150, DraftOffer{.chance = 0.95, .tokens = 1});
  BOOST_TEST(chosen(offers, {.most = 150}, RowCost()) == Taken(150, 1));
}

BOOST_AUTO_TEST_CASE(a_guess_that_was_taken_back_does_not_count) {
  GuessRecord record;
  record.offer(std::vector<TokenId>{1, 2}, GuessSource::policy);
  record.take(2);
  record.stop();
  record.verify(1);  // computed again, without guesses
  BOOST_TEST((record.counts() == GuessCounts{0, 0, 0, 0}));
}

BOOST_AUTO_TEST_CASE(likely_guesses_go_first_and_the_limit_holds) {
  const RowCost free = measured(1, 0);
  BOOST_TEST(chosen({{.chance = 0.2, .tokens = 4}, {.chance = 0.9, .tokens = 3}}, {.most = 4}, free) == (Taken{1, 3}));
  BOOST_TEST(chosen({{.chance = 0.5, .tokens = 4}, {.chance = 0.5, .tokens = 4}}, {.most = 1}, free) == (Taken{1, 0}));
}

BOOST_AUTO_TEST_CASE(others_are_not_delayed) {
  const RowCost cost = measured(1, 0.005);
  BOOST_TEST(chosen({{.chance = 1, .tokens = 8}}, {}, cost) == (Taken{8}));
  BOOST_TEST(chosen({{.chance = 1, .tokens = 8}}, {.has_others = true}, cost) == (Taken{4}));
  // A sequence with a bad guess gains nothing from the good guesses of its neighbour.
  const std::vector<int> taken =
      chosen({{.chance = 0.99, .tokens = 8}, {.chance = 0.001, .tokens = 1}}, {.rows = 2}, measured(1, 0.06));
  BOOST_TEST(taken == (Taken{0, 0}));
  BOOST_TEST(chosen({{.chance = 0.99, .tokens = 8}, {.chance = 0.95, .tokens = 8}}, {.rows = 2}, measured(1, 0.06)) ==
             (Taken{8, 8}));
}

BOOST_AUTO_TEST_CASE(a_record_follows_recent_guesses) {
  GuessRecord record;
  const std::vector<TokenId> guesses = {1, 2, 3};
  BOOST_TEST(record.chance() == 0.5);
  for (int i = 0; i < 50; ++i) {
    record.offer(guesses, GuessSource::policy);
    for (const TokenId token : guesses) record.verify(token);
  }
  BOOST_TEST(record.chance() > 0.99);
  const double before = record.chance();
  record.verify(9);  // nothing was guessed for it
  BOOST_TEST(record.chance() == before);
  record.offer(guesses, GuessSource::policy);
  record.verify(7);
  record.verify(2);  // stands where the text would have been another
  BOOST_TEST(record.chance() < before);
  BOOST_TEST(record.chance() > 0.85);
}

BOOST_AUTO_TEST_CASE(each_source_has_its_own_chance_and_counts) {
  GuessRecord record;
  const std::vector<TokenId> guesses = {1, 2, 3};
  record.offer(guesses, GuessSource::prediction);
  record.take(2);
  for (const TokenId token : guesses) record.verify(token);  // the third was right, and was not in the step
  BOOST_TEST(record.chance() > 0.8);
  record.offer(guesses, GuessSource::policy);
  record.take(3);
  BOOST_TEST(record.chance() == 0.5);
  record.verify(9);
  BOOST_TEST(record.chance() < 0.5);
  BOOST_TEST((record.counts() == GuessCounts{5, 2, 2, 2}));
}

BOOST_AUTO_TEST_SUITE_END()
