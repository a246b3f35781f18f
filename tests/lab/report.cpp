#include "tenon/lab/report.h"

#include <boost/test/unit_test.hpp>

#include "tenon/io/json.h"
#include "tenon/schedule/continuous.h"
#include "tenon/schedule/fair.h"
#include "tenon/schedule/static.h"

BOOST_AUTO_TEST_SUITE(lab_report)

using namespace tenon;
using namespace tenon::lab;
using namespace std::chrono_literals;

namespace {

// Three served requests and a refused one, with round numbers.
ReplayResult by_hand() {
  ReplayResult result;
  result.requests = {
      {.adapter = 0,
       .prompt_tokens = 10,
       .new_tokens = 3,
       .arrival = 0ms,
       .admitted = 10ms,
       .first_token = 30ms,
       .finished = 70ms},
      {.adapter = 1,
       .prompt_tokens = 20,
       .new_tokens = 1,
       .arrival = 100ms,
       .admitted = 100ms,
       .first_token = 150ms,
       .finished = 150ms},
      {.prompt_tokens = 999, .new_tokens = 9, .arrival = 100ms, .refused = true},
      {.adapter = 0,
       .prompt_tokens = 30,
       .new_tokens = 5,
       .arrival = 150ms,
       .admitted = 190ms,
       .first_token = 210ms,
       .finished = 250ms,
       .preemptions = 1},
  };
  result.stays = {{.slot = 0, .request = 0, .begin = 10ms, .end = 70ms, .first_step = 0, .last_step = 2},
                  {.slot = 1, .request = 1, .begin = 100ms, .end = 150ms, .first_step = 3, .last_step = 3},
                  {.slot = 0, .request = 3, .begin = 190ms, .end = 220500us, .first_step = 4, .last_step = 5},
                  {.slot = 0, .request = 3, .begin = 230ms, .end = 250ms, .first_step = 6, .last_step = 8}};
  result.adapters = {{.adapter = 0, .contended_service = 30, .contended = 10s},
                     {.adapter = 1, .contended_service = 10, .contended = 10s},
                     {.adapter = 2, .contended_service = 0, .contended = 0s}};
  result.steps = 8;
  result.sequences = 10;
  result.preemptions = 1;
  result.prefix_hit_tokens = 16;
  result.end = 250ms;
  result.busy = 200ms;
  return result;
}

}  // namespace

BOOST_AUTO_TEST_CASE(percentiles_by_hand) {
  const std::vector<double> one = {7}, two = {1, 3}, five = {15, 20, 35, 40, 50};
  BOOST_TEST(percentile({}, 50) == 0);
  for (const double p : {0.0, 50.0, 99.0, 100.0}) BOOST_TEST(percentile(one, p) == 7);
  BOOST_TEST(percentile(two, 0) == 1);
  BOOST_TEST(percentile(two, 25) == 1.5);
  BOOST_TEST(percentile(two, 50) == 2);
  BOOST_TEST(percentile(two, 100) == 3);
  BOOST_TEST(percentile(five, 50) == 35);
  BOOST_TEST(percentile(five, 40) == 29);  // numpy.percentile([15, 20, 35, 40, 50], 40)
  BOOST_TEST(percentile(five, 75) == 40);
  BOOST_TEST(percentile(five, 95) == 48, boost::test_tools::tolerance(1e-12));
  std::vector<double> hundred;
  for (int i = 0; i <= 100; ++i) hundred.push_back(i);
  for (const double p : {1.0, 50.0, 95.0, 99.0})
    BOOST_TEST(percentile(hundred, p) == p, boost::test_tools::tolerance(1e-12));
}

BOOST_AUTO_TEST_CASE(a_spread_sorts) {
  BOOST_CHECK((spread({3, 1, 2}) == Spread{.mean = 2, .p50 = 2, .p95 = 2.9, .p99 = 2.98}));
  BOOST_CHECK(spread({}) == Spread{});
}

BOOST_AUTO_TEST_CASE(jains_index_is_its_definition) {
  const auto index = [](std::vector<double> values) { return jain_index(values); };
  BOOST_TEST(index({1, 1, 1, 1}) == 1);
  BOOST_TEST(index({5, 0, 0, 0}) == 0.25);
  BOOST_TEST(index({1, 2, 3}) == 36.0 / (3 * 14));
  BOOST_TEST(index({10, 20, 30}) == index({1, 2, 3}),
             boost::test_tools::tolerance(1e-12));  // the index depends on shares, not on amounts
  BOOST_TEST(index({}) == 1);
  BOOST_TEST(index({0, 0}) == 1);
}

BOOST_AUTO_TEST_CASE(a_report_by_hand) {
  const Report r = report("mine", by_hand());
  BOOST_TEST(r.scheduler == "mine");
  BOOST_TEST(r.requests == 3U);
  BOOST_TEST(r.refused == 1U);
  BOOST_TEST(r.prompt_tokens == 60U);
  BOOST_TEST(r.new_tokens == 9U);
  BOOST_TEST(r.seconds == 0.25);
  BOOST_TEST(r.requests_per_second == 12);
  BOOST_TEST(r.tokens_per_second == 36);
  BOOST_TEST(r.occupancy == 1.25);
  BOOST_TEST(r.busy == 0.8);
  const auto near = boost::test_tools::tolerance(1e-12);
  BOOST_TEST(r.queue_ms.p50 == 10, near);  // 0, 10, 40
  BOOST_TEST(r.queue_ms.p95 == 37, near);
  BOOST_TEST(r.queue_ms.p99 == 39.4, near);
  BOOST_TEST(r.queue_ms.mean == 50.0 / 3, near);
  BOOST_TEST(r.first_token_ms.p50 == 50, near);     // 30, 50, 60
  BOOST_TEST(r.per_token_ms.p50 == 15, near);       // 20, 10; the second request has only one token
  BOOST_TEST(r.latency_ms.p50 == 70, near);         // 50, 70, 100
  BOOST_TEST(r.jain == 1600.0 / (2 * 1000), near);  // rates 3 and 1 per second; adapter 2 was never contended
}

BOOST_AUTO_TEST_CASE(nothing_gives_an_empty_report) {
  const Report r = report("none", replay(ContinuousPolicy{}, {}));
  BOOST_CHECK((r == Report{.scheduler = "none"}));
}

BOOST_AUTO_TEST_CASE(the_same_seed_gives_the_same_report) {
  const TraceOptions options{.requests = 200, .rate = 5, .adapters = 4, .seed = 8};
  const auto once = [&] { return report("fair", replay(FairPolicy{}, random_trace(options), {.cache_tokens = 2048})); };
  BOOST_CHECK(once() == once());
  BOOST_TEST(to_json(once()) == to_json(once()));
}

BOOST_AUTO_TEST_CASE(json_holds_every_member) {
  const Json json = parse_json(to_json(report("a \"b\"\n", by_hand())), "report");
  BOOST_TEST(json.size() == 18U);
  BOOST_TEST(json.at("scheduler").get<std::string>() == "a \"b\"\\x0a");
  BOOST_TEST(json.at("requests").get<int>() == 3);
  BOOST_TEST(json.at("refused").get<int>() == 1);
  BOOST_TEST(json.at("prefix_hit_tokens").get<int>() == 16);
  BOOST_TEST(json.at("tokens_per_second").get<double>() == 36);
  BOOST_TEST(json.at("queue_ms").at("p99").get<double>() == report("", by_hand()).queue_ms.p99);
  BOOST_TEST(json.at("jain").get<double>() == report("", by_hand()).jain);
}

BOOST_AUTO_TEST_CASE(a_table_has_a_column_for_each) {
  const std::vector<Report> reports = {report("mine", by_hand()), report("theirs", by_hand())};
  const std::string table = to_table(reports);
  const auto line = [&](const std::string& name) {
    const auto at = table.find("\n" + name + " ");
    return table.substr(at + 1, table.find('\n', at + 1) - at - 1);
  };
  BOOST_TEST(table.substr(0, table.find('\n')) == "                                  mine        theirs");
  BOOST_TEST(line("requests/s") == "requests/s                       12.00         12.00");
  BOOST_TEST(line("Jain's index") == "Jain's index                     0.800         0.800");
  BOOST_TEST(line("in the queue, ms, mean") == "in the queue, ms, mean            16.7          16.7");
}

BOOST_AUTO_TEST_CASE(slots_as_csv) {
  BOOST_TEST(slots_csv("mine", by_hand()) ==
             "mine,0,0,0,10,70,0,2\n"
             "mine,1,1,1,100,150,3,3\n"
             "mine,0,3,0,190,220.5,4,5\n"
             "mine,0,3,0,230,250,6,8\n");
}

BOOST_AUTO_TEST_CASE(slots_as_a_picture) {
  // A column is 10 ms. The picture shows its middle.
  BOOST_TEST(slots_picture(by_hand(), 25) ==
             ".AAAAAA............AAA.AA\n"
             "..........BBBBB..........\n");
  ReplayResult none = by_hand();
  for (RequestResult& r : none.requests) r.adapter = -1;
  BOOST_TEST(slots_picture(none, 25) ==
             ".AAAAAA............DDD.DD\n"
             "..........BBBBB..........\n");
  none.requests[0].adapter = 27;
  BOOST_TEST(slots_picture(none, 25) ==
             ".bbbbbb............---.--\n"
             "..........-----..........\n");
  BOOST_TEST(slots_picture({}, 25).empty());
}

BOOST_AUTO_TEST_CASE(experiment_6_as_a_picture) {
  Trace trace(32, {.prompt_tokens = 7, .new_tokens = 10});
  for (std::size_t i = 0; i < trace.size(); i += 8) trace[i].new_tokens = 100;
  const StepCost step_alone{.step = 1e-3, .row = 0, .context = 0};
  const auto result = replay(StaticPolicy{.n = 8}, trace, {.cost = step_alone});
  BOOST_TEST(slots_picture(result, 80)
                 .starts_with("AAAAAAAAAAAAAAAAAAAAIIIIIIIIIIIIIIIIIIIIQQQQQQQQQQQQQQQQQQQQYYYYYYYYYYYYYYYYYYYY\n"
                              "BB..................JJ..................RR..................ZZ..................\n"));
}

BOOST_AUTO_TEST_SUITE_END()
