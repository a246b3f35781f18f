// tenon verify: receipts, or answers of an API, in; a line for each out, in the same order.
#include "tenon/engine/verify.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "api_replay.h"
#include "commands.h"
#include "constraints.h"
#include "conversations.h"
#include "counters.h"
#include "json_lines.h"
#include "output.h"
#include "signature/receipt_key.h"
#include "tenon/io/json.h"

namespace program {
namespace {

using tenon::Json;

constexpr std::size_t kTogether = 256;  // lines that are read before they are verified

using PublicKeys = std::vector<ReceiptPublicKey>;

struct ReceiptLine {
  std::string id = "null";  // as JSON text
  std::vector<tenon::Receipt> receipts;
  tenon::ReceiptCheck check;   // of what is read; then of the first receipt that does not hold
  tenon::ReceiptCheck beside;  // of the ids beside the receipts
  bool is_signed = false;      // one of the receipts
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

// keys: empty: signatures are not checked.
ReceiptLine parse_line(std::string_view text, int number, const PublicKeys& keys) {
  ReceiptLine line;
  try {
    const Json json = parse_json_line(text, number);
    if (!json.is_object())
      throw tenon::Error(tenon::Error::Kind::invalid_request, line_name(number), "must be an object");
    if (json.contains("id") && (json["id"].is_string() || json["id"].is_number()))
      line.id = json["id"].dump(-1, ' ', true, Json::error_handler_t::replace);
    line.receipts = receipts_of(json, line.beside);
    for (const tenon::Receipt& each : line.receipts) {
      line.is_signed = line.is_signed || !each.signature.empty();
      if (!keys.empty() && line.check.holds) line.check = check_signature(each, keys);
    }
    if (!line.check.holds) line.receipts.clear();  // nothing is computed for them
  } catch (const tenon::Error& error) {
    line.check = tenon::failed_check(error);
  }
  return line;
}

std::string answer_of(const ReceiptLine& line, const PublicKeys& keys) {
  std::string out = "{\"id\": " + line.id + ", \"holds\": ";
  if (line.check.holds)
    return out + (line.is_signed && keys.empty() ? "true, \"signature\": \"not checked\"}\n" : "true}\n");
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

int verify_receipts(tenon::AnyEngine& engine, RequestConstraints& constraints, const PublicKeys& keys) {
  const auto make = [&](const tenon::ConstraintSource& source) { return constraints.from(source); };
  Output output;
  bool all_hold = true;
  std::string text;
  for (int number = 0; std::cin;) {
    std::vector<ReceiptLine> lines;
    while (lines.size() < kTogether && next_line(std::cin, text, number))
      lines.push_back(parse_line(text, number, keys));
    check_lines(lines, engine, make);
    for (const ReceiptLine& line : lines) {
      all_hold = all_hold && line.check.holds;
      output.write(answer_of(line, keys));
    }
    output.flush();
  }
  print_counters(engine.stats());
  return all_hold ? 0 : 1;
}

// Counts of all lines, for stderr.
struct ApiCounts {
  int same = 0, different = 0, not_compared = 0;
  std::optional<double> logprob_difference;

  void add(const ApiCheck& check) {
    ++(!check.same ? not_compared : *check.same ? same : different);
    if (check.logprob_difference)
      logprob_difference = std::max(logprob_difference.value_or(0), *check.logprob_difference);
  }
  std::string line() const {
    std::string out = "{\"same\": " + std::to_string(same) + ", \"different\": " + std::to_string(different) +
                      ", \"not_compared\": " + std::to_string(not_compared) + ", \"logprob_difference\": ";
    if (!logprob_difference) return out + "null}\n";
    append_json_number(out, *logprob_difference);
    return out + "}\n";
  }
};

std::string from_api_name(const VerifyCommand& command) { return "--from-api " + tenon::printable(command.from_api); }

int verify_answers(std::istream& in, const VerifyCommand& command, ApiReplay& replay) {
  Output output;
  ApiCounts counts;
  std::string text;
  for (int number = 0; in;) {
    std::vector<ApiLine> lines;
    while (lines.size() < kTogether && next_line(in, text, number))
      lines.push_back(parse_api_line(text, number, command.model.adapter_root));
    const std::vector<ApiCheck> checks = replay.run(lines);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      counts.add(checks[i]);
      output.write(check_line(lines[i], checks[i]));
    }
    output.flush();
  }
  if (in.bad()) throw tenon::Error(tenon::Error::Kind::io, from_api_name(command), "cannot be read to its end");
  std::cerr << counts.line();
  if (counts.same == 0) return 1;  // a file without lines proves nothing
  return counts.different + counts.not_compared == 0 ? 0 : 1;
}

}  // namespace

int verify(const VerifyCommand& command) {
  PublicKeys keys;
  for (const std::string& file : command.public_keys) keys.push_back(ReceiptPublicKey::read("--public-key", file));
  std::ifstream file;
  const bool from_file = !command.from_api.empty() && command.from_api != "-";
  if (from_file) {
    std::error_code ignored;
    if (std::filesystem::is_directory(command.from_api, ignored))
      throw tenon::Error(tenon::Error::Kind::io, from_api_name(command), "is a folder; name a file, or - for stdin");
    file.open(command.from_api);
    if (!file) throw tenon::Error(tenon::Error::Kind::io, from_api_name(command), "cannot be read");
  }
  const auto files = open_model(command.model);
  ModelOptions options = with_stored_weights(command.model, files);
  options.takes_all_guesses = true;
  const auto engine = make_engine(options, files);
  RequestConstraints constraints(engine->tokenizer(), engine->config());
  if (command.from_api.empty()) return verify_receipts(*engine, constraints, keys);
  const auto find = [&] {
    return find_chat_template(model_folder(command.model), command.chat_template, engine->tokenizer());
  };
  Conversations conversations(find, engine->tokenizer(), engine->config());
  ApiReplay replay(*engine, constraints, conversations);
  return verify_answers(from_file ? file : std::cin, command, replay);
}

}  // namespace program
