#include "serve/api/rate_limit.h"

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <thread>
#include <vector>

#include "serve/api/api_error.h"
#include "serve/api/tenants.h"

BOOST_AUTO_TEST_SUITE(server_rate_limit)

using namespace serve;
using namespace std::chrono_literals;
using tenon::TimePoint;

namespace {

constexpr auto kNone = MinuteBudget::Duration::zero();
const TimePoint kStart = TimePoint{} + 1h;

double seconds(MinuteBudget::Duration time) { return std::chrono::duration<double>(time).count(); }

KeyTerms terms(std::int64_t requests, std::int64_t tokens) {
  return {.name = "a", .requests_a_minute = requests, .tokens_a_minute = tokens};
}

// The error of an act, or "".
template <class Act>
std::string refusal(Act act, int* retry_after = nullptr) {
  try {
    act();
    return "";
  } catch (const ApiError& error) {
    BOOST_TEST((error.kind == ApiError::Kind::rate_limited));
    if (retry_after) *retry_after = error.retry_after;
    return error.what();
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_minutes_budget_is_there_at_once_and_comes_back_evenly) {
  MinuteBudget budget(60);
  for (int i = 0; i < 60; ++i) BOOST_TEST((budget.take(1, kStart) == kNone));
  BOOST_TEST(budget.remaining(kStart) == 0);
  BOOST_TEST(seconds(budget.take(1, kStart)) == 1, boost::test_tools::tolerance(1e-6));
  BOOST_TEST(seconds(budget.reset(kStart)) == 60, boost::test_tools::tolerance(1e-6));
  BOOST_TEST((budget.take(1, kStart + 999ms) != kNone));
  BOOST_TEST((budget.take(1, kStart + 1000ms) == kNone));
  BOOST_TEST(budget.remaining(kStart + 31s) == 30);
  BOOST_TEST(budget.remaining(kStart + 1h) == 60);  // no more than a minute's
}

// In m minutes at most limit x (m + 1) is used: a full account, and what is added to it.
BOOST_AUTO_TEST_CASE(the_rate_holds_whatever_comes) {
  MinuteBudget budget(100);
  std::int64_t used = 0;
  for (int ms = 0; ms < 300'000; ms += 7) {
    const std::int64_t amount = ms % 13;
    if (budget.take(amount, kStart + std::chrono::milliseconds(ms)) == kNone) used += amount;
  }
  BOOST_TEST(used <= 600);
  BOOST_TEST(used >= 590);
}

BOOST_AUTO_TEST_CASE(more_than_a_minutes_budget_needs_a_full_one_and_is_repaid) {
  MinuteBudget budget(60);
  BOOST_TEST((budget.take(180, kStart) == kNone));
  BOOST_TEST(budget.remaining(kStart) == 0);
  BOOST_TEST(seconds(budget.take(1, kStart)) == 121, boost::test_tools::tolerance(1e-6));
  BOOST_TEST(seconds(budget.take(500, kStart)) == 180, boost::test_tools::tolerance(1e-6));
  BOOST_TEST((budget.take(180, kStart + 180s) == kNone));
  budget.give_back(170);  // of it 10 were used
  BOOST_TEST(budget.remaining(kStart + 180s) == 50);
  budget.give_back(1000);
  BOOST_TEST(budget.remaining(kStart + 180s) == 60);
  budget.give_back(-100);  // more was used than taken
  BOOST_TEST((budget.take(1, kStart + 220s) != kNone));
  BOOST_TEST((budget.take(1, kStart + 221s) == kNone));
}

BOOST_AUTO_TEST_CASE(without_a_limit_all_is_there) {
  MinuteBudget budget;
  BOOST_TEST((budget.take(1'000'000'000, kStart) == kNone));
  BOOST_TEST(budget.limit() == 0);
  BOOST_TEST((budget.reset(kStart) == kNone));
}

BOOST_AUTO_TEST_CASE(a_new_limit_is_no_new_minute) {
  MinuteBudget budget(10);
  BOOST_TEST((budget.take(10, kStart) == kNone));
  budget.set_limit(20);
  BOOST_TEST(budget.remaining(kStart) == 10);
  budget.set_limit(5);
  BOOST_TEST(budget.remaining(kStart) == 0);
  budget.set_limit(0);
  BOOST_TEST((budget.take(100, kStart) == kNone));
  budget.set_limit(7);
  BOOST_TEST(budget.remaining(kStart) == 7);
}

BOOST_AUTO_TEST_CASE(a_refusal_says_when_to_come_back_and_names_no_key) {
  Tenant tenant(1, terms(2, 600));
  tenant.take_request(kStart);
  tenant.take_request(kStart);
  int seconds = 0;
  BOOST_TEST(refusal([&] { tenant.take_request(kStart); }, &seconds) ==
             "this key may use 2 requests a minute; try again in 30s");
  BOOST_TEST(seconds == 30);
  tenant.give_back_request();
  tenant.take_request(kStart);
  tenant.take_tokens(595, kStart);
  tenant.settle_tokens(595, 595);
  BOOST_TEST(refusal([&] { tenant.take_tokens(6, kStart); }, &seconds) ==
             "this key may use 600 tokens a minute; try again in 100ms");
  BOOST_TEST(seconds == 1);
  tenant.settle_tokens(1, 0);
  tenant.take_tokens(6, kStart);
}

BOOST_AUTO_TEST_CASE(the_time_to_wait_leaves_out_what_running_requests_may_give_back) {
  Tenant tenant(1, terms(0, 60));
  int seconds = 0;
  tenant.take_tokens(20, kStart);
  tenant.settle_tokens(20, 20);
  tenant.take_tokens(40, kStart);  // runs
  refusal([&] { tenant.take_tokens(30, kStart); }, &seconds);
  BOOST_TEST(seconds == 1);
  refusal([&] { tenant.take_tokens(50, kStart); }, &seconds);
  BOOST_TEST(seconds == 10);
  tenant.settle_tokens(40, 10);
  tenant.take_tokens(30, kStart);
  tenant.settle_tokens(30, 30);
  refusal([&] { tenant.take_tokens(30, kStart); }, &seconds);
  BOOST_TEST(seconds == 30);
  tenant.take_tokens(100, kStart + 1h);  // in debt while it runs
  refusal([&] { tenant.take_tokens(50, kStart + 1h); }, &seconds);
  BOOST_TEST(seconds == 1);
}

BOOST_AUTO_TEST_CASE(headers_are_openais) {
  Tenant both(1, terms(60, 6000)), one(1, terms(0, 6000)), none(1, terms(0, 0));
  both.take_request(kStart);
  both.take_tokens(6000, kStart);
  HttpResponse response;
  both.tell(response, kStart);
  for (const auto& [name, value] : {std::pair{"limit-requests", "60"},
                                    {"remaining-requests", "59"},
                                    {"reset-requests", "1s"},
                                    {"limit-tokens", "6000"},
                                    {"remaining-tokens", "0"},
                                    {"reset-tokens", "1m0s"}})
    BOOST_TEST(response.header(std::string("x-ratelimit-") + name) == value, name);
  response = {};
  both.tell(response, kStart + 58'500ms);
  BOOST_TEST(response.header("x-ratelimit-reset-tokens") == "1.5s");
  response = {};
  one.tell(response, kStart);
  BOOST_TEST(response.headers.size() == 3u);
  BOOST_TEST(response.header("x-ratelimit-reset-tokens") == "0ms");
  response = {};
  none.tell(response, kStart);
  BOOST_TEST(response.headers.empty());
}

BOOST_AUTO_TEST_CASE(threads_together_take_no_more_than_there_is) {
  Tenant tenant(1, terms(1000, 0));
  std::atomic<int> taken{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) taken += refusal([&] { tenant.take_request(kStart); }).empty();
    });
  }
  for (std::thread& each : threads) each.join();
  BOOST_TEST(taken == 1000);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(server_tenants)

using namespace serve;

namespace {

ApiKeys keys(std::vector<std::string> lines) { return ApiKeys(lines); }

}  // namespace

BOOST_AUTO_TEST_CASE(keys_of_one_name_are_one_client) {
  const Tenants tenants(keys({"k1 name=a", "k2 name=a", "k3"}));
  const auto a = tenants.find("Bearer k1", "");
  BOOST_REQUIRE(a);
  BOOST_TEST(a->name() == "a");
  BOOST_TEST(tenants.find("", "k2") == a);
  const auto third = tenants.find("Bearer k3", "");
  BOOST_TEST(third->client() != a->client());
  BOOST_TEST(third->name().starts_with("key-"));
  BOOST_TEST(!tenants.find("Bearer k4", ""));
  BOOST_TEST(tenants.required());
  BOOST_TEST(!Tenants(ApiKeys()).required());
  BOOST_TEST(!Tenants(ApiKeys()).find("Bearer k1", ""));
}

BOOST_AUTO_TEST_CASE(new_keys_keep_what_a_name_has_used) {
  Tenants tenants(keys({"k1 name=a requests-a-minute=1", "k2 name=b"}));
  const auto a = tenants.find("", "k1"), b = tenants.find("", "k2");
  a->take_request(tenon::Clock::now());
  tenants.replace(keys({"k9 name=c", "k3 name=a requests-a-minute=1 roles=serve", "k4 name=b roles=metrics"}));
  BOOST_TEST(!tenants.find("", "k1"));
  BOOST_TEST(tenants.find("", "k3") == a);
  BOOST_TEST(tenants.find("", "k4") == b);
  BOOST_CHECK_THROW(a->take_request(tenon::Clock::now()), ApiError);
  BOOST_TEST((a->may(kServeRole) && !a->may(kMetricsRole | kAdminRole)));
  BOOST_TEST((b->may(kMetricsRole) && !b->may(kServeRole)));
  const auto c = tenants.find("", "k9");
  BOOST_TEST((c->client() != a->client() && c->client() != b->client()));
}

BOOST_AUTO_TEST_CASE(a_caller_is_its_key_or_its_address) {
  struct Peer final : HttpPeer {
    bool gone() const override { return false; }
    std::string address() const override { return "192.0.2.1"; }
  };
  const Tenants tenants(keys({"k1"}));
  HttpRequest request;
  request.peer = std::make_shared<Peer>();
  BOOST_TEST(tenants.caller_of(request).client < 0);
  BOOST_TEST(!tenants.caller_of(request).tenant);
  request.headers = {{"x-api-key", "k1"}};
  BOOST_TEST(tenants.caller_of(request).client == tenants.find("", "k1")->client());
}

BOOST_AUTO_TEST_SUITE_END()
