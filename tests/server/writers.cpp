// A whole answer and a streamed one have the same text and tokens, in each API.
#include <boost/test/unit_test.hpp>

#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "serve/api/anthropic/messages_writer.h"
#include "serve/api/lorax/lorax_writer.h"
#include "serve/api/ollama/ollama_writer.h"
#include "serve/api/openai/openai_writer.h"
#include "serve/api/openai/responses_writer.h"
#include "tenon/engine/receipt.h"
#include "tenon/engine/stop_matcher.h"

BOOST_AUTO_TEST_SUITE(server_writers)

using namespace serve;
using tenon::Event;
using tenon::Json;
using tenon::TokenId;

namespace {

const tenon::Tokenizer& tokenizer() {
  static const tenon::Tokenizer loaded = tenon::Tokenizer::load(TENON_DEFAULT_MODEL_DIR);
  return loaded;
}
TokenId end_of_text() { return *tokenizer().end_of_text(); }

// The events that an engine gives for these tokens: text held back for stop strings, the end with the last.
// cut: whether a stop string has ended them.
std::vector<Event> events_of(const std::vector<TokenId>& tokens, const std::vector<std::string>& stop,
                             bool constrained = false, bool* cut = nullptr, bool include_stop = false) {
  std::vector<Event> events;
  tenon::OutputText text(&tokenizer(), stop, include_stop);
  tenon::FinishReason reason = constrained ? tenon::FinishReason::stop : tenon::FinishReason::length;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    Event event{
        .token = tokens[i], .logprob = -0.5f * static_cast<float>(i), .top_logprobs = {{tokens[i], -0.5f}, {7, -9}}};
    const bool ends = tokens[i] == end_of_text();
    if (!ends) event.text = text.push(tokens[i]);
    event.final = ends || text.stopped() || i + 1 == tokens.size();
    if (event.final) event.text += text.finish();
    if (ends || text.stopped()) reason = tenon::FinishReason::stop;
    events.push_back(event);
    if (event.final) break;
  }
  if (cut) *cut = text.stopped();
  events.push_back({.kind = Event::Kind::finished, .last = true, .reason = reason});
  return events;
}

OpenAiWriter openai(bool chat, bool stream, bool logprobs) {
  return {{.chat = chat,
           .id = "x",
           .model = "m",
           .fingerprint = "fp_1",
           .prompts = {{1, 2, 3}},
           .echoes = {""},
           .stream = stream,
           .include_usage = stream,
           .logprobs = logprobs,
           .ends = {end_of_text()}},
          tokenizer()};
}

std::vector<Json> data_of(const std::string& sse, bool done) {
  std::vector<Json> all;
  std::size_t at = 0;
  for (std::size_t end; (end = sse.find("\n\n", at)) != sse.npos; at = end + 2) {
    BOOST_REQUIRE(sse.compare(at, 6, "data: ") == 0);
    const std::string data = sse.substr(at + 6, end - at - 6);
    BOOST_REQUIRE(data.find('\n') == data.npos);
    if (data != "[DONE]")
      all.push_back(Json::parse(data));
    else
      BOOST_TEST((done && end + 2 == sse.size()));
  }
  BOOST_TEST(at == sse.size());
  return all;
}

std::string streamed(Writer& writer, const std::vector<Event>& events) {
  std::string all;
  for (const Event& event : events) {
    writer.take(event);
    all += writer.streamed();
  }
  BOOST_TEST(writer.complete());
  return all + writer.end_of_stream();
}

Json whole(Writer& writer, const std::vector<Event>& events) {
  for (const Event& event : events) writer.take(event);
  return Json::parse(writer.whole());
}

// Halves of characters, ends and ordinary tokens.
std::vector<TokenId> random_tokens(std::mt19937& random) {
  std::vector<TokenId> tokens(1 + random() % 12);
  for (TokenId& token : tokens) token = static_cast<TokenId>(random() % (random() % 2 ? 256 : 2000));
  if (random() % 3 == 0) tokens.back() = end_of_text();
  return tokens;
}
std::vector<std::string> random_stops(std::mt19937& random, const std::vector<TokenId>& tokens) {
  if (random() % 2 == 0) return {};
  const std::string text = tenon::sanitize_utf8(tokenizer().decode(tokens));
  std::vector<std::string> stops = {"never seen"};
  const std::size_t at = random() % (text.size() + 1);
  const std::string part = text.substr(at, 1 + random() % 3);
  if (tenon::find_invalid_utf8(part) == part.npos && !part.empty()) stops.push_back(part);
  return stops;
}

Json joined(const std::vector<Json>& chunks, bool chat, std::string& text, Json& reason) {
  Json logprobs = Json::object();
  for (const Json& chunk : chunks) {
    for (const Json& choice : chunk["choices"]) {
      text += chat ? choice["delta"].value("content", "") : choice["text"].get<std::string>();
      if (!choice["finish_reason"].is_null()) reason = choice["finish_reason"];
      if (choice["logprobs"].is_null()) continue;
      for (const auto& [key, values] : choice["logprobs"].items()) {
        for (const Json& value : values) logprobs[key].push_back(value);
      }
    }
  }
  return logprobs;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_stream_of_openai_says_what_the_whole_says) {
  std::mt19937 random(5);
  int stopped = 0;
  for (int round = 0; round < 2000; ++round) {
    const auto tokens = random_tokens(random);
    bool cut = false;
    const auto events = events_of(tokens, random_stops(random, tokens), false, &cut);
    const bool chat = round % 2 == 0, logprobs = round % 3 != 0;
    OpenAiWriter one = openai(chat, false, logprobs), other = openai(chat, true, logprobs);
    const Json body = whole(one, events), choice = body["choices"][0];
    const auto chunks = data_of(streamed(other, events), true);
    std::string text;
    Json reason;
    const Json listed = joined(chunks, chat, text, reason);
    const std::string expected = chat ? choice["message"]["content"] : choice["text"];
    BOOST_REQUIRE_EQUAL(text, expected);
    BOOST_REQUIRE(reason == choice["finish_reason"]);
    BOOST_REQUIRE(chunks.back()["usage"] == body["usage"]);
    if (!logprobs) continue;
    for (const auto& [key, values] : choice["logprobs"].items()) {
      if (values.is_array() && !values.empty()) BOOST_REQUIRE(listed[key] == values);
    }
    std::string tokens_text;
    for (const Json& token : chat ? choice["logprobs"]["content"] : choice["logprobs"]["tokens"]) {
      if (!chat)
        tokens_text += token.get<std::string>();
      else
        for (const Json& byte : token["bytes"]) tokens_text += static_cast<char>(byte.get<int>());
    }
    const std::string_view end = tokenizer().bytes(end_of_text());  // completions list it, and their text lacks it
    if (!chat && tokens_text.ends_with(end)) tokens_text.resize(tokens_text.size() - end.size());
    // A stop string may cut the last token, and the end of text leave half a character; what is listed begins within
    // the text.
    stopped += cut;
    const std::string said = chat ? tenon::sanitize_utf8(tokens_text) : tokens_text;
    const bool half = !cut && expected.starts_with(said) && expected.substr(said.size()) == "\ufffd";
    BOOST_REQUIRE_MESSAGE(cut ? said.starts_with(expected) : said == expected || half, said + " | " + expected);
  }
  BOOST_TEST(stopped > 200);
}

BOOST_AUTO_TEST_CASE(a_stream_of_lorax_says_what_the_whole_says) {
  std::mt19937 random(6);
  int stopped = 0;
  for (int round = 0; round < 1000; ++round) {
    const auto tokens = random_tokens(random);
    GenerateRequest request;
    request.inputs = "x";
    request.details = true;
    request.stop = random_stops(random, tokens);
    const auto events = events_of(tokens, {});
    const LoraxWriter::Terms terms{
        .input = {5}, .max_new_tokens = static_cast<int>(tokens.size()), .ends = {end_of_text()}};
    LoraxWriter one(request, tokenizer(), terms);
    request.stream = true;
    LoraxWriter other(request, tokenizer(), terms);
    const Json body = whole(one, events);
    const auto chunks = data_of(streamed(other, events), false);
    BOOST_REQUIRE_EQUAL(chunks.size(), body["details"]["tokens"].size());
    std::string text;
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      BOOST_REQUIRE(chunks[i]["token"] == body["details"]["tokens"][i]);
      BOOST_REQUIRE(chunks[i]["generated_text"].is_null() == (i + 1 < chunks.size()));
      if (!chunks[i]["token"]["special"]) text += chunks[i]["token"]["text"].get<std::string>();
    }
    BOOST_REQUIRE_EQUAL(text, body["generated_text"].get<std::string>());
    BOOST_REQUIRE(chunks.back()["generated_text"] == body["generated_text"]);
    BOOST_REQUIRE(chunks.back()["details"]["finish_reason"] == body["details"]["finish_reason"]);
    const std::string reason = body["details"]["finish_reason"];
    if (reason != "stop_sequence") continue;
    ++stopped;
    const auto ends = [&](const std::string& stop) { return text.ends_with(stop); };
    BOOST_REQUIRE(std::any_of(request.stop.begin(), request.stop.end(), ends));
  }
  BOOST_TEST(stopped > 50);
}

BOOST_AUTO_TEST_CASE(receipts_come_with_the_end) {
  std::vector<Event> events = events_of({40, 41, 42}, {});
  const auto receipt = std::make_shared<tenon::Receipt>();
  receipt->ids = {40, 41, 42};
  receipt->links = {1, 2, 3};
  events.back().receipt = receipt;
  const Json expected = tenon::to_json(*receipt);
  for (const bool chat : {false, true}) {
    OpenAiWriter whole = openai(chat, false, false), stream = openai(chat, true, false);
    for (const Event& event : events) whole.take(event);
    BOOST_TEST(Json::parse(whole.whole())["choices"][0]["receipt"] == expected);
    int found = 0;
    for (const Json& chunk : data_of(streamed(stream, events), true)) {
      BOOST_TEST(chunk["system_fingerprint"] == "fp_1");
      if (chunk["choices"].empty() || !chunk["choices"][0].contains("receipt")) continue;
      ++found;
      BOOST_TEST(chunk["choices"][0]["receipt"] == expected);
      BOOST_TEST(chunk["choices"][0]["finish_reason"] == "length");
    }
    BOOST_TEST(found == 1);
  }
  GenerateRequest request;
  request.options.receipt = true;
  LoraxWriter lorax(request, tokenizer(), {.input = {1, 2, 3}, .max_new_tokens = 3, .ends = {end_of_text()}});
  for (const Event& event : events) {
    BOOST_TEST(!lorax.complete());
    lorax.take(event);
  }
  BOOST_TEST(lorax.complete());
  BOOST_TEST(Json::parse(lorax.whole())["receipt"] == expected);
}

// The length first, then the end of text, and a schema that is complete is an end, too.
BOOST_AUTO_TEST_CASE(reasons_in_loraxs_order) {
  const auto reason = [](std::vector<TokenId> tokens, int most, bool constrained = false) {
    GenerateRequest request;
    request.details = true;
    LoraxWriter writer(request, tokenizer(), {.input = {5}, .max_new_tokens = most, .ends = {end_of_text()}});
    return whole(writer, events_of(tokens, {}, constrained))["details"]["finish_reason"].get<std::string>();
  };
  BOOST_TEST(reason({300, 301}, 2) == "length");
  BOOST_TEST(reason({300, end_of_text()}, 2) == "length");
  BOOST_TEST(reason({300, end_of_text()}, 3) == "eos_token");
  BOOST_TEST(reason({300, 301}, 5, true) == "eos_token");
}

// A token without text, such as half a character, does not find the stop string of a token that was exempt from it.
BOOST_AUTO_TEST_CASE(lorax_looks_for_stop_strings_in_the_text_of_each_token) {
  GenerateRequest request;
  request.details = true;
  request.stop = {" the"};
  request.options.min_new_tokens = 2;
  const TokenId the = tokenizer().encode(" the").front();
  const auto tokens_until = [&](const std::vector<Event>& events) {
    LoraxWriter writer(request, tokenizer(), {.input = {5}, .max_new_tokens = 5, .ends = {end_of_text()}});
    const Json details = whole(writer, events)["details"];
    return std::pair(details["tokens"].size(), details["finish_reason"].get<std::string>());
  };
  std::vector<Event> events;
  for (const char* const text : {" the", " the", "", "\ufffd", "a"}) events.push_back({.token = the, .text = text});
  events.back().final = true;
  events.push_back({.kind = Event::Kind::finished, .last = true});
  BOOST_TEST((tokens_until(events) == std::pair(std::size_t{5}, std::string("length"))));
  events[2].text = " the";
  BOOST_TEST((tokens_until(events) == std::pair(std::size_t{3}, std::string("stop_sequence"))));
}

namespace {

MessagesWriter messages(std::vector<std::string> stops, std::size_t client_stops, bool stream, AnswerStyle style = {},
                        bool keeps_stop = false) {
  return MessagesWriter({.id = "x",
                         .model = "m",
                         .stream = stream,
                         .style = std::move(style),
                         .stops = std::move(stops),
                         .client_stops = client_stops,
                         .keeps_stop = keeps_stop});
}

// The data of events that have a name.
std::vector<Json> named_data_of(std::string sse) {
  std::string data;
  for (std::size_t at = 0; at < sse.size();) {
    const std::size_t end = sse.find('\n', at) + 1;
    if (sse.compare(at, 7, "event: ") != 0) data += sse.substr(at, end - at);
    at = end;
  }
  return data_of(data, false);
}

}  // namespace

BOOST_AUTO_TEST_CASE(messages_name_the_stop_sequence_that_ended_them) {
  std::mt19937 random(7);
  int by_client = 0, by_template = 0;
  for (int round = 0; round < 2000; ++round) {
    const auto tokens = random_tokens(random);
    const auto stops = random_stops(random, tokens);
    const std::size_t client_stops = stops.empty() ? 0 : random() % (stops.size() + 1);
    const bool keeps = round % 5 == 0;
    bool cut = false;
    const auto expected = events_of(tokens, stops, false, &cut, keeps);
    const auto events = events_of(tokens, stops, false, nullptr, true);
    MessagesWriter one = messages(stops, client_stops, false, {}, keeps),
                   other = messages(stops, client_stops, true, {}, keeps);
    const Json body = whole(one, events);
    std::string text;
    for (const Event& event : expected) text += event.text;
    std::string told;
    for (const Json& block : body["content"]) told += block["text"].get<std::string>();
    BOOST_REQUIRE_EQUAL(told, text);
    const bool client = cut && client_stops == stops.size();
    by_client += client;
    by_template += cut && !client;
    const bool length = expected.back().reason == tenon::FinishReason::length;
    BOOST_REQUIRE_EQUAL(body["stop_reason"].get<std::string>(), length   ? "max_tokens"
                                                                : client ? "stop_sequence"
                                                                         : "end_turn");
    BOOST_REQUIRE(body["stop_sequence"] == (client ? Json(stops.back()) : Json(nullptr)));
    std::string in_pieces;
    Json delta;
    for (const Json& event : named_data_of(streamed(other, events))) {
      if (event["type"] == "content_block_delta") in_pieces += event["delta"]["text"].get<std::string>();
      if (event["type"] == "message_delta") delta = event["delta"];
    }
    BOOST_REQUIRE_EQUAL(in_pieces, text);
    BOOST_REQUIRE(delta["stop_reason"] == body["stop_reason"]);
    BOOST_REQUIRE(delta["stop_sequence"] == body["stop_sequence"]);
  }
  BOOST_TEST(by_client > 100);
  BOOST_TEST(by_template > 100);
}

// The text of an answer of min_tokens may end as a stop sequence does.
BOOST_AUTO_TEST_CASE(messages_keep_a_stop_sequence_that_was_not_looked_for) {
  const auto message = [&](TokenId last, const std::string& text, tenon::FinishReason reason) {
    MessagesWriter writer({.id = "x", .model = "m", .stops = {"II"}, .client_stops = 1, .ends = {end_of_text()}});
    return whole(writer, {{.token = 40, .text = "I"},
                          {.token = last, .final = true, .text = text},
                          {.kind = Event::Kind::finished, .last = true, .reason = reason}});
  };
  const Json length = message(40, "II", tenon::FinishReason::length);
  BOOST_TEST(length["content"][0]["text"] == "III");
  BOOST_TEST(length["stop_reason"] == "max_tokens");
  BOOST_TEST(length["stop_sequence"].is_null());
  const Json end = message(end_of_text(), "II", tenon::FinishReason::stop);  // held back until the end of text
  BOOST_TEST(end["content"][0]["text"] == "III");
  BOOST_TEST(end["stop_reason"] == "end_turn");
  const Json stopped = message(40, "II", tenon::FinishReason::stop);
  BOOST_TEST(stopped["content"][0]["text"] == "I");
  BOOST_TEST(stopped["stop_sequence"] == "II");
}

BOOST_AUTO_TEST_CASE(a_call_that_is_cut_is_no_reason_to_call) {
  const AnswerStyle style{.tools = program::tool_style_of("<tool_call>")};
  const std::string call = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1, \"b\": 2}}\n</tool_call>";
  struct Case {
    std::string text, stop;
    const char *chat, *message;
    Json status;  // of the item
  };
  for (const Case& c : {Case{call, "", "tool_calls", "tool_use", "completed"},
                        {call, "</tool_call>", "tool_calls", "stop_sequence", "completed"},
                        {call, "\"b\"", "stop", "stop_sequence", "incomplete"},
                        {call.substr(0, 50), "", "stop", "end_turn", "incomplete"},
                        {"A text.", "", "stop", "end_turn", "completed"}}) {
    std::vector<TokenId> tokens = tokenizer().encode(c.text);
    tokens.push_back(end_of_text());
    const std::vector<std::string> stops = c.stop.empty() ? std::vector<std::string>{} : std::vector{c.stop};
    OpenAiWriter chat({.chat = true, .id = "x", .model = "m", .prompts = {{1}}, .echoes = {""}, .style = style},
                      tokenizer());
    BOOST_TEST(whole(chat, events_of(tokens, stops))["choices"][0]["finish_reason"] == c.chat, c.text << c.stop);
    MessagesWriter message = messages(stops, stops.size(), false, style);
    BOOST_TEST(whole(message, events_of(tokens, stops, false, nullptr, true))["stop_reason"] == c.message,
               c.text << c.stop);
    ResponsesWriter response({.id = "x", .model = "m", .style = style, .request = {}});
    BOOST_TEST(whole(response, events_of(tokens, stops))["output"].back()["status"] == c.status, c.text << c.stop);
    tokens.pop_back();
    OpenAiWriter cut({.chat = true, .id = "x", .model = "m", .prompts = {{1}}, .echoes = {""}, .style = style},
                     tokenizer());
    if (c.stop.empty()) BOOST_TEST(whole(cut, events_of(tokens, {}))["choices"][0]["finish_reason"] == "length");
    MessagesWriter short_message = messages({}, 0, false, style);
    BOOST_TEST(whole(short_message, events_of(tokens, {}))["stop_reason"] == "max_tokens");
  }
}

// Lines of a stream, joined, are the whole answer. A call is told once it is whole, with its arguments as an object.
BOOST_AUTO_TEST_CASE(a_stream_of_ollama_says_what_the_whole_says) {
  const AnswerStyle style{.tools = program::tool_style_of("<tool_call>"), .think = {"<think>", "</think>"}};
  const std::string call = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"b\": 1, \"a\": 2}}\n</tool_call>";
  struct Case {
    std::string answer, thinking, text;
    int calls;
  };
  for (const Case& c : {Case{"A text.", "", "A text.", 0},
                        {"<think>So.</think>Yes.", "So.", "Yes.", 0},
                        {"Now: " + call + "\n" + call, "", "Now:", 2},
                        {call.substr(0, 50), "", "", 0}}) {
    std::vector<TokenId> tokens = tokenizer().encode(c.answer);
    tokens.push_back(end_of_text());
    for (const bool chat : {true, false}) {
      OllamaWriter one({.model = "m", .chat = chat, .prompt_tokens = 3, .style = style});
      const Json all = whole(one, events_of(tokens, {}));
      const Json& message = chat ? all["message"] : all;
      BOOST_TEST(message[chat ? "content" : "response"] == c.text);
      BOOST_TEST(message.value("thinking", "") == c.thinking);
      BOOST_TEST((all["done"] == true && all["done_reason"] == "stop" && all["prompt_eval_count"] == 3));
      BOOST_TEST(all["eval_count"] == tokens.size());
      BOOST_TEST(all.value("message", Json::object()).value("tool_calls", Json::array()).size() ==
                 static_cast<std::size_t>(chat ? c.calls : 0));
      OllamaWriter other({.model = "m", .chat = chat, .prompt_tokens = 3, .stream = true, .style = style});
      std::istringstream lines(streamed(other, events_of(tokens, {})));
      std::string text, thinking, last;
      Json calls = Json::array();
      for (std::string line; std::getline(lines, line); last = line) {
        const Json piece = Json::parse(line), &part = chat ? piece["message"] : piece;
        text += part[chat ? "content" : "response"];
        thinking += part.value("thinking", "");
        for (const Json& each : part.value("tool_calls", Json::array())) calls.push_back(each["function"]);
      }
      BOOST_TEST((text == c.text && thinking == c.thinking));
      BOOST_TEST(Json::parse(last)["done_reason"] == "stop");
      BOOST_TEST(calls.size() == static_cast<std::size_t>(chat ? c.calls : 0));
      for (std::size_t i = 0; i < calls.size(); ++i)
        BOOST_TEST((calls[i] == Json{{"index", i}, {"name", "f"}, {"arguments", {{"b", 1}, {"a", 2}}}}));
    }
  }
}

BOOST_AUTO_TEST_CASE(answers_that_are_cut_short_are_errors) {
  for (const auto& [reason, kind] : {std::pair{tenon::FinishReason::deadline, ApiError::Kind::timeout},
                                     std::pair{tenon::FinishReason::cancelled, ApiError::Kind::incomplete}}) {
    OpenAiWriter writer = openai(false, true, false);
    const auto is_kind = [kind = kind](const ApiError& error) { return error.kind == kind; };
    BOOST_CHECK_EXCEPTION(writer.take({.kind = Event::Kind::finished, .last = true, .reason = reason}), ApiError,
                          is_kind);
    LoraxWriter other({}, tokenizer(), {.input = {5}, .max_new_tokens = 3, .ends = {}});
    BOOST_CHECK_EXCEPTION(other.take({.kind = Event::Kind::finished, .last = true, .reason = reason}), ApiError,
                          is_kind);
  }
}

BOOST_AUTO_TEST_SUITE_END()
