// The main() of the programs whose files are suites.
#define BOOST_TEST_MODULE tenon
#include <boost/test/unit_test.hpp>
