// Whether a policy obeys laws, and whether a wrong one breaks a certain law.
#pragma once
#include <boost/test/unit_test.hpp>
#include <string>

#include "tenon/testing/random.h"

namespace tenon::test {

inline void obeys(const testing::Violations& violations) {
  for (const auto& v : violations) BOOST_ERROR(v);
  BOOST_TEST(violations.empty());
}

inline bool breaks(const testing::Violations& violations, const std::string& words) {
  for (const auto& v : violations) {
    if (v.find(words) != std::string::npos) return true;
  }
  return false;
}

}  // namespace tenon::test
