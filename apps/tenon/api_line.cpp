#include "api_line.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <system_error>
#include <utility>

#include "conversation/listed_tokens.h"
#include "json_lines.h"
#include "tenon/core/error.h"
#include "tenon/io/file.h"

namespace program {
namespace {

using tenon::Error;
using tenon::OrderedJson;

// Fields of a request that change the form of an answer, or its speed, but none of its tokens.
constexpr const char* kFormAlone[] = {"stream",    "stream_options", "receipt",        "return_token_ids",
                                      "resumable", "prediction",     "prompt_logprobs"};

// Fields of `tenon run` that a request to OpenAI's API calls otherwise.
constexpr std::pair<std::string_view, std::string_view> kTheirNames[] = {
    {"max_new_tokens", "max_tokens"}, {"input_ids", "prompt"}, {"schema", "response_format"}};

[[noreturn]] void refuse(std::string field, const std::string& what) {
  throw Error(Error::Kind::invalid_request, std::move(field), what);
}

// The member, or null.
const OrderedJson& member(const OrderedJson& object, const char* key) {
  static const OrderedJson null;
  const auto found = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && found != object.end() ? *found : null;
}

std::string text_or_empty(const OrderedJson& value) {
  return value.is_string() ? value.get<std::string>() : std::string();
}

// The body of a request. It may stand in a line of a batch's input file.
OrderedJson body_of(const OrderedJson& line, std::string& url, std::string& custom_id) {
  const OrderedJson& request = line.contains("request") ? line["request"] : line;
  if (!request.is_object()) refuse("request", "must be an object");
  if (!request.contains("body")) {
    if (&request == &line) refuse("request", "is missing");
    return request;
  }
  url = text_or_empty(member(request, "url"));
  custom_id = text_or_empty(member(request, "custom_id"));
  if (!request["body"].is_object()) refuse("request.body", "must be an object");
  return request["body"];
}

// The body of an answer. It may stand in a line of a batch's output file.
const OrderedJson& answer_of(const OrderedJson& line, const std::string& custom_id) {
  const OrderedJson* answer = &member(line, "response");
  if (!answer->is_object()) refuse("response", "must be an object");
  const std::string other = text_or_empty(member(*answer, "custom_id"));
  if (!custom_id.empty() && !other.empty() && custom_id != other)
    refuse("response.custom_id", "is \"" + tenon::printable(other, 60) + "\", and that of the request another");
  if (member(*answer, "response").is_object()) answer = &(*answer)["response"];
  if (member(*answer, "body").is_object()) answer = &(*answer)["body"];
  const OrderedJson& error = member(*answer, "error");
  if (!error.is_null()) {
    const std::string text = text_or_empty(error.is_string() ? error : member(error, "message"));
    refuse("response", "is an error: " + tenon::printable(text, 200));
  }
  if (!member(*answer, "choices").is_array() || (*answer)["choices"].empty())
    refuse("response.choices", "must be a list of at least one");
  return *answer;
}

std::string bytes_in(const OrderedJson& list) {
  std::string bytes;
  for (const OrderedJson& each : list) {
    if (!each.is_number_unsigned() || each.get<std::uint64_t>() > 255)
      refuse("response.choices.logprobs.content.bytes", "must be numbers from 0 to 255");
    bytes += static_cast<char>(each.get<unsigned>());
  }
  return bytes;
}

double number_or_nan(const OrderedJson& value) {
  return value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN();
}

ListedToken listed_as(const std::string& text, double logprob) {
  if (const auto bytes = bytes_spelled_by(text)) return {*bytes, logprob, /*is_exact=*/true};
  return {text, logprob, text.find(kUnknownCharacter) == text.npos};
}

std::vector<ListedToken> listed_in(const OrderedJson& logprobs) {
  std::vector<ListedToken> listed;
  for (const OrderedJson& each : member(logprobs, "content")) {
    const OrderedJson& bytes = member(each, "bytes");
    const double logprob = number_or_nan(member(each, "logprob"));
    listed.push_back(bytes.is_array() ? ListedToken{bytes_in(bytes), logprob, /*is_exact=*/true}
                                      : listed_as(text_or_empty(member(each, "token")), logprob));
  }
  const OrderedJson& tokens = member(logprobs, "tokens");
  const OrderedJson& values = member(logprobs, "token_logprobs");
  if (!tokens.is_array() || !values.is_array()) return listed;
  for (std::size_t i = 0; i < std::min(tokens.size(), values.size()); ++i)
    listed.push_back(listed_as(text_or_empty(tokens[i]), number_or_nan(values[i])));
  return listed;
}

// Arguments of a call: a JSON value, or a text that holds one. Any other text stays as it is.
std::string one_form_of(const OrderedJson& arguments) {
  const std::string text = arguments.is_string()
                               ? arguments.get<std::string>()
                               : arguments.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
  try {
    return tenon::parse_json(text, "arguments", {.depth = 64})
        .dump(-1, ' ', false, tenon::Json::error_handler_t::replace);
  } catch (const Error&) {
    return text;
  }
}

ApiChoice choice_from(const OrderedJson& json, bool chat) {
  ApiChoice choice;
  const OrderedJson& message = member(json, "message");
  choice.text = text_or_empty(chat ? member(message, "content") : member(json, "text"));
  if (chat) {
    if (!message.is_object()) refuse("response.choices.message", "is missing");
    for (const char* const key : {"reasoning_content", "reasoning"})
      if (member(message, key).is_string()) choice.reasoning = text_or_empty(message[key]);
    choice.calls = calls_of(message);
  } else if (!member(json, "text").is_string()) {
    refuse("response.choices.text", "is missing");
  }
  choice.reason = text_or_empty(member(json, "finish_reason"));
  choice.listed = listed_in(member(json, "logprobs"));
  const OrderedJson& ids = member(json, "token_ids");
  const auto is_id = [](const OrderedJson& each) {
    return each.is_number_unsigned() && each.get<std::uint64_t>() <= std::numeric_limits<tenon::TokenId>::max();
  };
  if (ids.is_null()) return choice;
  if (!ids.is_array() || !std::all_of(ids.begin(), ids.end(), is_id))
    refuse("response.choices.token_ids", "must be a list of ids");
  choice.ids = ids.get<std::vector<tenon::TokenId>>();
  return choice;
}

// A count of the usage; none: it is not told.
std::optional<int> count_in(const OrderedJson& answer, const char* key) {
  const OrderedJson& count = member(member(answer, "usage"), key);
  if (count.is_null()) return std::nullopt;
  constexpr int kMost = std::numeric_limits<int>::max();
  if (!count.is_number_unsigned() || count.get<std::uint64_t>() > kMost)
    refuse(std::string("response.usage.") + key, "must be an integer from 0 to " + std::to_string(kMost));
  return count.get<int>();
}

ApiAnswer answer_from(const OrderedJson& json, bool chat) {
  ApiAnswer answer;
  const OrderedJson& list = json["choices"];
  answer.choices.resize(list.size());
  std::vector<bool> seen(list.size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    const OrderedJson& index = member(list[i], "index");
    const std::size_t at = index.is_number_unsigned() ? index.get<std::size_t>() : i;
    if (at >= seen.size() || seen[at]) refuse("response.choices.index", "must count from 0");
    seen[at] = true;
    answer.choices[at] = choice_from(list[i], chat);
  }
  answer.fingerprint = text_or_empty(member(json, "system_fingerprint"));
  if (member(json, "created").is_number_integer()) answer.created = json["created"].get<std::int64_t>();
  answer.prompt_tokens = count_in(json, "prompt_tokens");
  answer.written_tokens = count_in(json, "completion_tokens");
  return answer;
}

// Whether the model that a request names is an adapter's folder below the root.
bool is_adapter(const std::filesystem::path& root, const std::string& name) {
  std::error_code ignored;
  return !root.empty() && !name.empty() && std::filesystem::exists(root / name / "adapter_config.json", ignored);
}

void read_line(const OrderedJson& line, int number, const std::filesystem::path& root, ApiLine& out) {
  if (!line.is_object()) refuse(line_name(number), "must be an object with `request` and `response`");
  std::string url, custom_id;
  OrderedJson body = body_of(line, url, custom_id);
  const OrderedJson& id = line.contains("id") ? line["id"] : member(line, "custom_id");
  if (id.is_string() || id.is_number())
    out.id = id.dump(-1, ' ', true, OrderedJson::error_handler_t::replace);
  else if (!custom_id.empty())
    out.id = OrderedJson(custom_id).dump(-1, ' ', true, OrderedJson::error_handler_t::replace);
  const OrderedJson& answer = answer_of(line, custom_id);
  for (const char* const field : kFormAlone) body.erase(field);
  const std::string model = text_or_empty(member(body, "model"));
  if (!body.contains("adapter") && is_adapter(root, model)) body["adapter"] = model;
  if (url.empty()) url = body.contains("messages") ? "/v1/chat/completions" : "/v1/completions";
  out.seed_given = !member(body, "seed").is_null();
  const bool chat = url == "/v1/chat/completions";
  read_batch({{"custom_id", custom_id}, {"method", "POST"}, {"url", url}, {"body", std::move(body)}}, number, {},
             out.parsed);
  out.answer = answer_from(answer, chat);
  if (out.answer.choices.size() != static_cast<std::size_t>(out.parsed.request.options.n))
    refuse("response.choices", "are " + std::to_string(out.answer.choices.size()) + ", and `n` is " +
                                   std::to_string(out.parsed.request.options.n));
}

}  // namespace

std::vector<std::string> calls_of(const OrderedJson& message) {
  std::vector<std::string> calls;
  for (const OrderedJson& each : member(message, "tool_calls")) {
    const OrderedJson& function = member(each, "function");
    const OrderedJson& arguments = member(function, "arguments");
    calls.push_back(text_or_empty(member(function, "name")) + " " + one_form_of(arguments));
  }
  return calls;
}

std::pair<std::string, std::string> refusal_of(const Error& error) {
  const std::string& where = error.where();
  std::string field = where, why = error.what();
  if (why.starts_with(where + ": ")) why.erase(0, where.size() + 2);
  if (where.empty()) return {"request", std::move(why)};
  for (const char* const own : {"request", "response", "line "})  // as this file names them
    if (where.starts_with(own)) return {std::move(field), std::move(why)};
  for (const std::string_view prefix : {"body.", "body: "})  // as the reader of batches names fields
    if (field.starts_with(prefix)) field.erase(0, prefix.size());
  const auto is_part_of_name = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
           c == '[' || c == ']';
  };
  if (!std::all_of(field.begin(), field.end(), is_part_of_name)) return {"request", error.what()};  // a file, say
  for (const auto& [ours, theirs] : kTheirNames)
    if (field == ours) field = theirs;
  return {"request." + field, std::move(why)};
}

ApiLine parse_api_line(std::string_view line, int number, const std::filesystem::path& adapter_root) {
  ApiLine out;
  try {
    parse_json_line(line, number);  // for its errors
    read_line(tenon::parse_json<OrderedJson>(line, line_name(number)), number, adapter_root, out);
  } catch (const Error& error) {
    out.refused.insert(refusal_of(error));
  }
  return out;
}

}  // namespace program
