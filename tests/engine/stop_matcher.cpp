#include "tenon/engine/stop_matcher.h"

#include <boost/test/unit_test.hpp>
#include <random>
#include <string>

BOOST_AUTO_TEST_SUITE(engine_stop_matcher)

using namespace tenon;

namespace {

struct Fed {
  std::string text;
  bool stopped;
};

Fed feed(const std::vector<std::string>& stops, const std::vector<std::string>& pieces) {
  StopMatcher matcher(stops);
  Fed fed{};
  for (const auto& piece : pieces) fed.text += matcher.push(piece);
  fed.text += matcher.finish();
  fed.stopped = matcher.stopped();
  return fed;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_stop_string_ends_the_text_before_it) {
  const auto fed = feed({"."}, {"One", ". Two."});
  BOOST_TEST(fed.text == "One");
  BOOST_TEST(fed.stopped);
}

BOOST_AUTO_TEST_CASE(a_stop_string_is_found_across_pieces) {
  const auto fed = feed({"the end"}, {"this is t", "he", " en", "d of it"});
  BOOST_TEST(fed.text == "this is ");
  BOOST_TEST(fed.stopped);
}

BOOST_AUTO_TEST_CASE(a_start_that_leads_nowhere_is_released) {
  StopMatcher matcher({"abc"});
  BOOST_TEST(matcher.push("xab") == "x");
  BOOST_TEST(matcher.push("d") == "abd");
  BOOST_TEST(!matcher.stopped());
}

// The text of the first tokens may hold stop strings, and one may begin in it (vLLM's min_tokens).
BOOST_AUTO_TEST_CASE(a_stop_string_is_not_found_before_it_may_be) {
  StopMatcher matcher({"abc", "b"});
  BOOST_TEST(matcher.push("xabc", false) == "xabc");
  BOOST_TEST(matcher.push("zab", false) == "z");
  BOOST_TEST(matcher.push("c!").empty());
  BOOST_TEST(matcher.stopped());
  StopMatcher other({"abc", "b"});
  BOOST_TEST(other.push("ab", false).empty());
  BOOST_TEST(other.push("x") == "abx");  // the b came too soon
  BOOST_TEST(other.push("yb") == "y");
  BOOST_TEST(other.stopped());
}

BOOST_AUTO_TEST_CASE(held_back_text_is_returned_at_the_end) {
  const auto fed = feed({"abc"}, {"xab"});
  BOOST_TEST(fed.text == "xab");
  BOOST_TEST(!fed.stopped);
}

BOOST_AUTO_TEST_CASE(the_earliest_of_several_wins) {
  BOOST_TEST(feed({"two", "one"}, {"a one two"}).text == "a ");
  BOOST_TEST(feed({"aab", "ab"}, {"aa", "ab"}).text == "a");
}

BOOST_AUTO_TEST_CASE(a_stop_string_may_stay_at_the_end) {
  const auto fed_with = [](const std::vector<std::string>& stops, const std::vector<std::string>& pieces) {
    StopMatcher matcher(stops, true);
    std::string text;
    for (const auto& piece : pieces) text += matcher.push(piece);
    return text + matcher.finish();
  };
  BOOST_TEST(fed_with({"the end"}, {"this is t", "he", " en", "d of it"}) == "this is the end");
  BOOST_TEST(fed_with({"two", "one"}, {"a one two"}) == "a one");
  BOOST_TEST(fed_with({"abc", "ab"}, {"xabcd"}) == "xab");  // which is complete first
  BOOST_TEST(fed_with({"ab", "abc"}, {"xabcd"}) == "xab");
  BOOST_TEST(fed_with({"abc"}, {"xab"}) == "xab");
}

BOOST_AUTO_TEST_CASE(special_tokens_may_be_left_out) {
  const Tokenizer tokenizer = Tokenizer::load(TENON_DEFAULT_MODEL_DIR);
  const TokenId end = *tokenizer.end_of_text();
  std::vector<TokenId> tokens = tokenizer.encode("It is");
  tokens.insert(tokens.begin() + 1, end);
  const auto text_of = [&](OutputText text) {
    std::string all;
    for (const TokenId token : tokens) all += text.push(token);
    return all + text.finish();
  };
  BOOST_TEST(text_of(OutputText(&tokenizer, {}, false, true)) == "It is");
  BOOST_TEST(text_of(OutputText(&tokenizer)) == "It<|endoftext|> is");
  // A stop string does not see them either.
  BOOST_TEST(text_of(OutputText(&tokenizer, {"It is"}, true, true)) == "It is");
  BOOST_TEST(text_of(OutputText(&tokenizer, {"<|"}, false, true)) == "It is");
}

// Cutting the text in other places changes nothing: the same as a search in the whole.
BOOST_AUTO_TEST_CASE(cuts_do_not_matter) {
  std::mt19937 random(7);
  const auto draw = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (int i = draw(20); i >= 0; --i) text += static_cast<char>('a' + draw(2));
    std::vector<std::string> stops;
    for (int s = draw(3); s >= 0; --s) {
      std::string stop;
      for (int i = draw(4); i >= 0; --i) stop += static_cast<char>('a' + draw(2));
      stops.push_back(stop);
    }
    std::vector<std::string> pieces;
    for (std::size_t at = 0; at < text.size();) {
      pieces.push_back(text.substr(at, static_cast<std::size_t>(1 + draw(5))));
      at += pieces.back().size();
    }
    // Piece by piece the first match is the one that is complete first.
    std::string expected = text;
    std::string seen;
    for (const auto& piece : pieces) {
      seen += piece;
      std::size_t first = std::string::npos;
      for (const auto& stop : stops) first = std::min(first, seen.find(stop));
      if (first != std::string::npos) {
        expected = text.substr(0, first);
        break;
      }
    }
    BOOST_REQUIRE_EQUAL(feed(stops, pieces).text, expected);
  }
}

BOOST_AUTO_TEST_SUITE_END()
