#include "serve/api/gate.h"

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(server_gate)

using serve::Gate;

BOOST_AUTO_TEST_CASE(places_are_given_back_when_a_ticket_goes) {
  Gate gate(10);
  {
    const auto four = gate.enter(4), six = gate.enter(6);
    BOOST_TEST((four && six));
    BOOST_TEST(gate.taken() == 10);
    BOOST_TEST(!gate.enter());
  }
  BOOST_TEST(gate.taken() == 0);
  BOOST_TEST(!gate.enter(11));
  BOOST_TEST(gate.taken() == 0);  // a refusal takes nothing
  BOOST_TEST(gate.enter(10).has_value());
}

BOOST_AUTO_TEST_CASE(a_ticket_that_moves_is_given_back_once) {
  Gate gate(10);
  std::optional<Gate::Ticket> kept;
  {
    auto ticket = gate.enter(3);
    kept = std::move(ticket);
  }
  BOOST_TEST(gate.taken() == 3);
  kept = gate.enter(5);  // the other goes with the temporary
  BOOST_TEST(gate.taken() == 5);
  std::vector<Gate::Ticket> more;
  more.push_back(std::move(*kept));
  kept.reset();
  BOOST_TEST(gate.taken() == 5);
  more.clear();
  BOOST_TEST(gate.taken() == 0);
}

BOOST_AUTO_TEST_CASE(no_more_are_in_than_fit) {
  Gate gate(7);
  std::atomic<int> in{0}, most{0}, entered{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2000; ++i) {
        const int places = 1 + (i + t) % 5;
        const auto ticket = gate.enter(places);
        if (!ticket) continue;
        ++entered;
        const int now = in += places;
        for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
        }
        in -= places;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  BOOST_TEST(most <= 7);
  BOOST_TEST(entered >= 2000);
  BOOST_TEST(gate.taken() == 0);
}

BOOST_AUTO_TEST_SUITE_END()
