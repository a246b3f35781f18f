#include "tenon/schedule/sequence_table.h"

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(schedule_sequence_table)

using namespace tenon;

namespace {

struct Filled : SequenceTable {
  Filled() { sequences_[7].seq = 7; }
  using SequenceTable::at;
  using SequenceTable::find;
};

bool is_unknown(const Error& error) {
  return error.kind() == Error::Kind::internal && std::string(error.what()).find("no sequence 8") != std::string::npos;
}

}  // namespace

BOOST_AUTO_TEST_CASE(finds_sequences_by_their_ids) {
  Filled table;
  BOOST_TEST(!table.empty());
  BOOST_TEST((table.contains(7) && !table.contains(8)));
  BOOST_TEST(table.sequence(7).seq == 7u);
  BOOST_TEST(&table.at(7) == &table.sequence(7));
  BOOST_TEST(table.find(8) == nullptr);
}

BOOST_AUTO_TEST_CASE(an_unknown_one_is_an_error_that_names_it) {
  Filled table;
  BOOST_CHECK_EXCEPTION(table.sequence(8), Error, is_unknown);
  BOOST_CHECK_EXCEPTION(table.at(8), Error, is_unknown);
}

BOOST_AUTO_TEST_SUITE_END()
