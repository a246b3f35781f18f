#include "serve/api/admission.h"

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "serve/api/api_keys.h"
#include "serve/api/client_id.h"

BOOST_AUTO_TEST_SUITE(server_admission)

using serve::Admission;
using Ticket = std::optional<Admission::Ticket>;

BOOST_AUTO_TEST_CASE(places_and_work_are_given_back_when_a_ticket_goes) {
  Admission admission({.requests = 2, .sequences = 10, .tokens = 100});
  {
    Ticket one = admission.enter(1);
    BOOST_TEST_REQUIRE(one.has_value());
    BOOST_TEST(one->take({4, 40}));
    Admission::Ticket moved = std::move(*one);  // given back once
    one.reset();
    BOOST_TEST(admission.requests() == 1);
    BOOST_TEST(admission.work().sequences == 4);
    BOOST_TEST(admission.work().tokens == 40);
    Ticket two = admission.enter(1);
    BOOST_TEST(!admission.enter(1).has_value());
    BOOST_TEST(admission.requests() == 2);  // a refusal takes nothing
  }
  BOOST_TEST(admission.requests() == 0);
  BOOST_TEST(admission.work().sequences == 0);
  BOOST_TEST(admission.work().tokens == 0);
}

BOOST_AUTO_TEST_CASE(sequences_and_tokens_count_not_requests) {
  Admission admission({.requests = 100, .sequences = 10, .tokens = 100});
  Ticket first = admission.enter(1), second = admission.enter(1), third = admission.enter(1);
  BOOST_TEST(first->take({8, 8}));
  BOOST_TEST(!second->take({3, 3}));
  BOOST_TEST(!third->take({1, 93}));
  BOOST_TEST(admission.work().sequences == 8);  // refusals take nothing
  BOOST_TEST(second->take({2, 92}));
  BOOST_TEST(!third->take({1, 1}));
  second.reset();
  BOOST_TEST(third->take({1, 1}));
}

BOOST_AUTO_TEST_CASE(nobody_takes_all_of_it) {
  Admission admission({.requests = 4, .guests = 1, .sequences = 10, .tokens = 100});
  std::vector<Admission::Ticket> hoard;
  for (int i = 0; i < 4; ++i) hoard.push_back(std::move(*admission.enter(1)));
  BOOST_TEST(hoard[0].take({500, 9000}));  // the first of a client always fits: refusing it would be for ever
  BOOST_TEST(!hoard[1].take({1, 1}));
  BOOST_TEST(!admission.enter(1).has_value());
  Ticket guest = admission.enter(2);
  BOOST_TEST_REQUIRE(guest.has_value());
  BOOST_TEST(guest->take({1, 50}));
  BOOST_TEST(!admission.enter(2).has_value());  // no guest any more
  BOOST_TEST(!admission.enter(3).has_value());  // the place is taken
}

BOOST_AUTO_TEST_CASE(who_has_half_of_the_places_leaves_the_last_quarter_to_others) {
  Admission admission({.requests = 8, .guests = 1});
  std::vector<Ticket> hoard, others;
  while (hoard.size() < 8) BOOST_TEST_REQUIRE(hoard.emplace_back(admission.enter(1)).has_value());  // alone, it has all
  others.push_back(admission.enter(2));
  BOOST_TEST(others.back().has_value());
  hoard.resize(5);  // 6 are under way
  BOOST_TEST(!admission.enter(1).has_value());
  for (int i = 0; i < 2; ++i) BOOST_TEST(others.emplace_back(admission.enter(2)).has_value());
  BOOST_TEST(!admission.enter(2).has_value());
  hoard.resize(3);
  BOOST_TEST(admission.enter(1).has_value());  // no more than its share
}

BOOST_AUTO_TEST_CASE(many_threads_leave_it_empty) {
  Admission admission({.requests = 7, .guests = 2, .sequences = 20, .tokens = 200});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2000; ++i) {
        Ticket ticket = admission.enter(t % 3);
        if (ticket) ticket->take({1 + (i + t) % 5, 10});
      }
    });
  }
  for (auto& thread : threads) thread.join();
  BOOST_TEST(admission.requests() == 0);
  BOOST_TEST(admission.work().tokens == 0);
}

// A share bounds one client, however much is free.
BOOST_AUTO_TEST_CASE(a_client_has_its_share_and_no_more) {
  Admission admission({.requests = 100, .sequences = 100, .tokens = 1000});
  const serve::Share share{.requests = 2, .tokens = 100};
  Ticket one = admission.enter(1, share), two = admission.enter(1, share);
  BOOST_TEST(!admission.enter(1, share).has_value());
  BOOST_TEST(admission.enter(2, share).has_value());
  BOOST_TEST(one->take({1, 300}));  // its only work may be larger
  BOOST_TEST(!two->take({1, 1}));
  one.reset();
  Ticket third = admission.enter(1, share);
  BOOST_TEST(third->take({1, 60}));
  BOOST_TEST(!two->take({1, 41}));
  BOOST_TEST(two->take({1, 40}));
}

// A burst of clients that ask three times, as OpenAI's library does: Retry-After lets all of them in.
BOOST_AUTO_TEST_CASE(refused_clients_come_back_when_places_are_free) {
  using Seconds = std::chrono::duration<double>;
  constexpr int kClients = 100, kTries = 3;
  for (const double takes : {0.2, 3.0, 9.0, 18.0, 35.0}) {
    tenon::TimePoint now{};
    Admission admission({.requests = 64}, [&] { return now; });
    std::map<tenon::TimePoint, std::vector<std::function<void()>>> due;
    const auto after = [&](double seconds, std::function<void()> act) {
      due[now + std::chrono::duration_cast<tenon::Clock::duration>(Seconds(seconds))].push_back(std::move(act));
    };
    int answered = 0;
    const std::function<void(int)> ask = [&](int tries) {
      auto ticket = admission.enter(1);
      if (ticket) {
        auto held = std::make_shared<Admission::Ticket>(std::move(*ticket));
        return after(takes, [&, held]() mutable { held.reset(), ++answered; });
      }
      const int wait = admission.retry_after();
      BOOST_TEST((wait >= 1 && wait <= 60));
      if (tries > 1) after(wait, [&, tries] { ask(tries - 1); });
    };
    for (int i = 0; i < kClients; ++i) ask(kTries);
    while (!due.empty()) {
      now = due.begin()->first;
      const auto acts = std::move(due.begin()->second);
      due.erase(due.begin());
      for (const auto& act : acts) act();
    }
    BOOST_TEST(answered == kClients, takes);
  }
}

BOOST_AUTO_TEST_CASE(waits_fit_the_load) {
  using namespace std::chrono_literals;
  tenon::TimePoint now{};
  Admission admission({.requests = 4}, [&] { return now; });
  BOOST_TEST(admission.retry_after() == 1);  // nothing is under way
  {
    Ticket one = admission.enter(1);
    now += 8s;
  }
  std::vector<Admission::Ticket> held;
  for (int i = 0; i < 4; ++i, now += 2s) held.push_back(std::move(*admission.enter(1)));
  // Ages of 8, 6, 4 and 2 s: a request takes 10 s, and a place becomes free every 2.5 s, the first in 2 s.
  for (int turn = 0; turn < 100; ++turn)
    for (const int wait : {2, 5, 7, 10}) BOOST_TEST(admission.retry_after() == wait);  // four places, no promise beyond
  now += 100s;
  BOOST_TEST(admission.retry_after() <= 60);
  for (int i = 0; i < 1000; ++i) BOOST_TEST(admission.retry_after() <= 60);
}

BOOST_AUTO_TEST_CASE(a_client_is_its_key_or_its_address) {
  using serve::client_of_address;
  const serve::ApiKeys keys(std::vector<std::string>{"one", "two", "one"});
  BOOST_TEST(keys.terms(1).name == keys.terms(3).name);
  BOOST_TEST(keys.number("Bearer one", "") == 1);
  BOOST_TEST(keys.number("", "two") == 2);
  BOOST_TEST(keys.number("Bearer two", "one") == 2);
  BOOST_TEST(keys.number("Bearer three", "") == 0);
  BOOST_TEST(client_of_address("192.0.2.1") < 0);
  BOOST_TEST(client_of_address("192.0.2.1") != client_of_address("192.0.2.2"));
  BOOST_TEST(client_of_address("192.0.2.1") == client_of_address("::ffff:192.0.2.1"));
  BOOST_TEST(client_of_address("2001:db8:0:1::1") == client_of_address("2001:db8:0:1:ffff::2"));  // one /64
  BOOST_TEST(client_of_address("2001:db8:0:1::1") != client_of_address("2001:db8:0:2::1"));
  BOOST_TEST(client_of_address("") < 0);
}

BOOST_AUTO_TEST_SUITE_END()
