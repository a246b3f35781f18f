#include "serve/api/api_keys.h"

#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <fstream>

#include "tenon/core/error.h"

BOOST_AUTO_TEST_SUITE(server_api_keys)

using namespace serve;

namespace {

struct KeyFile {
  std::filesystem::path path = std::filesystem::temp_directory_path() / ("tenon-keys-" + std::to_string(getpid()));
  explicit KeyFile(const std::string& text) { std::ofstream(path) << text; }
  ~KeyFile() { std::filesystem::remove(path); }
};

std::string refusal(const std::string& text) {
  const KeyFile file(text);
  try {
    ApiKeys().add_file(file.path);
  } catch (const tenon::Error& error) {
    return error.what();
  }
  return "accepted";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

}  // namespace

BOOST_AUTO_TEST_CASE(each_key_opens_by_either_header) {
  const ApiKeys keys({"sk-one", "Two.2_~+/=-"});
  BOOST_TEST(keys.required());
  for (const std::string key : {"sk-one", "Two.2_~+/=-"}) {
    for (const std::string scheme : {"Bearer ", "bearer ", "BEARER   ", " Bearer "})
      BOOST_TEST(keys.accepts(scheme + key, ""), scheme + key);
    BOOST_TEST(keys.accepts("", key));
    BOOST_TEST(keys.accepts("Bearer " + key + " ", ""));
    BOOST_TEST(keys.accepts("Bearer wrong", key));
    BOOST_TEST(keys.accepts("Basic abc", key));
    BOOST_TEST(keys.accepts("Bearer " + key, "wrong"));
  }
}

BOOST_AUTO_TEST_CASE(nothing_else_opens) {
  const ApiKeys keys({"sk-one", "sk-two"});
  for (const std::string header :
       {"", "Bearer", "Bearer ", "Bearersk-one", "sk-one", "Basic sk-one", "Bearer SK-ONE", "Bearer sk-on",
        "Bearer sk-one2", "Bearer sk-one sk-two", "Bearer\tsk-one", "Bearer sk-one,sk-two", "Token sk-one"})
    BOOST_TEST(!keys.accepts(header, ""), header);
  for (const std::string header : {"Bearer sk-one", "SK-ONE", "sk-one,", "sk-onesk-two"})
    BOOST_TEST(!keys.accepts("", header), header);
  BOOST_TEST(!keys.accepts(std::string("Bearer sk-one\0", 14), ""));
}

BOOST_AUTO_TEST_CASE(without_keys_none_is_required_and_none_is_good) {
  BOOST_TEST(!ApiKeys().required());
  BOOST_TEST(!ApiKeys().accepts("Bearer ", ""));
  BOOST_TEST(!ApiKeys(std::vector<std::string>{}).accepts("", ""));
}

BOOST_AUTO_TEST_CASE(a_file_has_a_key_a_line) {
  const KeyFile file("# comment\n\n  one  \r\n\ttwo\n#three\nfour");
  ApiKeys keys({"zero"});
  keys.add_file(file.path);
  BOOST_TEST(keys.count() == 4U);
  for (const std::string key : {"zero", "one", "two", "four"}) BOOST_TEST(keys.accepts("Bearer " + key, ""));
  BOOST_TEST(!keys.accepts("Bearer three", ""));
}

BOOST_AUTO_TEST_CASE(terms_stand_behind_a_key) {
  const KeyFile file(
      "plain\n"
      "k1 name=team-a roles=serve,metrics requests-a-minute=60 tokens-a-minute=100000\n"
      "k2\ttokens-at-once=5  requests-at-once=4 \r\n"
      "k3 name=team-a roles=metrics,serve tokens-a-minute=100000 requests-a-minute=60\n");
  ApiKeys keys;
  keys.add_file(file.path);
  const auto terms = [&](const std::string& key) { return keys.terms(keys.number("", key)); };
  BOOST_TEST(
      (terms("k1") ==
       KeyTerms{
           .name = "team-a", .roles = kServeRole | kMetricsRole, .requests_a_minute = 60, .tokens_a_minute = 100'000}));
  BOOST_TEST((terms("k3") == terms("k1")));
  BOOST_TEST(terms("k2").requests_at_once == 4);
  BOOST_TEST(terms("k2").tokens_at_once == 5);
  BOOST_TEST(terms("k2").roles == kEveryRole);
  BOOST_TEST(terms("plain").name == "key-a116c9ed");  // sha256sum
  BOOST_CHECK_THROW(keys.terms(0), std::out_of_range);
}

BOOST_AUTO_TEST_CASE(wrong_terms_are_refused_without_a_word_of_the_key) {
  for (const std::string bad :
       {"cret name=", "cret name=a/b", "cret roles=", "cret roles=all", "cret roles=serve,cret",
        "cret requests-a-minute=0", "cret tokens-a-minute=-1", "cret tokens-a-minute=1e9",
        "cret requests-at-once=99999999999999999999", "cret name=a name=a", "cret x=1", "cret cret",
        "cret =", "cret name", "good name=other", "k name=cret roles=serve\nk2 name=cret"}) {
    const std::string text = refusal("good\n" + bad + "\n");
    BOOST_TEST(has(text, bad.starts_with("k ") ? "line 3" : "line 2"), bad << ": " << text);
    BOOST_TEST(!has(text, "cret"), text);
  }
  BOOST_TEST(refusal("good\ngood\n") == "accepted");
}

BOOST_AUTO_TEST_CASE(errors_name_the_line_and_never_the_key) {
  for (const std::string bad : {"se%63ret", "se cret", "se\"cret",
                                "s\xc3\xa9"
                                "cret"}) {
    const std::string text = refusal("good\n# x\n" + bad + "\n");
    BOOST_TEST(has(text, "line 3"), text);
    BOOST_TEST(!has(text, "cret"), text);
  }
  BOOST_TEST(has(refusal(""), "has no key"));
  BOOST_TEST(has(refusal("# only\n\n"), "has no key"));
  BOOST_CHECK_THROW(ApiKeys().add_file("/nonexistent/keys"), tenon::Error);
  try {
    ApiKeys({"fine", "se%cret"});
    BOOST_ERROR("accepted");
  } catch (const tenon::Error& error) {
    BOOST_TEST(has(error.what(), "key 2"));
    BOOST_TEST(!has(error.what(), "cret"));
  }
  BOOST_CHECK_THROW(ApiKeys({""}), tenon::Error);
}

BOOST_AUTO_TEST_SUITE_END()
