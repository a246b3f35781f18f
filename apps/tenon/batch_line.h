// Lines of OpenAI's batch files: {"custom_id", "method", "url", "body"} in, {"custom_id", "response"} out.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "conversation/answer_reader.h"
#include "conversation/tool_choice.h"
#include "tenon/engine/completion.h"
#include "tenon/io/fields.h"
#include "tenon/io/json.h"
#include "tenon/tokenizer/bpe.h"

namespace program {

// A line of a batch file, besides its request.
struct BatchLine {
  std::string custom_id;
  int number = 0;  // of the line in the input, from 1
  bool chat = false;
  bool length_given = false;  // otherwise an answer to a conversation may fill the context
  bool logprobs = false;
  std::string model;  // as the body names it; empty: it does not
  ToolChoice tools = {};
  std::optional<AnswerStyle> style = {};  // of a chat's answers, once the prompt is rendered; none: they are all text
};

// Whether the line is one of a batch file: it has `custom_id`.
bool is_batch_line(const tenon::Json& line);

// Reads a line. Writes the body as a request of `tenon run` to `request`. Errors name the field of the body.
// invalid_request: a field of the wrong type, or another route. unsupported: a feature that batches do not have.
void read_batch_line(const tenon::OrderedJson& line, int number, BatchLine& batch, tenon::OrderedJson& request);

// A choice of an answer, as OpenAI's API has it. index: of the choice.
tenon::OrderedJson batch_choice(const BatchLine& batch, const tenon::Choice& choice, std::size_t index,
                                const tenon::Tokenizer& tokenizer);

// The line of an answer, with its newline. tokenizer: of the model. created: seconds since 1970.
std::string batch_answer(const BatchLine& batch, const tenon::Completion& completion, std::size_t prompt_tokens,
                         const tenon::Tokenizer& tokenizer, const std::string& model, std::int64_t created);

// The line of a failed request. status: as HTTP has it; 400: the request is at fault.
std::string batch_error(const BatchLine& batch, std::string_view error, int status);

}  // namespace program
