// A line of `tenon run`: strict JSON to a request, and the request's answer to a line of JSON.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "tenon/core/request.h"
#include "tenon/engine/completion.h"
#include "tenon/io/json.h"

namespace program {

struct RequestLine {
  std::string id = "null";  // as JSON
  std::string error;        // why the line is refused; empty: it is not
  tenon::Request request;
  double delay_ms = 0;                            // to be submitted so long after the start
  std::optional<tenon::OrderedJson> schema = {};  // with its keys in order, to be compiled for request.constraint
};

// For requests that do not say.
struct RequestDefaults {
  tenon::Options options = {};
  bool parse_special = false;
};

// number: of the line in the input, from 1.
RequestLine parse_request(std::string_view line, int number, const RequestDefaults& defaults);

// What the answer shows beside the tokens.
struct AnswerParts {
  bool text = false, logits = false, nll = false, logprobs = false, choices = false;
};
AnswerParts answer_parts(const tenon::Options& options, bool has_tokenizer);

// The answer, a line with its end.
std::string answer_line(const std::string& id, const tenon::Completion& completion, const AnswerParts& parts);
std::string error_line(const std::string& id, std::string_view error);

}  // namespace program
