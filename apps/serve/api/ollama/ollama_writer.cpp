#include "serve/api/ollama/ollama_writer.h"

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "serve/text.h"

namespace serve {
namespace {

using tenon::Event;
using tenon::OrderedJson;
using tenon::TimePoint;

// 0 if one of the moments has not been.
std::int64_t nanoseconds(TimePoint from, TimePoint to) {
  if (from == TimePoint{} || to == TimePoint{}) return 0;
  return std::max<std::int64_t>(0, std::chrono::duration_cast<std::chrono::nanoseconds>(to - from).count());
}

}  // namespace

OllamaWriter::OllamaWriter(Terms terms) : terms_(std::move(terms)), reader_(terms_.style) {
  if (terms_.loads) reason_ = "load";
}

void OllamaWriter::take(const Event& event) {
  refuse_failed(event, Dialect::ollama);
  const bool ended = event.kind == Event::Kind::finished;
  if (!ended) {
    ++tokens_;
    last_ = event.came == TimePoint{} ? tenon::Clock::now() : event.came;
    if (first_ == TimePoint{}) first_ = last_;
  }
  for (const AnswerPart& part : reader_.push(event.text)) read(part);
  if (ended) {
    for (const AnswerPart& part : reader_.finish()) read(part);
    if (reader_.has_whole_calls()) end_call();
    started_ = event.started;
  }
  if (terms_.stream) send();
  if (!ended) return;
  reason_ = event.reason == tenon::FinishReason::length ? "length" : "stop";
  if (terms_.stream) streamed_ += line(/*is_last=*/true) + "\n";
}

void OllamaWriter::read(const AnswerPart& part) {
  using Kind = AnswerPart::Kind;
  if (part.kind == Kind::arguments) {
    call_arguments_ += part.text;
    return;
  }
  end_call();
  if (part.kind == Kind::call)
    call_name_ = part.text;
  else
    (part.kind == Kind::reasoning ? piece_.thinking : piece_.text) += part.text;
}

void OllamaWriter::end_call() {
  if (call_name_.empty()) return;
  OrderedJson arguments = OrderedJson::parse(call_arguments_, nullptr, false);
  if (!arguments.is_object()) arguments = OrderedJson::object();
  piece_.calls.push_back(
      {{"id", "call_" + random_id().substr(0, 8)},
       {"function", OrderedJson{{"index", calls_++}, {"name", call_name_}, {"arguments", std::move(arguments)}}}});
  call_name_.clear();
  call_arguments_.clear();
}

void OllamaWriter::send() {
  if (piece_.text.empty() && piece_.thinking.empty() && piece_.calls.empty()) return;
  streamed_ += line(/*is_last=*/false) + "\n";
  piece_ = {};
}

std::string OllamaWriter::line(bool is_last) const {
  OrderedJson out = {{"model", terms_.model}, {"created_at", iso_time(milliseconds_now())}};
  OrderedJson message = {{"role", "assistant"}, {"content", piece_.text}};
  if (!terms_.chat) out["response"] = piece_.text;
  if (!piece_.thinking.empty()) (terms_.chat ? message : out)["thinking"] = piece_.thinking;
  if (!piece_.calls.empty()) message["tool_calls"] = piece_.calls;
  if (terms_.chat) out["message"] = std::move(message);
  out["done"] = is_last;
  if (!is_last) return one_line(out);
  out["done_reason"] = reason_;
  if (terms_.loads) return one_line(out);
  out["total_duration"] = nanoseconds(terms_.arrived, tenon::Clock::now());
  out["load_duration"] = 0;
  out["prompt_eval_count"] = terms_.prompt_tokens;
  out["prompt_eval_duration"] = nanoseconds(started_, first_);
  out["eval_count"] = tokens_;
  out["eval_duration"] = nanoseconds(first_, last_);
  return one_line(out);
}

}  // namespace serve
