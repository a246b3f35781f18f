// Pickles as data, written by hand.
#include "tenon/checkpoint/pickle.h"

#include <boost/test/unit_test.hpp>
#include <limits>

#include "../io/scratch.h"

BOOST_AUTO_TEST_SUITE(checkpoint_pickle)

using namespace tenon;
using tenon::test::mentions;
using tenon::test::refusal;
using Kind = PickleValue::Kind;

namespace {

Pickle read(std::string_view bytes) { return read_pickle(bytes, "x.bin"); }

std::string refused(std::string_view bytes) {
  return refusal([&] { read(bytes); });
}

// A literal with NUL bytes in it.
template <std::size_t N>
constexpr std::string_view literal(const char (&text)[N]) {
  return {text, N - 1};
}

}  // namespace

BOOST_AUTO_TEST_CASE(integers_have_their_sign) {
  const auto integer = [](std::string_view bytes) {
    const Pickle pickle = read(bytes);
    BOOST_CHECK(pickle.at(pickle.root).kind == Kind::integer);
    return pickle.at(pickle.root).number;
  };
  BOOST_TEST(integer(literal("K\xff.")) == 255);
  BOOST_TEST(integer(literal("M\xff\xff.")) == 65535);
  BOOST_TEST(integer(literal("J\xff\xff\xff\xff.")) == -1);
  BOOST_TEST(integer(literal("\x8a\x00.")) == 0);
  BOOST_TEST(integer(literal("\x8a\x01\x80.")) == -128);
  BOOST_TEST(integer(literal("\x8a\x02\x80\x00.")) == 128);
  BOOST_TEST(integer(literal("\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80.")) == std::numeric_limits<std::int64_t>::min());
  const Pickle large = read(literal("\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01."));
  BOOST_CHECK(large.at(large.root).kind == Kind::large);
  BOOST_TEST(large.at(large.root).text == literal("\x00\x00\x00\x00\x00\x00\x00\x00\x01"));
}

BOOST_AUTO_TEST_CASE(a_value_can_be_used_again) {
  // d = {}; d["a"] = d["b"] = [1]; [1] grows afterwards
  const Pickle pickle =
      read(literal("}q\x00(X\x01\x00\x00\x00"
                   "a]q\x01X\x01\x00\x00\x00"
                   "bh\x01uh\x01K\x01"
                   "a0."));
  const PickleValue& dict = pickle.at(pickle.root);
  BOOST_REQUIRE(dict.entries.size() == 4u);
  BOOST_TEST(pickle.at(dict.entries[0]).text == "a");
  BOOST_TEST(dict.entries[1] == dict.entries[3]);
  BOOST_TEST(pickle.at(dict.entries[1]).items.size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_call_is_described_and_not_made) {
  const Pickle pickle =
      read(literal("cos\nsystem\nX\x04\x00\x00\x00"
                   "exit\x85R."));
  const PickleValue& call = pickle.at(pickle.root);
  BOOST_CHECK(call.kind == Kind::call);
  BOOST_TEST(pickle.at(call.items[0]).text == "os");
  BOOST_TEST(pickle.at(call.items[0]).name == "system");
  BOOST_TEST(pickle.at(pickle.at(call.items[1]).items[0]).text == "exit");
}

BOOST_AUTO_TEST_CASE(the_length_is_that_of_the_pickle) { BOOST_TEST(read("N.more").bytes == 2u); }

BOOST_AUTO_TEST_CASE(broken_pickles_are_refused) {
  for (const std::string_view bytes : {literal(""),
                                       literal("N"),
                                       literal("."),
                                       literal("X\x05\x00\x00\x00"
                                               "ab."),
                                       literal("X\xff\xff\xff\xff"
                                               "ab."),
                                       literal("t."),
                                       literal("e."),
                                       literal("(e."),
                                       literal("N(e."),
                                       literal("]N(\x85."),
                                       literal("Na."),
                                       literal("NNNs."),
                                       literal("}(Nu."),
                                       literal("h\x00."),
                                       literal("r\xff\xff\xff\xff."),
                                       literal("Nr\xff\xff\xff\xff."),
                                       literal("cos\nsystem"),
                                       literal("NNR."),
                                       literal("NN\x93."),
                                       literal("\x80\x06N."),
                                       literal("Nb."),
                                       literal("\x8d\xff\xff\xff\xff\xff\xff\xff\xffN.")})
    BOOST_TEST(mentions(refused(bytes), {"x.bin"}), bytes);
  BOOST_TEST(mentions(refused("I1\n."), {"instruction 73"}));
  BOOST_TEST(mentions(refused(std::string(5'000'000, '(') + "."), {"marks"}));
  BOOST_TEST(mentions(refused(std::string(5'000'000, 'N') + "."), {"values"}));
}

BOOST_AUTO_TEST_SUITE_END()
