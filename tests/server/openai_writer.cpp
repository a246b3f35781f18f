// The lists of log-probabilities that OpenAI's completions have: echoed prompts, ends of answers, and keys.
#include "serve/api/openai/openai_writer.h"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(server_openai_writer)

using namespace serve;
using tenon::Event;
using tenon::Json;
using tenon::TokenId;

namespace {

const std::vector<const char*> kLists = {"tokens", "token_logprobs", "top_logprobs", "text_offset"};

const tenon::Tokenizer& tokenizer() {
  static const tenon::Tokenizer loaded = tenon::Tokenizer::load(TENON_DEFAULT_MODEL_DIR);
  return loaded;
}
TokenId end_of_text() { return *tokenizer().end_of_text(); }

// The token of one byte that is no text of its own.
TokenId token_of(unsigned char byte) {
  for (TokenId id = 0; id < 1000; ++id)
    if (tokenizer().bytes(id) == std::string(1, static_cast<char>(byte))) return id;
  BOOST_FAIL("no token of that byte");
  return -1;
}

std::shared_ptr<const tenon::Scores> scores_of(const std::vector<TokenId>& prompt) {
  auto scores = std::make_shared<tenon::Scores>();
  for (std::size_t i = 1; i < prompt.size(); ++i) {
    const float own = -0.25f * static_cast<float>(i);
    scores->prompt.push_back({{prompt[i], own}, {{TokenId(7), -0.125f}}, 2});
  }
  return scores;
}

Event token(int choice, TokenId id, float logprob, bool final = false) {
  const bool ends = id == end_of_text();
  return {.choice = choice,
          .token = id,
          .final = final,
          .text = ends ? "" : std::string(tokenizer().bytes(id)),
          .logprob = logprob,
          .top_logprobs = {{id, logprob}}};
}
Event finished(int choice, tenon::FinishReason reason = tenon::FinishReason::length) {
  return {.kind = Event::Kind::finished, .choice = choice, .reason = reason};
}

OpenAiWriter::Terms terms(bool stream, std::vector<std::vector<TokenId>> prompts, int n = 1) {
  OpenAiWriter::Terms made{.id = "x",
                           .model = "m",
                           .prompts = std::move(prompts),
                           .echo = true,
                           .n = n,
                           .stream = stream,
                           .logprobs = true,
                           .alternatives = 1,
                           .ends = {end_of_text()}};
  for (const std::vector<TokenId>& prompt : made.prompts) made.echoes.push_back(tokenizer().decode(prompt));
  return made;
}

Json whole(OpenAiWriter::Terms terms, const std::vector<Event>& events) {
  OpenAiWriter writer(std::move(terms), tokenizer());
  for (const Event& event : events) writer.take(event);
  BOOST_TEST(writer.complete());
  return Json::parse(writer.whole())["choices"];
}

// The choices of a stream, as they are in a whole answer.
Json streamed(OpenAiWriter::Terms terms, const std::vector<Event>& events) {
  const std::size_t choices = terms.prompts.size() * static_cast<std::size_t>(terms.n);
  OpenAiWriter writer(std::move(terms), tokenizer());
  std::string all;
  for (const Event& event : events) {
    writer.take(event);
    all += writer.streamed();
  }
  Json joined(std::vector<Json>(choices, {{"text", ""}, {"finish_reason", nullptr}, {"logprobs", Json::object()}}));
  for (std::size_t at = 0, end; (end = all.find("\n\n", at)) != all.npos; at = end + 2) {
    const Json chunk = Json::parse(all.substr(at + 6, end - at - 6));  // after "data: "
    const Json& part = chunk["choices"][0];
    Json& choice = joined[part["index"].get<std::size_t>()];
    choice["index"] = part["index"];
    choice["text"] = choice["text"].get<std::string>() + part["text"].get<std::string>();
    choice["finish_reason"] = part["finish_reason"];
    for (const char* const list : kLists)
      for (const Json& each : part["logprobs"][list]) choice["logprobs"][list].push_back(each);
  }
  return joined;
}

}  // namespace

// Events of choices come in any order: a choice may be answered before the first one has scored the prompt.
BOOST_AUTO_TEST_CASE(a_stream_with_echo_lists_what_the_whole_lists) {
  std::mt19937 random(1);
  const std::vector<std::vector<TokenId>> prompts = {{400, 500, 600}, {700}, {end_of_text(), 800}};
  const int n = 3;
  for (int round = 0; round < 300; ++round) {
    std::vector<std::vector<Event>> by_choice;  // those that are left
    for (std::size_t prompt = 0; prompt < prompts.size(); ++prompt) {
      for (int i = 0; i < n; ++i) {
        const int choice = static_cast<int>(prompt) * n + i;
        const int tokens = static_cast<int>(random() % 4);  // none: max_tokens is 0
        std::vector<Event> events;
        for (int t = 0; t < tokens; ++t)
          events.push_back(token(choice, static_cast<TokenId>(300 + random() % 100), -0.5f, t + 1 == tokens));
        events.push_back(finished(choice));
        if (i == 0) events.front().scores = events.back().scores = scores_of(prompts[prompt]);
        std::reverse(events.begin(), events.end());
        by_choice.push_back(std::move(events));
      }
    }
    std::vector<Event> events;
    for (std::vector<Event>* from; !by_choice.empty();) {
      const std::size_t i = random() % by_choice.size();
      from = &by_choice[i];
      events.push_back(std::move(from->back()));
      from->pop_back();
      if (from->empty()) by_choice.erase(by_choice.begin() + static_cast<std::ptrdiff_t>(i));
    }
    const Json expected = whole(terms(false, prompts, n), events);
    BOOST_REQUIRE(expected[0]["logprobs"]["token_logprobs"][0].is_null());
    BOOST_REQUIRE(expected[0]["logprobs"]["token_logprobs"][2] == -0.5);
    BOOST_REQUIRE(streamed(terms(true, prompts, n), events) == expected);
  }
}

// The chunk of the first token has the prompt's values: they do not wait for the end.
BOOST_AUTO_TEST_CASE(the_first_chunk_has_the_prompt) {
  OpenAiWriter writer(terms(true, {{400, 500}}), tokenizer());
  Event first = token(0, 600, -1);
  first.scores = scores_of({400, 500});
  writer.take(first);
  const std::string chunk = writer.streamed();
  BOOST_REQUIRE(chunk.starts_with("data: "));
  const Json logprobs = Json::parse(chunk.substr(6))["choices"][0]["logprobs"];
  BOOST_TEST((logprobs["token_logprobs"] == Json({nullptr, -0.25, -1.0})));
  BOOST_TEST(logprobs["text_offset"].size() == 3u);
}

// lm-eval drops the last token of each answer, and counts on it.
BOOST_AUTO_TEST_CASE(completions_list_the_token_that_ends_an_answer) {
  std::vector<Event> events = {token(0, end_of_text(), -0.5f, true), finished(0, tenon::FinishReason::stop)};
  events[0].scores = scores_of({400, 500});
  const Json choice = whole(terms(false, {{400, 500}}), events)[0], logprobs = choice["logprobs"];
  BOOST_TEST((logprobs["token_logprobs"] == Json({nullptr, -0.25, -0.5})));
  for (const char* const list : kLists) BOOST_TEST(logprobs[list].size() == 3u);
  BOOST_TEST(choice["text"] == tokenizer().decode(std::vector<TokenId>{400, 500}));
  BOOST_TEST(logprobs["tokens"][2] == tokenizer().bytes(end_of_text()));
  BOOST_TEST((streamed(terms(true, {{400, 500}}), events)[0] == choice));
  OpenAiWriter::Terms chat = terms(false, {{400, 500}});
  chat.chat = true, chat.echo = false, chat.echoes = {""};
  BOOST_TEST(whole(chat, events)[0]["logprobs"]["content"].empty());
}

// A prompt of special tokens has no text, and its tokens are listed.
BOOST_AUTO_TEST_CASE(an_echo_without_text_is_listed) {
  OpenAiWriter::Terms asked = terms(false, {{end_of_text(), end_of_text()}});
  asked.echoes = {""};
  Event only = finished(0);
  only.scores = scores_of({end_of_text(), end_of_text()});
  const Json choice = whole(std::move(asked), {only})[0];
  BOOST_TEST(choice["text"] == "");
  BOOST_TEST((choice["logprobs"]["token_logprobs"] == Json({nullptr, -0.25})));
}

// Halves of characters all read U+FFFD. The likeliest token must stay among the values: lm-eval compares with the
// largest.
BOOST_AUTO_TEST_CASE(tokens_that_read_alike_have_keys_of_their_own) {
  const TokenId chosen = token_of(0xe2), likelier = token_of(0x98), third = token_of(0xf0);
  Event one = token(0, chosen, -2, true);
  one.text = "\ufffd";
  one.top_logprobs = {{likelier, -0.25f}, {chosen, -2}, {third, -3}};
  one.scores = scores_of({400});
  const Json top = whole(terms(false, {{400}}), {one, finished(0)})[0]["logprobs"]["top_logprobs"][1];
  const Json expected = {{"\ufffd", -2.0}, {"bytes:\\x98", -0.25}, {"bytes:\\xf0", -3.0}};
  BOOST_TEST((top == expected), top.dump());
}

BOOST_AUTO_TEST_SUITE_END()
