#include "serve/api/openai/openai_writer.h"

#include <algorithm>
#include <span>
#include <utility>

#include "conversation/listed_tokens.h"
#include "serve/text.h"
#include "tenon/engine/receipt.h"

namespace serve {

using tenon::Event;
using tenon::OrderedJson;

namespace {

OrderedJson bytes_of(const tenon::Tokenizer& tokenizer, tenon::TokenId id) {
  OrderedJson bytes = OrderedJson::array();
  for (const char c : tokenizer.bytes(id)) bytes.push_back(static_cast<unsigned char>(c));
  return bytes;
}

OrderedJson or_null(const char* text) { return text ? OrderedJson(text) : OrderedJson(nullptr); }

}  // namespace

OpenAiWriter::OpenAiWriter(Terms terms, const tenon::Tokenizer& tokenizer)
    : terms_(std::move(terms)),
      tokenizer_(tokenizer),
      open_(terms_.prompts.size() * static_cast<std::size_t>(terms_.n)) {
  for (std::size_t i = 0; i < open_; ++i) {
    choices_.emplace_back(tokenizer);
    if (terms_.style) choices_.back().reader.emplace(*terms_.style);
  }
}

void OpenAiWriter::take(const Event& event) {
  refuse_failed(event, Dialect::openai);
  Choice& choice = choices_[static_cast<std::size_t>(event.choice)];
  const bool ended = event.kind == Event::Kind::finished;
  if (event.scores) choice.scores = event.scores;
  if (event.receipt) choice.receipt = event.receipt;
  if (!ended) {
    ++choice.tokens;
    if (terms_.return_token_ids) choice.ids.push_back(event.token);
    if (terms_.logprobs) list(choice, event);
  } else {
    choice.reason = event.reason == tenon::FinishReason::length ? "length" : "stop";
    choice.guesses = event.guesses;
    --open_;
  }
  release(choice, event.text, ended);
  if (choice.reader) read(choice, event.text, ended);
  if (!terms_.stream) return;
  choice.unsent += event.text;
  if (!event.final) stream_choice(event.choice);  // the last text goes with the reason, which the next event tells
  if (event.scores) stream_held(event.choice);
}

// ---- reasoning and calls

// The answer's id, which is random, with the number of the call: a continued stream has the same ones. Mistral's
// templates demand 9 letters and digits.
std::string OpenAiWriter::next_call_id() {
  constexpr std::size_t kShort = 9, kLong = 24, kNumber = 3;
  const bool is_short = terms_.style->tools && terms_.style->tools->short_ids;
  std::string id = terms_.id.substr(terms_.id.find('-') + 1);
  id.resize((is_short ? kShort : kLong) - kNumber, '0');
  const std::uint32_t number = calls_++;
  for (int shift = 10; shift >= 0; shift -= 5) id += "0123456789abcdefghijklmnopqrstuv"[number >> shift & 31];
  return is_short ? id : "call_" + id;
}

void OpenAiWriter::read(Choice& choice, const std::string& text, bool ended) {
  std::vector<AnswerPart> parts = choice.reader->push(text);
  if (ended)
    for (AnswerPart& part : choice.reader->finish()) parts.push_back(std::move(part));
  for (AnswerPart& part : parts) {
    if (part.kind == AnswerPart::Kind::reasoning && !terms_.shows_reasoning) continue;
    choice.message.add(part, [&] { return next_call_id(); });
    if (terms_.stream) choice.parts.push_back(std::move(part));
  }
  if (ended && choice.reader->has_whole_calls() && choice.reason == std::string_view("stop"))
    choice.reason = "tool_calls";
}

OrderedJson OpenAiWriter::delta_of(const Choice& choice, const AnswerPart& part) const {
  if (part.kind == AnswerPart::Kind::reasoning) return {{"reasoning_content", part.text}};
  if (part.kind == AnswerPart::Kind::text) return {{"content", part.text}};
  OrderedJson call = {{"index", part.call}};
  OrderedJson function = {{"arguments", part.text}};
  if (part.kind == AnswerPart::Kind::call) {
    call["id"] = choice.message.calls[static_cast<std::size_t>(part.call)].id;
    call["type"] = "function";
    function = {{"name", part.text}, {"arguments", ""}};
  }
  call["function"] = std::move(function);
  return {{"tool_calls", OrderedJson::array({std::move(call)})}};
}

void OpenAiWriter::stream_parts(int index, const OrderedJson& logprobs) {
  Choice& choice = choices_[static_cast<std::size_t>(index)];
  OrderedJson listed = logprobs;  // with the first part
  for (const AnswerPart& part : std::exchange(choice.parts, {})) {
    stream_part(index, {{"delta", delta_of(choice, part)}}, nullptr, std::exchange(listed, nullptr), true);
  }
  if (listed.is_object() && !listed["content"].empty())
    stream_part(index, {{"delta", {{"content", ""}}}}, nullptr, std::move(listed), true);
}

// What a stop string cuts away has tokens, too: they are listed once some of their text is released. Completions list
// the token that ends an answer by its spelling, which the text lacks, as vLLM does: clients count on a token for each
// that was written (lm-eval drops the last one). Chats do not list it.
void OpenAiWriter::list(Choice& choice, const Event& event) {
  const bool ends = is_end(event.token);
  const bool skipped = terms_.skip_special && tokenizer_.is_special(event.token);
  std::string text = ends || skipped ? std::string() : choice.decoder.push(event.token);
  if (event.final) text += choice.decoder.finish();  // half a character; nobody's, where its token has been sent
  std::size_t offset = choice.decoded;
  choice.decoded += characters(text);
  if (ends) {
    if (!choice.waiting.empty()) choice.waiting.back().text += text;
    if (terms_.chat) return;
    text = text_of(tokenizer_, event.token);
    offset = choice.decoded;
  }
  choice.waiting.push_back({event.token, std::move(text), offset, event.logprob, event.top_logprobs});
}

void OpenAiWriter::release(Choice& choice, const std::string& text, bool ended) {
  choice.text += text;
  choice.released += characters(text);
  const bool whole = ended && choice.released == choice.decoded;  // no stop string has cut it
  while (!choice.waiting.empty() && (whole || choice.waiting.front().offset < choice.released)) {
    choice.listed.push_back(std::move(choice.waiting.front()));
    choice.waiting.pop_front();
  }
}

bool OpenAiWriter::is_end(tenon::TokenId token) const {
  return std::find(terms_.ends.begin(), terms_.ends.end(), token) != terms_.ends.end();
}

// ---- streams

void OpenAiWriter::stream_choice(int index) {
  Choice& choice = choices_[static_cast<std::size_t>(index)];
  if (choice.unsent.empty() && choice.begun && !choice.reason)
    return;  // held back for a stop string, or half a character
  choice.held = lists_prompt() && !found_scores(index);
  if (choice.held) return;
  std::string text = std::exchange(choice.unsent, {});
  const std::size_t from = std::exchange(choice.unsent_from, choice.listed.size());
  const bool first = !std::exchange(choice.begun, true);
  const OrderedJson logprobs = listed_of(index, from, first);
  if (terms_.chat) {
    if (first) stream_part(index, {{"delta", {{"role", "assistant"}, {"content", ""}}}}, nullptr, nullptr);
    const bool lists = terms_.logprobs && from < choice.listed.size();
    if (choice.reader)
      stream_parts(index, logprobs);
    else if (!text.empty() || lists)
      stream_part(index, {{"delta", {{"content", text}}}}, nullptr, logprobs, true);
    if (choice.reason) stream_part(index, {{"delta", OrderedJson::object()}}, choice.reason, nullptr, true);
    return;
  }
  if (first) text = echo_of(index) + text;
  OrderedJson part = {{"text", text}};
  if (first && terms_.return_token_ids) part["prompt_token_ids"] = prompt_of(index);
  if (!text.empty() || choice.reason || part.size() > 1)
    stream_part(index, std::move(part), choice.reason, logprobs, true);
}

// A prompt that is found in the prefix cache may be answered before the first choice has scored it.
void OpenAiWriter::stream_held(int first) {
  for (int i = first; i < first + terms_.n; ++i)
    if (choices_[static_cast<std::size_t>(i)].held) stream_choice(i);
}

void OpenAiWriter::stream_part(int index, OrderedJson part, const char* reason, OrderedJson logprobs, bool ids) {
  OrderedJson choice = {{"index", index}};
  choice.update(part);
  choice["logprobs"] = std::move(logprobs);
  choice["finish_reason"] = or_null(reason);
  const auto& receipt = choices_[static_cast<std::size_t>(index)].receipt;
  if (reason && receipt) choice["receipt"] = OrderedJson(tenon::to_json(*receipt));
  if (terms_.return_token_ids && ids)
    choice["token_ids"] = std::exchange(choices_[static_cast<std::size_t>(index)].ids, {});
  OrderedJson chunk = head(terms_.chat ? "chat.completion.chunk" : "text_completion");
  if (terms_.chat && terms_.return_token_ids && !ids) chunk["prompt_token_ids"] = prompt_of(index);
  chunk["choices"] = OrderedJson::array({std::move(choice)});
  if (terms_.include_usage) chunk["usage"] = nullptr;
  if (terms_.include_usage && terms_.continuous_usage) {
    const int tokens = ids ? choices_[static_cast<std::size_t>(index)].tokens : 0;  // the role has none
    chunk["usage"] = usage_so_far(index, tokens);
  }
  streamed_ += sse(one_line(chunk));
}

std::string OpenAiWriter::end_of_stream() {
  if (!terms_.include_usage) return kDone;
  OrderedJson chunk = head(terms_.chat ? "chat.completion.chunk" : "text_completion");
  chunk["choices"] = OrderedJson::array();
  chunk["usage"] = usage_json();
  return sse(one_line(chunk)) + kDone;
}

// ---- bodies

OrderedJson OpenAiWriter::head(const char* object) const {
  return {{"id", terms_.id},
          {"object", object},
          {"created", terms_.created},
          {"model", terms_.model},
          {"system_fingerprint", terms_.fingerprint}};
}

// From the listed token `from` on. `echoed`: characters before the answer.
OrderedJson OpenAiWriter::logprobs_of(const Choice& choice, std::size_t from, std::size_t echoed) const {
  OrderedJson content = OrderedJson::array(), tokens = content, values = content, tops = content, offsets = content;
  for (std::size_t i = from; i < choice.listed.size(); ++i) {
    const Listed& token = choice.listed[i];
    if (terms_.chat) {
      const auto one = [&](tenon::TokenId id, float logprob) {
        return OrderedJson{{"token", text_of(tokenizer_, id)},
                           {"logprob", finite_logprob(logprob)},
                           {"bytes", bytes_of(tokenizer_, id)}};
      };
      OrderedJson entry = one(token.id, token.logprob), alternatives = OrderedJson::array();
      for (const tenon::TokenLogprob& each : token.top) alternatives.push_back(one(each.id, each.logprob));
      entry["top_logprobs"] = std::move(alternatives);
      content.push_back(std::move(entry));
      continue;
    }
    tokens.push_back(token.text);
    values.push_back(finite_logprob(token.logprob));
    tops.push_back(program::top_by_text(tokenizer_, {token.id, token.logprob}, token.top));
    offsets.push_back(echoed + token.offset);
  }
  if (terms_.chat) return {{"content", std::move(content)}, {"refusal", nullptr}};
  return {{"tokens", std::move(tokens)},
          {"token_logprobs", std::move(values)},
          {"top_logprobs", std::move(tops)},
          {"text_offset", std::move(offsets)}};
}

// Null where none are asked for; otherwise from the listed token `from` on, after the prompt's where they are due.
OrderedJson OpenAiWriter::listed_of(int index, std::size_t from, bool with_prompt) const {
  if (!terms_.logprobs) return nullptr;
  if (lists_prompt() && with_prompt) return prompt_and_listed(index);
  return logprobs_of(choices_[static_cast<std::size_t>(index)], from, characters(echo_of(index)));
}

// The prompt's first choice has them.
const std::shared_ptr<const tenon::Scores>& OpenAiWriter::found_scores(int index) const {
  return choices_[static_cast<std::size_t>(index / terms_.n * terms_.n)].scores;
}

const tenon::Scores& OpenAiWriter::scores_of(int index) const {
  const auto& scores = found_scores(index);
  if (!scores)
    throw ApiError(ApiError::Kind::engine, "the engine failed before the prompt's log-probabilities were known");
  return *scores;
}

// vLLM's form: an object a token, from ids to what is known of them; nothing comes before the first.
OrderedJson OpenAiWriter::prompt_logprobs(int index) const {
  const auto entry = [&](const tenon::TokenLogprob& token, int rank) {
    return OrderedJson{
        {"logprob", finite_logprob(token.logprob)}, {"rank", rank}, {"decoded_token", text_of(tokenizer_, token.id)}};
  };
  OrderedJson all = OrderedJson::array({nullptr});
  for (const tenon::PromptLogprob& each : scores_of(index).prompt) {
    OrderedJson token = {{std::to_string(each.token.id), entry(each.token, each.rank)}};
    const std::size_t shown = std::min(each.top.size(), static_cast<std::size_t>(*terms_.prompt_logprobs));
    for (std::size_t i = 0; i < shown; ++i)
      token.emplace(std::to_string(each.top[i].id), entry(each.top[i], static_cast<int>(i) + 1));
    all.push_back(std::move(token));
  }
  return all;
}

// The prompt's tokens, then the answer's; nothing comes before the first of them, and so it has no probability. A
// special token has its spelling where the echo has it.
OrderedJson OpenAiWriter::prompt_and_listed(int index) const {
  const std::vector<tenon::TokenId>& ids = prompt_of(index);
  const std::vector<tenon::PromptLogprob>& scored = scores_of(index).prompt;
  const std::string& echo = echo_of(index);
  OrderedJson tokens = OrderedJson::array(), values = tokens, tops = tokens, offsets = tokens;
  tenon::StreamDecoder decoder(tokenizer_);
  std::size_t offset = 0, bytes = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    std::string text;
    if (!tokenizer_.is_special(ids[i]))
      text = decoder.push(ids[i]);
    else if (const std::string spelled = text_of(tokenizer_, ids[i]);
             echo.compare(std::min(bytes, echo.size()), spelled.size(), spelled) == 0)
      text = spelled;
    offsets.push_back(offset);
    offset += characters(text);
    bytes += text.size();
    tokens.push_back(std::move(text));
    const tenon::PromptLogprob* const score = i == 0 ? nullptr : &scored.at(i - 1);
    values.push_back(score ? OrderedJson(finite_logprob(score->token.logprob)) : OrderedJson(nullptr));
    const auto top = [&] {
      return std::span(score->top).first(std::min(score->top.size(), static_cast<std::size_t>(terms_.alternatives)));
    };
    tops.push_back(score ? program::top_by_text(tokenizer_, score->token, top()) : OrderedJson(nullptr));
  }
  OrderedJson answer = logprobs_of(choices_[static_cast<std::size_t>(index)], 0, characters(echo_of(index)));
  const auto joined = [&](OrderedJson before, const char* key) {
    for (OrderedJson& each : answer[key]) before.push_back(std::move(each));
    answer[key] = std::move(before);
  };
  joined(std::move(tokens), "tokens");
  joined(std::move(values), "token_logprobs");
  joined(std::move(tops), "top_logprobs");
  joined(std::move(offsets), "text_offset");
  return answer;
}

std::string OpenAiWriter::whole() const {
  OrderedJson answer = head(terms_.chat ? "chat.completion" : "text_completion");
  OrderedJson& choices = answer["choices"] = OrderedJson::array();
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    const Choice& choice = choices_[i];
    const int index = static_cast<int>(i);
    OrderedJson out = {{"index", index}};
    if (terms_.chat)
      out["message"] = (choice.reader ? choice.message : AnswerMessage{.content = choice.text}).json();
    else
      out["text"] = echo_of(index) + choice.text;
    out["logprobs"] = listed_of(index, 0, true);
    out["finish_reason"] = or_null(choice.reason);
    if (choice.receipt) out["receipt"] = OrderedJson(tenon::to_json(*choice.receipt));
    if (terms_.return_token_ids) out["token_ids"] = choice.ids;
    if (!terms_.chat && terms_.return_token_ids) out["prompt_token_ids"] = prompt_of(index);
    if (!terms_.chat && terms_.prompt_logprobs) out["prompt_logprobs"] = prompt_logprobs(index);
    choices.push_back(std::move(out));
  }
  if (terms_.chat && terms_.return_token_ids) answer["prompt_token_ids"] = prompt_of(0);
  if (terms_.chat && terms_.prompt_logprobs) answer["prompt_logprobs"] = prompt_logprobs(0);
  answer["usage"] = usage_json();
  return one_line(answer);
}

Usage OpenAiWriter::usage() const {
  Usage usage;
  for (const auto& prompt : terms_.prompts) usage.prompt_tokens += static_cast<int>(prompt.size());
  for (const Choice& choice : choices_) usage.generated_tokens += choice.tokens;
  return usage;
}

// vLLM's: of one choice, with its prompt.
OrderedJson OpenAiWriter::usage_so_far(int index, int tokens) const {
  const int prompt = static_cast<int>(prompt_of(index).size());
  return {{"prompt_tokens", prompt}, {"completion_tokens", tokens}, {"total_tokens", prompt + tokens}};
}

OrderedJson OpenAiWriter::usage_json() const {
  const Usage now = usage();
  OrderedJson out = {{"prompt_tokens", now.prompt_tokens},
                     {"completion_tokens", now.generated_tokens},
                     {"total_tokens", now.prompt_tokens + now.generated_tokens}};
  if (!terms_.tells_prediction) return out;
  int drafted = 0, accepted = 0;
  for (const Choice& choice : choices_) {
    drafted += choice.guesses.prediction_drafted;
    accepted += choice.guesses.prediction_accepted;
  }
  out["completion_tokens_details"] = {{"accepted_prediction_tokens", accepted},
                                      {"rejected_prediction_tokens", drafted - accepted}};
  return out;
}

}  // namespace serve
