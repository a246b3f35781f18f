// The lines of `tenon run`: parses strict JSON to a request, and formats the answer as a line of JSON.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "batch_line.h"
#include "tenon/chat/template.h"
#include "tenon/core/request.h"
#include "tenon/engine/completion.h"
#include "tenon/io/json.h"

namespace program {

// A constraint of an answer, before it is compiled.
struct ConstraintText {
  enum class Kind { none, schema, regex, grammar, choice };
  Kind kind = Kind::none;
  tenon::OrderedJson schema = {};         // Kind::schema: members in their order
  std::string text = {};                  // Kind::regex, Kind::grammar
  std::vector<std::string> choices = {};  // Kind::choice
};

struct ParsedRequest {
  std::string id = "null";  // as JSON text
  std::string error;        // reason of the refusal; empty: the line is valid
  tenon::Request request;
  double delay_ms = 0;                                         // time of submission after the start
  ConstraintText constraint = {};                              // compiled to request.constraint later
  std::optional<tenon::chat::Conversation> conversation = {};  // rendered to request.input_ids later
  std::string prediction = {};                                 // a text: request.prediction later
  std::optional<BatchLine> batch = {};                         // the line is one of an OpenAI batch file
};

// Defaults of requests.
struct RequestDefaults {
  tenon::Options options = {};
  bool parse_special = false;
};

// A line is a request of `tenon run`, or one of OpenAI's batch files. With options.pooling it is one of `tenon
// classify` or `tenon embed`. number: of the line in the input, from 1. Errors are in the result's `error`.
ParsedRequest parse_request(std::string_view line, int number, const RequestDefaults& defaults);

// Reads a line of an OpenAI batch file, parsed to JSON. Throws tenon::Error with the field as its place; `out` then has
// what was read before.
void read_batch(const tenon::OrderedJson& line, int number, RequestDefaults defaults, ParsedRequest& out);

// The parts of an answer in addition to the tokens.
struct AnswerParts {
  bool text = false, logits = false, nll = false, logprobs = false, choices = false;
  tenon::Pooling pooling = tenon::Pooling::none;
  bool normalize = true;  // embeddings
};
AnswerParts answer_parts(const tenon::Options& options, bool has_tokenizer, bool normalize = true);

// The answer as a line, with its newline.
std::string answer_line(const std::string& id, const tenon::Completion& completion, const AnswerParts& parts);
std::string error_line(const std::string& id, std::string_view error);

}  // namespace program
