#include "serve/api/resume/stream_id.h"

#include <boost/test/unit_test.hpp>
#include <memory>
#include <string>

#include "serve/api/api_error.h"
#include "serve/api/resume/resumable_writer.h"

BOOST_AUTO_TEST_SUITE(server_stream_id)

using namespace serve;

namespace {

const std::string kKey = "0123456789abcdef0123456789abcdef";
const StreamPlace kPlace{
    .events = 17, .seed = 18446744073709551615U, .created = 1764338282, .expires = 1764341882, .answer = "cmpl-ab0v"};

const StreamScope kScope{.request = "body", .owner = "team-a", .engine = "fp_1"};

StreamSeal seal_of(const StreamScope& scope = kScope, const std::string& key = kKey,
                   const std::string& adapters = "sha", const StreamPlace& begin = kPlace) {
  StreamSeal seal(key, scope, begin);
  seal.bind_adapters(adapters);
  return seal;
}

// The refusal of the text; empty: it is accepted.
std::string answer_to(const StreamSeal& seal, const std::string& text, std::int64_t now = kPlace.created) {
  try {
    const SentStreamId sent = parse_stream_id(text);
    seal.check_tags(sent, now);
    seal.check_contents(sent);
  } catch (const ApiError& error) {
    BOOST_TEST(error.param == "Last-Event-ID");
    return std::to_string(status(error.kind, Dialect::openai)) + " " + error.what();
  }
  return {};
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

// Writes an event of a stream for each event that it takes, and two at the end.
class Counting final : public Writer {
 public:
  void take(const tenon::Event&) override { streamed_ += sse("t" + std::to_string(++count_)); }
  bool complete() const override { return false; }
  Usage usage() const override { return {.prompt_tokens = 3, .generated_tokens = count_}; }
  std::string whole() const override { return {}; }
  std::string streamed() override { return std::exchange(streamed_, {}); }
  bool has_streamed() const override { return !streamed_.empty(); }
  std::string end_of_stream() override { return sse("usage") + sse("[DONE]"); }
  std::string failure(const ApiError& error) override { return sse(error.what()); }

 private:
  int count_ = 0;
  std::string streamed_;
};

std::string stream_of(std::optional<SentStreamId> after, const std::string& adapters = "sha") {
  StreamPlace begin = kPlace;
  begin.events = 0;
  ResumableWriter writer(std::make_unique<Counting>(),
                         StreamSeal(kKey, {.request = "r", .owner = "", .engine = "e"}, begin), begin,
                         std::move(after));
  writer.bind_adapters(adapters);
  std::string text;
  for (int i = 0; i < 3; ++i) {
    writer.take({});
    text += writer.streamed();
  }
  return text + writer.end_of_stream();
}

}  // namespace

BOOST_AUTO_TEST_CASE(an_id_says_its_place_and_nothing_else) {
  const std::string text = seal_of().text(kPlace);
  BOOST_TEST(text.starts_with("1.17.18446744073709551615.1764338282.1764341882.cmpl-ab0v."));
  BOOST_TEST(text.size() == std::string("1.17.18446744073709551615.1764338282.1764341882.cmpl-ab0v.").size() + 73U);
  const StreamPlace place = parse_stream_id(text).place;
  BOOST_TEST(place.events == kPlace.events);
  BOOST_TEST(place.seed == kPlace.seed);
  BOOST_TEST(place.created == kPlace.created);
  BOOST_TEST(place.expires == kPlace.expires);
  BOOST_TEST(place.answer == kPlace.answer);
  BOOST_TEST(answer_to(seal_of(), text) == "");
  for (const char* const created : {"-1", "253402300800", "99999999999999999999"}) {
    std::string other = text;
    other.replace(other.find("1764338282"), 10, created);
    BOOST_CHECK_THROW(parse_stream_id(other), ApiError);  // no time that a chat template can write
  }
}

BOOST_AUTO_TEST_CASE(the_part_that_differs_is_named) {
  const std::string text = seal_of().text(kPlace);
  const auto said = [&](const StreamScope& scope) { return answer_to(seal_of(scope), text); };
  BOOST_TEST(said({"body2", "team-a", "fp_1"}).starts_with("400 `Last-Event-ID` is of another request"));
  BOOST_TEST(said({"body", "team-a", "fp_2"}).starts_with("400 `Last-Event-ID` is of another engine"));
  BOOST_TEST(said({"body2", "team-a", "fp_2"}).starts_with("400 `Last-Event-ID` is of another engine"));
  BOOST_TEST(said({"bodyteam-", "a", "fp_1"}) != "");
  BOOST_TEST(has(answer_to(seal_of({"body", "team-a", "fp_1"}, kKey + "0"), text), "--resume-key-file"));
  BOOST_TEST(has(answer_to(seal_of({"body", "team-a", "fp_1"}, kKey, "sha2"), text), "adapter"));
  BOOST_TEST(answer_to(seal_of(), text, kPlace.expires) == "");
  BOOST_TEST(has(answer_to(seal_of(), text, kPlace.expires + 1), "expired"));
}

BOOST_AUTO_TEST_CASE(another_owner_learns_nothing) {
  const std::string text = seal_of().text(kPlace);
  for (const std::string request : {"body", "body2"})
    for (const std::string engine : {"fp_1", "fp_2"})
      for (const std::string owner : {"team-b", ""})
        for (const std::int64_t now : {kPlace.created, kPlace.expires + 1})
          BOOST_TEST(answer_to(seal_of({request, owner, engine}), text, now) ==
                     "403 `Last-Event-ID` is of a stream of another API key");
}

// The tags of the request, the owner, the engine and the adapters.
std::string tags_of(const std::string& owner, const StreamPlace& begin) {
  const std::string text =
      seal_of({.request = "body", .owner = owner, .engine = "fp_1"}, kKey, "sha", begin).text(begin);
  return text.substr(text.size() - 73, 32);
}

BOOST_AUTO_TEST_CASE(equal_requests_have_no_tag_in_common) {
  StreamPlace other_answer = kPlace, other_seed = kPlace, other_time = kPlace, later = kPlace;
  other_answer.answer = "cmpl-ab0w";
  other_seed.seed = 0;
  other_time.created += 1;
  later.events += 1;
  const std::string tags = tags_of("team-a", kPlace);
  BOOST_TEST(tags_of("team-a", later) == tags);
  for (const std::string& other : {tags_of("team-b", kPlace), tags_of("team-a", other_answer),
                                   tags_of("team-a", other_seed), tags_of("team-a", other_time)})
    for (std::size_t i = 0; i < tags.size(); i += 8) BOOST_TEST(other.substr(i, 8) != tags.substr(i, 8));
}

// A MAC of other adapters beside the tag of these: the tag names what differs, and the MAC decides.
BOOST_AUTO_TEST_CASE(the_mac_holds_the_adapters) {
  const std::string text = seal_of().text(kPlace), other = seal_of(kScope, kKey, "sha2").text(kPlace);
  BOOST_TEST(answer_to(seal_of(), text.substr(0, text.size() - 32) + other.substr(other.size() - 32)) != "");
}

BOOST_AUTO_TEST_CASE(no_changed_id_is_accepted) {
  const std::string text = seal_of().text(kPlace);
  for (std::size_t i = 0; i < text.size(); ++i) {
    for (const char other : {'0', '1', 'a', 'A', '.', '-', ' ', '\n', '\xff'}) {
      if (text[i] == other) continue;
      std::string changed = text;
      changed[i] = other;
      BOOST_TEST(answer_to(seal_of(), changed) != "", changed);
    }
    BOOST_TEST(answer_to(seal_of(), text.substr(0, i)) != "");
    BOOST_TEST(answer_to(seal_of(), text.substr(0, i) + text.substr(i + 1)) != "");
  }
  for (const std::string more : {"0", ".", " "}) BOOST_TEST(answer_to(seal_of(), text + more) != "");
  for (const std::string& none : {std::string(), std::string("1"), std::string(7, '.'), std::string(100'000, '.')})
    BOOST_TEST(answer_to(seal_of(), none) != "");
}

BOOST_AUTO_TEST_CASE(a_stream_goes_on_after_each_of_its_events) {
  const std::string whole = stream_of({});
  std::size_t events = 0;
  for (std::size_t begin = 0; begin < whole.size(); ++events) {
    BOOST_REQUIRE(whole.compare(begin, 4, "id: ") == 0);
    const std::string id = whole.substr(begin + 4, whole.find('\n', begin) - begin - 4);
    begin = whole.find("\n\n", begin) + 2;
    BOOST_TEST(parse_stream_id(id).place.events == events + 1);
    BOOST_TEST(stream_of(parse_stream_id(id)) == whole.substr(begin));
    BOOST_CHECK_THROW(stream_of(parse_stream_id(id), "sha of other files"), ApiError);
  }
  BOOST_TEST(events == 5U);
}

BOOST_AUTO_TEST_SUITE_END()
