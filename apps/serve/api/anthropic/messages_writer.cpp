#include "serve/api/anthropic/messages_writer.h"

#include <algorithm>

#include "serve/text.h"

namespace serve {

using tenon::Event;
using tenon::OrderedJson;
using BlockOf = AnswerPart::Kind;

MessagesWriter::MessagesWriter(Terms terms) : terms_(std::move(terms)), reader_(terms_.style) {
  if (terms_.stream) send("message_start", {{"message", message(true)}});
}

void MessagesWriter::take(const Event& event) {
  refuse_failed(event, Dialect::anthropic);
  const bool ended = event.kind == Event::Kind::finished;
  if (!ended) ++tokens_;
  if (event.kind == Event::Kind::token && event.final) {  // the next event says whether a stop sequence ended it
    last_text_ = event.text;
    stop_may_end_ = std::find(terms_.ends.begin(), terms_.ends.end(), event.token) == terms_.ends.end();
    return;
  }
  if (ended && last_text_) {
    const bool stopped = stop_may_end_ && event.reason == tenon::FinishReason::stop;
    const std::string text = *std::exchange(last_text_, std::nullopt);
    for (const AnswerPart& part : reader_.push(stopped ? without_stop(text) : text)) read(part);
  }
  for (const AnswerPart& part : reader_.push(event.text)) read(part);
  if (!ended) return;
  for (const AnswerPart& part : reader_.finish()) read(part);
  end_block();
  reason_ = reason_of(event);
  if (!terms_.stream) return;
  send("message_delta", {{"delta", OrderedJson{{"stop_reason", reason_}, {"stop_sequence", stop_json()}}},
                         {"usage", OrderedJson{{"input_tokens", terms_.prompt_tokens}, {"output_tokens", tokens_}}}});
  send("message_stop", OrderedJson::object());
}

// The stop ends the text of the last token. Of several that end there, the longest began
// first: that is the one that was found.
std::string MessagesWriter::without_stop(std::string text) {
  const std::vector<std::string>& stops = terms_.stops;
  const std::string* found = nullptr;
  for (const std::string& stop : stops)
    if (text.ends_with(stop) && (!found || stop.size() > found->size())) found = &stop;
  if (!found) return text;
  if (static_cast<std::size_t>(found - stops.data()) < terms_.client_stops) stop_ = *found;
  if (!terms_.keeps_stop) text.resize(text.size() - found->size());
  return text;
}

const char* MessagesWriter::reason_of(const Event& event) const {
  if (event.reason == tenon::FinishReason::length) return "max_tokens";
  if (stop_) return "stop_sequence";
  return reader_.has_whole_calls() ? "tool_use" : "end_turn";
}

OrderedJson MessagesWriter::stop_json() const { return stop_ ? OrderedJson(*stop_) : OrderedJson(nullptr); }

void MessagesWriter::read(const AnswerPart& part) {
  if (part.kind == BlockOf::reasoning && !terms_.shows_reasoning) return;
  if (part.kind == BlockOf::call || !open_ || (part.kind != BlockOf::arguments && blocks_.back().kind != part.kind))
    begin(part);
  if (part.kind == BlockOf::call) return;
  blocks_.back().text += part.text;
  if (!terms_.stream) return;
  const bool text = part.kind == BlockOf::text, thought = part.kind == BlockOf::reasoning;
  OrderedJson delta = {{"type", text ? "text_delta" : thought ? "thinking_delta" : "input_json_delta"}};
  delta[text ? "text" : thought ? "thinking" : "partial_json"] = part.text;
  send("content_block_delta", {{"index", blocks_.size() - 1}, {"delta", std::move(delta)}});
}

void MessagesWriter::begin(const AnswerPart& part) {
  end_block();
  Block block{.kind = part.kind, .text = {}, .name = {}, .id = {}};
  if (part.kind == BlockOf::call) {
    block.name = part.text;
    const bool is_short = terms_.style.tools && terms_.style.tools->short_ids;
    block.id = is_short ? random_id().substr(0, 9) : "toolu_" + random_id();
  }
  blocks_.push_back(std::move(block));
  open_ = true;
  if (terms_.stream)
    send("content_block_start", {{"index", blocks_.size() - 1}, {"content_block", block_json(blocks_.back())}});
}

void MessagesWriter::end_block() {
  if (!std::exchange(open_, false) || !terms_.stream) return;
  send("content_block_stop", {{"index", blocks_.size() - 1}});
}

OrderedJson MessagesWriter::block_json(const Block& block) const {
  if (block.kind == BlockOf::text) return {{"type", "text"}, {"text", block.text}};
  if (block.kind == BlockOf::reasoning) return {{"type", "thinking"}, {"thinking", block.text}, {"signature", ""}};
  OrderedJson input = OrderedJson::parse(block.text, nullptr, false);
  if (!input.is_object()) input = OrderedJson::object();  // cut short, or being written
  return {{"type", "tool_use"}, {"id", block.id}, {"name", block.name}, {"input", std::move(input)}};
}

OrderedJson MessagesWriter::message(bool begins) const {
  OrderedJson content = OrderedJson::array();
  for (const Block& block : blocks_) content.push_back(block_json(block));
  return {{"id", terms_.id},
          {"type", "message"},
          {"role", "assistant"},
          {"model", terms_.model},
          {"content", std::move(content)},
          {"stop_reason", reason_ ? OrderedJson(reason_) : OrderedJson(nullptr)},
          {"stop_sequence", stop_json()},
          {"usage", OrderedJson{{"input_tokens", terms_.prompt_tokens}, {"output_tokens", begins ? 0 : tokens_}}}};
}

std::string MessagesWriter::whole() const { return one_line(message(false)); }

void MessagesWriter::send(const char* type, OrderedJson members) {
  OrderedJson event = {{"type", type}};
  for (auto& [key, value] : members.items()) event[key] = std::move(value);
  streamed_ += "event: " + std::string(type) + "\n" + sse(one_line(event));
}

std::string MessagesWriter::failure(const ApiError& error) {
  return std::exchange(streamed_, {}) + "event: error\n" + sse(body(error, Dialect::anthropic));
}

}  // namespace serve
