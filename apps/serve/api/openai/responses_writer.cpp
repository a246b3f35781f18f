#include "serve/api/openai/responses_writer.h"

#include "serve/text.h"

namespace serve {

using tenon::Event;
using tenon::OrderedJson;
using PartOf = AnswerPart::Kind;

ResponsesWriter::ResponsesWriter(Terms terms) : terms_(std::move(terms)), reader_(terms_.style) {
  if (!terms_.stream) return;
  send("response.created", {{"response", response()}});
  send("response.in_progress", {{"response", response()}});
}

void ResponsesWriter::take(const Event& event) {
  refuse_failed(event, Dialect::openai);
  const bool ended = event.kind == Event::Kind::finished;
  if (!ended) {
    ++tokens_;
    if (!items_.empty() && items_.back().kind == PartOf::reasoning && !items_.back().done) ++reasoning_tokens_;
  }
  for (const AnswerPart& part : reader_.push(event.text)) read(part);
  if (!ended) return;
  for (const AnswerPart& part : reader_.finish()) read(part);
  if (items_.empty()) begin({PartOf::text, ""});  // an answer has a message
  const bool cut = event.reason == tenon::FinishReason::length;
  status_ = cut ? "incomplete" : "completed";
  cuts_call_ = items_.back().kind == PartOf::call && !reader_.has_whole_calls();
  end_item();
  if (terms_.stream) send(cut ? "response.incomplete" : "response.completed", {{"response", response()}});
}

void ResponsesWriter::read(const AnswerPart& part) {
  if (part.kind == PartOf::reasoning && !terms_.shows_reasoning) return;
  if (part.kind == PartOf::call || items_.empty() || items_.back().done ||
      (part.kind != PartOf::arguments && items_.back().kind != part.kind))
    begin(part);
  if (part.kind == PartOf::call) return;
  items_.back().text += part.text;
  if (!terms_.stream) return;
  OrderedJson members = place();
  members["delta"] = part.text;
  if (part.kind == PartOf::text) members["logprobs"] = OrderedJson::array();
  send(part.kind == PartOf::text        ? "response.output_text.delta"
       : part.kind == PartOf::reasoning ? "response.reasoning_text.delta"
                                        : "response.function_call_arguments.delta",
       std::move(members));
}

void ResponsesWriter::begin(const AnswerPart& part) {
  end_item();
  Item item{.kind = part.kind, .id = {}, .text = {}, .name = {}, .call_id = {}};
  item.id = (part.kind == PartOf::text ? "msg_" : part.kind == PartOf::call ? "fc_" : "rs_") + random_id();
  if (part.kind == PartOf::call) {
    item.name = part.text;
    const bool is_short = terms_.style.tools && terms_.style.tools->short_ids;
    item.call_id = is_short ? random_id().substr(0, 9) : "call_" + random_id();
  }
  items_.push_back(std::move(item));
  if (!terms_.stream) return;
  OrderedJson shown = item_json(items_.back());
  if (part.kind != PartOf::call) shown["content"] = OrderedJson::array();
  send("response.output_item.added", {{"output_index", items_.size() - 1}, {"item", std::move(shown)}});
  if (part.kind == PartOf::call) return;
  OrderedJson members = place();
  members["part"] = part_json(items_.back());
  send("response.content_part.added", std::move(members));
}

void ResponsesWriter::end_item() {
  if (items_.empty() || items_.back().done) return;
  Item& item = items_.back();
  item.done = true;
  if (!terms_.stream) return;
  OrderedJson members = place();
  if (item.kind == PartOf::call) {
    members["name"] = item.name;
    members["arguments"] = item.text;
    send("response.function_call_arguments.done", std::move(members));
  } else {
    const bool text = item.kind == PartOf::text;
    members["text"] = item.text;
    if (text) members["logprobs"] = OrderedJson::array();
    send(text ? "response.output_text.done" : "response.reasoning_text.done", std::move(members));
    members = place();
    members["part"] = part_json(item);
    send("response.content_part.done", std::move(members));
  }
  send("response.output_item.done", {{"output_index", items_.size() - 1}, {"item", item_json(item)}});
}

OrderedJson ResponsesWriter::place() const {
  OrderedJson members = {{"item_id", items_.back().id}, {"output_index", items_.size() - 1}};
  if (items_.back().kind != PartOf::call) members["content_index"] = 0;
  return members;
}

OrderedJson ResponsesWriter::part_json(const Item& item) const {
  if (item.kind == PartOf::reasoning) return {{"type", "reasoning_text"}, {"text", item.text}};
  return {{"type", "output_text"},
          {"text", item.text},
          {"annotations", OrderedJson::array()},
          {"logprobs", OrderedJson::array()}};
}

OrderedJson ResponsesWriter::item_json(const Item& item) const {
  const bool last = &item == &items_.back();
  const char* const status = !item.done           ? "in_progress"
                             : last && cuts_call_ ? "incomplete"
                             : last && status_    ? status_
                                                  : "completed";
  if (item.kind == PartOf::call)
    return {{"type", "function_call"}, {"id", item.id},          {"call_id", item.call_id},
            {"name", item.name},       {"arguments", item.text}, {"status", status}};
  OrderedJson content = OrderedJson::array({part_json(item)});
  if (item.kind == PartOf::reasoning)
    return {{"type", "reasoning"},
            {"id", item.id},
            {"summary", OrderedJson::array()},
            {"content", std::move(content)},
            {"status", status}};
  return {
      {"type", "message"}, {"id", item.id}, {"role", "assistant"}, {"content", std::move(content)}, {"status", status}};
}

// The object of all routes and events, as far as it is known.
OrderedJson ResponsesWriter::response() const {
  const ResponsesRequest& request = terms_.request;
  const auto or_else = [](const OrderedJson& value, OrderedJson other) {
    return value.is_null() ? std::move(other) : value;
  };
  OrderedJson output = OrderedJson::array();
  for (const Item& item : items_) output.push_back(item_json(item));
  const bool cut = status_ && status_ == std::string_view("incomplete");
  OrderedJson out = {{"id", terms_.id},
                     {"object", "response"},
                     {"created_at", terms_.created},
                     {"status", failed_   ? "failed"
                                : status_ ? status_
                                          : "in_progress"},
                     {"background", false},
                     {"error", nullptr},
                     {"incomplete_details", cut ? OrderedJson{{"reason", "max_output_tokens"}} : OrderedJson(nullptr)},
                     {"instructions", request.instructions},
                     {"max_output_tokens", request.max_output_tokens},
                     {"model", terms_.model},
                     {"output", std::move(output)},
                     {"parallel_tool_calls", request.chat.tools.parallel},
                     {"previous_response_id", nullptr},
                     {"reasoning", or_else(request.reasoning, {{"effort", nullptr}, {"summary", nullptr}})},
                     {"store", false},
                     {"temperature", or_else(request.temperature, 1.0)},
                     {"text", or_else(request.text, {{"format", OrderedJson{{"type", "text"}}}})},
                     {"tool_choice", or_else(request.tool_choice, "auto")},
                     {"tools", or_else(request.tools, OrderedJson::array())},
                     {"top_p", or_else(request.top_p, 1.0)},
                     {"truncation", "disabled"},
                     {"usage", nullptr},
                     {"metadata", or_else(request.metadata, OrderedJson::object())}};
  if (failed_) out["error"] = {{"code", "server_error"}, {"message", error_}};
  if (status_)
    out["usage"] = {{"input_tokens", terms_.prompt_tokens},
                    {"input_tokens_details", OrderedJson{{"cache_write_tokens", 0}, {"cached_tokens", 0}}},
                    {"output_tokens", tokens_},
                    {"output_tokens_details", OrderedJson{{"reasoning_tokens", reasoning_tokens_}}},
                    {"total_tokens", terms_.prompt_tokens + tokens_}};
  return out;
}

void ResponsesWriter::send(const char* type, OrderedJson members) {
  OrderedJson event = {{"type", type}, {"sequence_number", sequence_++}};
  for (auto& [key, value] : members.items()) event[key] = std::move(value);
  streamed_ += "event: " + std::string(type) + "\n" + sse(one_line(event));
}

std::string ResponsesWriter::failure(const ApiError& error) {
  failed_ = true;
  error_ = error.what();
  send("response.failed", {{"response", response()}});
  return std::exchange(streamed_, {});
}

}  // namespace serve
