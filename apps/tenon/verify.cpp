// tenon verify: receipts in, a line for each out, in the same order.
#include "tenon/engine/verify.h"

#include <exception>
#include <iostream>
#include <span>
#include <string>
#include <vector>

#include "commands.h"
#include "constraints.h"
#include "counters.h"
#include "json_lines.h"
#include "output.h"
#include "tenon/io/json.h"

namespace program {
namespace {

using tenon::Json;

constexpr std::size_t kTogether = 256;  // receipts that are read before they are verified

struct ReceiptLine {
  std::string id = "null";  // as JSON text
  std::vector<tenon::Receipt> receipts;
  tenon::ReceiptCheck check;   // of what is read; then of the first receipt that does not hold
  tenon::ReceiptCheck beside;  // of the ids beside the receipts
};

// The answer's ids, where the line has them, must be those of its receipt.
tenon::ReceiptCheck check_ids(const Json& answer, const tenon::Receipt& receipt) {
  for (const char* key : {"output_ids", "token_ids"}) {
    if (answer.contains(key) && answer[key] != Json(receipt.ids))
      return {.holds = false, .field = key, .why = "are not the ids of the receipt beside them"};
  }
  return {};
}

// The receipts of a line: itself, that of an answer, or those of its choices, all of which must have one then. beside:
// the check of the ids that the line has beside its receipts.
std::vector<tenon::Receipt> receipts_of(const Json& line, tenon::ReceiptCheck& beside) {
  if (line.contains("fingerprint")) return {tenon::receipt_from(line)};
  std::vector<tenon::Receipt> receipts;
  const auto take = [&](const Json& answer) {
    if (!answer.is_object() || !answer.contains("receipt")) return;
    const Json& receipt = answer["receipt"];
    if (receipt.is_array())
      for (const Json& each : receipt) receipts.push_back(tenon::receipt_from(each));
    else
      receipts.push_back(tenon::receipt_from(receipt));
    if (receipt.is_object() && beside.holds) beside = check_ids(answer, receipts.back());
  };
  const bool has_choices = line.contains("choices") && line["choices"].is_array();
  if (has_choices)
    for (const Json& each : line["choices"]) take(each);
  if (!receipts.empty() && receipts.size() < line["choices"].size())
    throw tenon::Error(tenon::Error::Kind::invalid_request, "receipt", "is missing in one of choices");
  if (receipts.empty()) take(line);
  if (receipts.empty() && line.contains("details")) take(line["details"]);
  if (receipts.empty())
    throw tenon::Error(tenon::Error::Kind::invalid_request, "receipt", "is missing: the line is none and has none");
  return receipts;
}

ReceiptLine parse_line(std::string_view text, int number) {
  ReceiptLine line;
  try {
    const Json json = parse_json_line(text, number);
    if (!json.is_object())
      throw tenon::Error(tenon::Error::Kind::invalid_request, line_name(number), "must be an object");
    if (json.contains("id") && (json["id"].is_string() || json["id"].is_number()))
      line.id = json["id"].dump(-1, ' ', true, Json::error_handler_t::replace);
    line.receipts = receipts_of(json, line.beside);
  } catch (const tenon::Error& error) {
    line.check = tenon::failed_check(error);
  }
  return line;
}

std::string answer_of(const ReceiptLine& line) {
  std::string out = "{\"id\": " + line.id + ", \"holds\": ";
  if (line.check.holds) return out + "true}\n";
  out += "false, \"field\": " + json_string(line.check.field) + ", \"position\": ";
  out += line.check.position ? std::to_string(*line.check.position) : "null";
  return out + ", \"why\": " + json_string(line.check.why) + "}\n";
}

// Verifies the receipts of all lines together.
void check_lines(std::vector<ReceiptLine>& lines, tenon::AnyEngine& engine, const tenon::ConstraintMaker& make) {
  std::vector<tenon::Receipt> receipts;
  std::vector<std::size_t> line_of;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    for (tenon::Receipt& each : lines[i].receipts) {
      receipts.push_back(std::move(each));
      line_of.push_back(i);
    }
  }
  const std::vector<tenon::ReceiptCheck> checks =
      tenon::verify(engine, std::span<const tenon::Receipt>(receipts), make);
  for (std::size_t i = 0; i < checks.size(); ++i) {
    tenon::ReceiptCheck& of_line = lines[line_of[i]].check;
    if (of_line.holds) of_line = checks[i];
  }
  for (ReceiptLine& line : lines)
    if (line.check.holds) line.check = line.beside;
}

}  // namespace

int verify(const VerifyCommand& command) {
  const auto files = open_model(command.model);
  ModelOptions options = with_stored_weights(command.model, files);
  options.takes_all_guesses = true;
  const auto engine = make_engine(options, files);
  RequestConstraints constraints(engine->tokenizer(), engine->config());
  const auto make = [&](const tenon::ConstraintSource& source) { return constraints.from(source); };
  Output output;
  bool all_hold = true;
  std::string text;
  for (int number = 0; std::cin;) {
    std::vector<ReceiptLine> lines;
    while (lines.size() < kTogether && next_line(std::cin, text, number)) lines.push_back(parse_line(text, number));
    check_lines(lines, *engine, make);
    for (const ReceiptLine& line : lines) {
      all_hold = all_hold && line.check.holds;
      output.write(answer_of(line));
    }
    output.flush();
  }
  print_counters(engine->stats());
  return all_hold ? 0 : 1;
}

}  // namespace program
