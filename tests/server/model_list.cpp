#include "serve/api/model_list.h"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <string>
#include <thread>

BOOST_AUTO_TEST_SUITE(server_model_list)

using namespace std::chrono_literals;

BOOST_AUTO_TEST_CASE(it_is_made_once_and_anew_when_it_is_forgotten) {
  serve::ModelCatalog list;
  int made = 0;
  const auto make = [&] { return std::to_string(++made); };
  BOOST_TEST(list.body(make) == "1");
  BOOST_TEST(list.body(make) == "1");
  list.forget();
  BOOST_TEST(list.body(make) == "2");
  BOOST_TEST(list.body(make) == "2");
}

// 1 s, or 20 times as long as it took.
BOOST_AUTO_TEST_CASE(it_grows_old) {
  serve::ModelCatalog list;
  int made = 0;
  const auto make = [&] { return std::to_string(++made); };
  list.body(make);
  std::this_thread::sleep_for(1100ms);
  BOOST_TEST(list.body(make) == "2");
  serve::ModelCatalog slow;
  const auto take_time = [&] {
    std::this_thread::sleep_for(100ms);
    return make();
  };
  const std::string first = slow.body(take_time);
  std::this_thread::sleep_for(1100ms);
  BOOST_TEST(slow.body(take_time) == first);
}

BOOST_AUTO_TEST_SUITE_END()
