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
  refuse_failed(event, Dialect::openai);
  const bool ended = event.kind == Event::Kind::finished;
  if (!ended) {
    ++tokens_;
  }
  for (const AnswerPart& part : reader_.push(event.text)) read(part);
  if (!ended) return;
  for (const AnswerPart& part : reader_.finish()) read(part);
  end_block();
  reason_ = event.reason == tenon::FinishReason::length ? "max_tokens" : reader_.calls() > 0 ? "tool_use" : "end_turn";
  if (!terms_.stream) return;
  send("message_delta", {{"delta", OrderedJson{{"stop_reason", reason_}, {"stop_sequence", nullptr}}},
                         {"usage", OrderedJson{{"input_tokens", terms_.prompt_tokens}, {"output_tokens", tokens_}}}});
  send("message_stop", OrderedJson::object());
}

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
          {"stop_sequence", nullptr},
          {"usage", OrderedJson{{"input_tokens", terms_.prompt_tokens}, {"output_tokens", begins ? 0 : tokens_}}}};
}

std::string MessagesWriter::whole() const { return one_line(message(false)); }

void MessagesWriter::send(const char* type, OrderedJson members) {
  OrderedJson event = {{"type", type}};
  for (auto& [key, value] : members.items()) event[key] = std::move(value);
  streamed_ += "event: " + std::string(type) + "\n" + sse(one_line(event));
}

std::string MessagesWriter::failure(const ApiError& error) {
  send("error", {{"error", OrderedJson{{"type", "api_error"}, {"message", error.what()}}}});
  return std::exchange(streamed_, {});
}

}  // namespace serve
