#include "request_line.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "json_lines.h"
#include "output.h"
#include "sampling.h"
#include "tenon/core/error.h"
#include "tenon/engine/receipt.h"
#include "tenon/io/fields.h"

namespace program {
namespace {

using tenon::Error;
using tenon::Fields;
using tenon::Json;
using tenon::TokenId;

constexpr int kLargest = std::numeric_limits<int>::max();
constexpr double kMaxFloat = std::numeric_limits<float>::max();

void refuse_unknown(const Fields& fields) {
  static const std::set<std::string_view> known = [] {
    std::set<std::string_view> names{"id",
                                     "prompt",
                                     "input_ids",
                                     "adapter",
                                     "logit_bias",
                                     "seed",
                                     "n",
                                     "best_of",
                                     "priority",
                                     "ignore_eos",
                                     "stop",
                                     "stop_ids",
                                     "logits_at",
                                     "nll",
                                     "logits_hash",
                                     "receipt",
                                     "schema",
                                     "delay_ms",
                                     "cache_salt",
                                     "top_logprobs",
                                     "finish_within_budget",
                                     "parse_special",
                                     "regex",
                                     "grammar",
                                     "choice",
                                     "messages",
                                     "tools",
                                     "documents",
                                     "chat_template_kwargs",
                                     "add_generation_prompt",
                                     "continue_final_message",
                                     "prediction",
                                     "skip_special_tokens"};
    for (const auto& each : kFloatParameters) names.insert(each.name);
    for (const auto& each : kIntParameters) names.insert(each.name);
    return names;
  }();
  for (const auto& [key, value] : fields.json().items()) {
    if (!known.contains(key)) fields.refuse(key, "is an unknown field; `tenon run --help` lists those of a request");
  }
}

// The id, as it is sent back. It is read first, so that a refusal has it, too.
std::string id_of(const Fields& fields) {
  if (!fields.has("id")) return "null";
  const Json& id = fields.value("id");
  if (id.is_string()) return json_string(id.get_ref<const std::string&>());
  if (!id.is_number()) fields.refuse("id", "must be a string or a number, is " + Fields::describe(id));
  return id.dump();
}

std::vector<int> integers(const Fields& fields, const std::string& key, int low) {
  std::vector<int> list;
  if (!fields.has(key)) return list;
  const Json& value = fields.value(key);
  if (!value.is_array()) fields.refuse(key, "must be a list of integers, is " + Fields::describe(value));
  for (const Json& each : value) list.push_back(fields.check_integer(key, each, low, kLargest));
  return list;
}

std::uint64_t seed_of(const Fields& fields, std::uint64_t fallback) {
  if (!fields.has("seed")) return fallback;
  const Json& seed = fields.value("seed");
  if (!seed.is_number_unsigned()) {
    fields.refuse("seed", "must be an integer from 0 to 2^64 - 1, is " + Fields::describe(seed));
  }
  return seed.get<std::uint64_t>();
}

// {"5": -1.5}
std::vector<std::pair<TokenId, float>> logit_bias(const Fields& request) {
  std::vector<std::pair<TokenId, float>> bias;
  if (!request.has("logit_bias")) return bias;
  const Fields fields = request.object("logit_bias");
  for (const auto& [key, value] : fields.json().items()) {
    int id = -1;
    const auto end = key.data() + key.size();
    const auto parsed = std::from_chars(key.data(), end, id);
    if (parsed.ec != std::errc() || parsed.ptr != end || id < 0 || std::to_string(id) != key) {
      fields.refuse(key, "must be the id of a token, an integer of at least 0 in quotes");
    }
    bias.emplace_back(id, static_cast<float>(fields.number(key, -kMaxFloat, kMaxFloat)));
  }
  return bias;
}

tenon::Options options_of(const Fields& fields, const tenon::Options& defaults) {
  tenon::Options o = defaults;
  for (const auto& each : kFloatParameters) {
    o.*each.member =
        static_cast<float>(fields.number(each.name, -kMaxFloat, kMaxFloat, static_cast<double>(o.*each.member)));
  }
  for (const auto& each : kIntParameters) o.*each.member = fields.integer(each.name, 0, kLargest, o.*each.member);
  o.logit_bias = logit_bias(fields);
  o.seed = seed_of(fields, defaults.seed);
  if (fields.has("stop")) o.stop = fields.strings("stop");
  o.stop_ids = integers(fields, "stop_ids", 0);
  o.ignore_eos = fields.boolean("ignore_eos", false);
  o.finish_within_budget = fields.boolean("finish_within_budget", false);
  if (fields.has("top_logprobs")) o.top_logprobs = fields.integer("top_logprobs", 0, kLargest);
  o.logits_at = integers(fields, "logits_at", 0);
  o.nll = fields.boolean("nll", false);
  o.logits_hash = fields.boolean("logits_hash", false);
  o.receipt = fields.boolean("receipt", false);
  o.priority = fields.integer("priority", std::numeric_limits<int>::min(), kLargest, 0);
  o.n = fields.integer("n", 1, kLargest, 1);
  o.best_of = fields.integer("best_of", 0, kLargest, 0);
  o.cache_salt = fields.string("cache_salt", "");
  return o;
}

// Parses a folder, or {"folder": weight, ...}: a composition, sorted by folder name whatever the order in the line.
std::vector<tenon::AdapterUse> adapters_of(const Fields& fields) {
  std::vector<tenon::AdapterUse> uses;
  if (!fields.has("adapter")) return uses;
  const Json& value = fields.value("adapter");
  if (value.is_object()) {
    const Fields weights = fields.object("adapter");
    for (const auto& [folder, weight] : value.items()) {
      uses.push_back({folder, static_cast<float>(weights.number(folder, -kMaxFloat, kMaxFloat))});
    }
    if (uses.empty()) fields.refuse("adapter", "must name at least one adapter");
  } else {
    uses.push_back({fields.string("adapter")});
  }
  for (const tenon::AdapterUse& use : uses) {
    if (use.name.empty()) fields.refuse("adapter", "must be the folder of an adapter, is empty");
  }
  return uses;
}

// Error unless exactly one of the fields is given, or none and `needed` is false. Returns its name; null: none.
const char* only_one(const Fields& fields, std::initializer_list<const char*> names, bool needed) {
  const char* given = nullptr;
  for (const char* name : names) {
    if (!fields.has(name)) continue;
    if (given) fields.refuse(name, std::string("given beside ") + given + "; keep one of them");
    given = name;
  }
  if (given || !needed) return given;
  std::vector<std::string> others(names.begin() + 1, names.end());
  fields.refuse(*names.begin(), "missing, and so are " + joined(others) + "; give one of them");
}

ConstraintText constraint_of(const Fields& fields, const tenon::OrderedJson& ordered) {
  using Kind = ConstraintText::Kind;
  const char* const given = only_one(fields, {"schema", "regex", "grammar", "choice"}, /*needed=*/false);
  const std::string_view field = given ? given : "";
  if (field == "schema") return {.kind = Kind::schema, .schema = ordered.at("schema")};
  if (field == "regex") return {.kind = Kind::regex, .text = fields.string("regex")};
  if (field == "grammar") return {.kind = Kind::grammar, .text = fields.string("grammar")};
  if (field == "choice") return {.kind = Kind::choice, .choices = fields.strings("choice")};
  return {};
}

// An element of the line that must be a list, in the order of its members; null: absent.
tenon::OrderedJson list_of(const Fields& fields, const tenon::OrderedJson& ordered, const char* key) {
  if (!fields.has(key)) return nullptr;
  if (!fields.value(key).is_array()) fields.refuse(key, "must be a list, is " + Fields::describe(fields.value(key)));
  return ordered.at(key);
}

// The arguments of a call as templates expect them: an object. OpenAI's API has them as text.
tenon::OrderedJson arguments_of(const Fields& fields, const tenon::OrderedJson& function, const std::string& at) {
  if (!function.contains("arguments") || function["arguments"] == "") return tenon::OrderedJson::object();
  tenon::OrderedJson arguments = function["arguments"];
  if (arguments.is_string()) {
    try {  // as deep as the server allows: copies recurse
      arguments = tenon::parse_json<tenon::OrderedJson>(arguments.get<std::string>(), "arguments", {.depth = 64});
    } catch (const tenon::Error&) {
    }
  }
  if (!arguments.is_object()) fields.refuse(at, "must be a JSON object, or a text that holds one");
  return arguments;
}

// Brings the calls of a message into the form that templates expect. Members that are null say nothing, as in what a
// client's library writes for an answer without calls.
void read_calls(const Fields& fields, tenon::OrderedJson& message, const std::string& at) {
  tenon::OrderedJson kept = tenon::OrderedJson::object();
  for (auto& [key, value] : message.items()) {
    if (!value.is_null() || key == "content") kept[key] = std::move(value);
  }
  message = std::move(kept);
  if (!message.contains("tool_calls")) return;
  tenon::OrderedJson& calls = message["tool_calls"];
  if (!calls.is_array()) fields.refuse(at + ".tool_calls", "must be a list");
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const std::string here = at + ".tool_calls[" + std::to_string(i) + "].function";
    if (!calls[i].is_object() || !calls[i].contains("function") || !calls[i]["function"].is_object())
      fields.refuse(here, "must be an object");
    tenon::OrderedJson& function = calls[i]["function"];
    if (!function.contains("name") || !function["name"].is_string()) fields.refuse(here + ".name", "must be a string");
    function["arguments"] = arguments_of(fields, function, here + ".arguments");
  }
  if (calls.empty()) message.erase("tool_calls");
}

std::optional<tenon::chat::Conversation> conversation_of(const Fields& fields, const tenon::OrderedJson& ordered) {
  if (!fields.has("messages")) {
    for (const char* key :
         {"tools", "documents", "chat_template_kwargs", "add_generation_prompt", "continue_final_message"})
      if (fields.has(key)) fields.refuse(key, "belongs to messages, and the request has none");
    return std::nullopt;
  }
  tenon::chat::Conversation out{.messages = list_of(fields, ordered, "messages"),
                                .tools = list_of(fields, ordered, "tools"),
                                .documents = list_of(fields, ordered, "documents")};
  if (out.messages.empty()) fields.refuse("messages", "must hold at least one message");
  for (std::size_t i = 0; i < out.messages.size(); ++i) {
    const tenon::OrderedJson& each = out.messages[i];
    const std::string at = "messages[" + std::to_string(i) + "]";
    if (!each.is_object()) fields.refuse(at, "must be an object");
    if (!each.contains("role") || !each["role"].is_string()) fields.refuse(at, "must have a role, a string");
    read_calls(fields, out.messages[i], at);
  }
  if (out.tools.is_array() && out.tools.empty()) out.tools = nullptr;
  if (fields.has("chat_template_kwargs")) {
    fields.object("chat_template_kwargs");  // checks that it is one
    out.kwargs = ordered.at("chat_template_kwargs");
  }
  out.continue_final_message = fields.boolean("continue_final_message", false);
  out.add_generation_prompt = fields.boolean("add_generation_prompt", !out.continue_final_message);
  if (out.continue_final_message && out.add_generation_prompt)
    fields.refuse("add_generation_prompt", "must be false beside continue_final_message");
  return out;
}

tenon::Request request_of(const Fields& fields, const RequestDefaults& defaults) {
  tenon::Request request;
  only_one(fields, {"prompt", "input_ids", "messages"}, /*needed=*/true);
  request.prompt = fields.string("prompt", "");
  request.input_ids = integers(fields, "input_ids", 0);
  if (fields.has("input_ids") && request.input_ids.empty()) fields.refuse("input_ids", "must hold at least one token");
  request.adapters = adapters_of(fields);
  request.options = options_of(fields, defaults.options);
  request.parse_special = fields.boolean("parse_special", defaults.parse_special);
  return request;
}

}  // namespace

namespace {

// ordered: the same object with its members in order, which counts in schemas and in templates.
void read_request(const Fields& fields, const tenon::OrderedJson& ordered, const RequestDefaults& defaults,
                  ParsedRequest& out) {
  refuse_unknown(fields);
  out.delay_ms = fields.number("delay_ms", 0, 1e9, 0);
  out.request = request_of(fields, defaults);
  if (fields.has("prediction") && fields.value("prediction").is_array())
    out.request.prediction = integers(fields, "prediction", 0);
  else
    out.prediction = fields.string("prediction", "");
  out.constraint = constraint_of(fields, ordered);
  out.conversation = conversation_of(fields, ordered);
  // Markers of tool calls may be special tokens.
  const bool skips = out.conversation && out.conversation->tools.is_null();
  out.request.options.skip_special_tokens = fields.boolean("skip_special_tokens", skips);
}

// A line of `tenon classify` and `tenon embed`.
void read_pooled(const Fields& fields, const RequestDefaults& defaults, ParsedRequest& out) {
  static const std::set<std::string_view> known{"id", "text", "input_ids", "adapter", "parse_special", "cache_salt"};
  for (const auto& [key, value] : fields.json().items()) {
    if (!known.contains(key))
      fields.refuse(key, "is an unknown field; a line has " + joined({known.begin(), known.end()}));
  }
  only_one(fields, {"text", "input_ids"}, /*needed=*/true);
  out.request.prompt = fields.string("text", "");
  out.request.input_ids = integers(fields, "input_ids", 0);
  if (fields.has("input_ids") && out.request.input_ids.empty())
    fields.refuse("input_ids", "must hold at least one token");
  out.request.adapters = adapters_of(fields);
  out.request.options = defaults.options;
  out.request.options.max_new_tokens = 0;
  out.request.options.cache_salt = fields.string("cache_salt", "");
  out.request.parse_special = fields.boolean("parse_special", defaults.parse_special);
}

}  // namespace

// A line draws with a seed of its own if it names none, so that equal prompts get different answers.
void read_batch(const tenon::OrderedJson& line, int number, RequestDefaults defaults, ParsedRequest& out) {
  tenon::OrderedJson ordered;
  out.batch.emplace();
  read_batch_line(line, number, *out.batch, ordered);
  defaults.options.seed += static_cast<std::uint64_t>(number);
  const Json json = ordered;
  const Fields fields(json, "body", {}, Error::Kind::invalid_request);
  read_request(fields, ordered, defaults, out);
  if (out.request.options.receipt) fields.refuse("receipt", "is for lines of `tenon run`, not of a batch file");
}

ParsedRequest parse_request(std::string_view line, int number, const RequestDefaults& defaults) {
  ParsedRequest out;
  try {
    const Json json = parse_json_line(line, number);
    const auto in_order = [&] { return tenon::parse_json<tenon::OrderedJson>(line, line_name(number)); };
    const bool pools = defaults.options.pooling != tenon::Pooling::none;
    if (!pools && is_batch_line(json)) {
      read_batch(in_order(), number, defaults, out);
      return out;
    }
    const Fields fields(json, json.is_object() ? "request" : line_name(number), {}, Error::Kind::invalid_request);
    out.id = id_of(fields);
    if (pools) {
      read_pooled(fields, defaults, out);
      return out;
    }
    const bool ordered = fields.has("schema") || fields.has("messages");
    read_request(fields, ordered ? in_order() : nullptr, defaults, out);
  } catch (const Error& error) {
    out.error = error.what();
  }
  return out;
}

AnswerParts answer_parts(const tenon::Options& o, bool has_tokenizer, bool normalize) {
  return {.text = has_tokenizer,
          .logits = !o.logits_at.empty(),
          .nll = o.nll,
          .logprobs = o.top_logprobs >= 0,
          .choices = o.n > 1,
          .pooling = o.pooling,
          .normalize = normalize};
}

namespace {

// On one line, in ASCII; bytes that are no UTF-8 become U+FFFD.
std::string ascii_json(const Json& json) { return json.dump(-1, ' ', true, Json::error_handler_t::replace); }

constexpr auto append_number = [](std::string& out, const auto& value) { append_json_number(out, value); };

// {"0": [0.1, ...], ...}, in the order of the positions.
void append_logits(std::string& out, const tenon::Scores& scores) {
  out += '{';
  for (const auto& [position, logits] : scores.logits) {
    if (out.back() != '{') out += ", ";
    out += '"' + std::to_string(position) + "\": ";
    append_json_list(out, logits, append_number);
  }
  out += '}';
}

void append_alternatives(std::string& out, const std::vector<tenon::TokenLogprob>& alternatives) {
  append_json_list(out, alternatives, [](std::string& to, const tenon::TokenLogprob& each) {
    to += "{\"id\": ";
    append_json_number(to, each.id);
    to += ", \"logprob\": ";
    append_json_number(to, each.logprob);
    to += '}';
  });
}

// Appends the fields of one answer: "output_ids": ...
void append_answer(std::string& out, const tenon::Choice& answer, const AnswerParts& parts) {
  out += "\"output_ids\": ";
  append_json_list(out, answer.ids, append_number);
  out += ", \"text\": ";
  if (parts.text)
    append_json_string(out, answer.text);
  else
    out += "null";
  out += ", \"finish_reason\": ";
  append_json_string(out, to_string(answer.reason));
  if (parts.logprobs) {
    out += ", \"logprobs\": ";
    append_json_list(out, answer.logprobs, append_number);
    out += ", \"top_logprobs\": ";
    append_json_list(out, answer.top_logprobs, append_alternatives);
  }
  if (answer.logits_hash)
    out += formatted(", \"logits_hash\": \"%016llx\"", static_cast<unsigned long long>(*answer.logits_hash));
  if (answer.receipt) out += ", \"receipt\": " + ascii_json(tenon::to_json(*answer.receipt));
}

// "logits": [...], "label": 0, or "embedding": [...]
void append_pooled(std::string& out, const tenon::Scores& scores, const AnswerParts& parts) {
  if (parts.pooling == tenon::Pooling::classify) {
    out += "\"logits\": ";
    append_json_list(out, scores.class_logits, append_number);
    out += ", \"label\": " + std::to_string(tenon::best_label(scores.class_logits));
    return;
  }
  std::vector<float> embedding = scores.embedding;
  if (parts.normalize) tenon::normalize(embedding);
  out += "\"embedding\": ";
  append_json_list(out, embedding, append_number);
}

}  // namespace

std::string answer_line(const std::string& id, const tenon::Completion& completion, const AnswerParts& parts) {
  if (completion.reason == tenon::FinishReason::error) return error_line(id, completion.error);
  std::string out = "{\"id\": " + id + ", ";
  if (parts.pooling != tenon::Pooling::none) {
    append_pooled(out, *completion.scores, parts);
    return out + "}\n";
  }
  append_answer(out, completion, parts);
  if (parts.logits) {
    out += ", \"logits\": ";
    append_logits(out, *completion.scores);
  }
  if (parts.nll) {
    out += ", \"nll_mean\": ";
    if (completion.scores->nll_mean)
      append_json_number(out, *completion.scores->nll_mean);
    else
      out += "null";
  }
  if (parts.choices) {
    out += ", \"choices\": [{";
    append_answer(out, completion, parts);
    for (const tenon::Choice& other : completion.others) {
      out += "}, {";
      append_answer(out, other, parts);
    }
    out += "}]";
  }
  return out + "}\n";
}

std::string error_line(const std::string& id, std::string_view error) {
  std::string out = "{\"id\": " + id + ", \"error\": ";
  append_json_string(out, error);
  return out + "}\n";
}

}  // namespace program
