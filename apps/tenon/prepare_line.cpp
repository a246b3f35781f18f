#include "prepare_line.h"

#include <algorithm>
#include <utility>

#include "conversation/call_constraint.h"
#include "tenon/core/error.h"
#include "tenon/engine/prepared_request.h"
#include "tenon/io/json.h"

namespace program {
namespace {

constexpr int kBatchLength = 1024;  // tokens of an answer if neither the line nor the context bounds it

// The constraint as a receipt holds it.
tenon::ConstraintSource source_of(const ConstraintText& text) {
  switch (text.kind) {
    case ConstraintText::Kind::none:
      return {};
    case ConstraintText::Kind::schema:
      return {"schema", text.schema.dump()};
    case ConstraintText::Kind::regex:
      return {"regex", text.text};
    case ConstraintText::Kind::grammar:
      return {"grammar", text.text};
    case ConstraintText::Kind::choice:
      return {"choice", tenon::Json(text.choices).dump()};
  }
  return {};
}

// The prompt of a line of a batch file as tokens, since its answer counts them. The length of its answer, if the line
// leaves it to the context.
void prepare_batch(ParsedRequest& line, const tenon::AnyEngine& engine) {
  tenon::Request& request = line.request;
  const tenon::Tokenizer* const tokenizer = engine.tokenizer();
  if (!tokenizer) throw tenon::Error(tenon::Error::Kind::invalid_request, "body", "this model has no tokenizer");
  tokenize(request, *tokenizer, engine.config().positions);
  if (line.batch->chat && !line.batch->length_given)
    request.options.max_new_tokens = room_for_answer(request.input_ids.size(), engine);
}

// The prompt of a conversation in a batch file, with the calls that its answer may have.
void prepare_chat(ParsedRequest& line, RequestConstraints& constraints, Conversations& conversations,
                  std::optional<std::int64_t> now) {
  const ToolChoice& tools = line.batch->tools;
  AnswerStyle style = conversations.render_chat(std::move(*line.conversation), tools, line.request, now);
  if (tools.kind != ToolChoice::Kind::none && line.request.constraint) style.starts = call_starts(tools, style);
  if (tools.kind != ToolChoice::Kind::none)
    constraints.calls(conversations.chat_template(), tools, style, line.request);
  if (style.tools || !style.think.end.empty()) line.batch->style = std::move(style);
}

}  // namespace

void tokenize(tenon::Request& request, const tenon::Tokenizer& tokenizer, int positions) {
  if (request.input_ids.empty())
    request.input_ids =
        tenon::prompt_tokens(std::exchange(request.prompt, {}), tokenizer, positions, request.parse_special);
}

int room_for_answer(std::size_t prompt_tokens, const tenon::AnyEngine& engine) {
  const int positions = engine.config().positions, room = engine.cache_stats().capacity_tokens;
  if (positions <= 0) return kBatchLength;
  return std::max(1, std::min(positions, room) + 1 - static_cast<int>(prompt_tokens));
}

void prepare_line(ParsedRequest& line, const tenon::AnyEngine& engine, RequestConstraints& constraints,
                  Conversations& conversations, std::optional<std::int64_t> now) {
  line.request.constraint_source = source_of(line.constraint);
  line.request.constraint = constraints.from(line.constraint);
  if (!line.prediction.empty() && engine.tokenizer())
    line.request.prediction = engine.tokenizer()->encode(line.prediction);
  if (line.conversation && line.batch)
    prepare_chat(line, constraints, conversations, now);
  else if (line.conversation)
    conversations.render(std::move(*line.conversation), line.request);
  if (line.batch) prepare_batch(line, engine);
}

}  // namespace program
