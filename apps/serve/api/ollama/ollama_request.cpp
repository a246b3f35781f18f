#include "serve/api/ollama/ollama_request.h"

#include <string_view>
#include <utility>
#include <vector>

#include "serve/api/api_error.h"
#include "serve/api/body.h"
#include "serve/api/field_names.h"
#include "serve/api/request_fields.h"
#include "serve/api/requested_adapters.h"
#include "serve/text.h"

namespace serve {
namespace {

using tenon::Json;
using tenon::OrderedJson;

// Options that stand at the top of a body of OpenAI's, under the same names.
constexpr const char* kRaised[] = {
    "temperature",       "top_k", "top_p", "min_p",         "typical_p", "presence_penalty",
    "frequency_penalty", "seed",  "stop",  "repeat_penalty"};

std::string indexed(const std::string& list, std::size_t index) { return list + "[" + std::to_string(index) + "]"; }

// A body of Ollama's as one of OpenAI's routes. Refusals name the fields of the former.
class FromOllama {
 public:
  FromOllama(const Body& body, Place place, const RequestContext& context)
      : ordered_(body.ordered()),
        context_(context),
        unknown_{.lenient = context.lenient},
        fields_(body.json, place, unknown_) {}

  const RequestFields& fields() const { return fields_; }
  OrderedJson& body() { return out_; }
  std::string model() const { return without_tag(fields_.string("model").value_or(""), context_); }

  // What both routes that write text share.
  void read_common() {
    out_["model"] = model();
    out_["stream"] = fields_.boolean("stream", true);
    if (fields_.has("format")) out_["format"] = ordered_["format"];
    read_options();
  }
  void read_options() {
    const auto options = fields_.object("options", kOllamaOptions, unknown_);
    const auto raise = [&](const std::string& key) {
      rename(key, "options." + key);
      if (options && options->has(key)) out_[key] = ordered_["options"][key];
    };
    for (const char* const key : kRaised) raise(key);
    if (!context_.limits.generation) {  // else the model's generation_config.json has the defaults
      set_default("temperature", 0.8);
      set_default("top_k", 40);
      set_default("top_p", 0.9);
    }
    rename("n_predict", "options.num_predict");
    out_["n_predict"] = -1;  // no limit, for which Ollama also takes -2 and 0
    if (!options) return;
    const auto most = options->integer("num_predict", -2, kMaxInt);
    if (most && *most > 0) out_["n_predict"] = *most;
    // A penalty of the last 0 tokens is none.
    if (options->integer("repeat_last_n", -1, kMaxInt) == 0) out_.erase("repeat_penalty");
    // The server's context is fixed. A smaller one of the client would cut prompts and answers.
    const auto context = options->integer("num_ctx", 1, kMaxInt);
    if (context && *context < context_.limits.max_total_tokens) ignore("options.num_ctx");
  }
  // `think`, for a prompt that goes through the chat template.
  void read_think() {
    if (fields_.has("think")) out_["think"] = ordered_["think"];
  }

  void read_messages() {
    const Json* const list = fields_.list("messages");
    for (std::size_t i = 0; list && i < list->size(); ++i)
      add_message((*list)[i], ordered_["messages"][i], indexed("messages", i));
    if (fields_.has("tools")) out_["tools"] = ordered_["tools"];
  }
  // A prompt as the message of a user. The template is told of `system` first.
  void read_prompt_as_message() {
    out_["messages"] = OrderedJson::array();
    for (const auto& [key, role] : {std::pair{"system", "system"}, std::pair{"prompt", "user"}}) {
      const std::string text = fields_.string(key).value_or("");
      if (text.empty()) continue;
      rename(indexed("messages", out_["messages"].size()) + ".content", key);
      out_["messages"].push_back({{"role", role}, {"content", text}});
    }
  }

  // parse(body, context), with the client's names in what it refuses.
  template <class Parse>
  auto parsed(Parse parse, const char* prompt_field) {
    const std::string text = out_.dump();
    try {
      auto request = parse(std::string_view(text), context_);
      request.length_field = "options.num_predict";
      request.prompt_field = prompt_field;
      take_ignored(request.ignored);
      return request;
    } catch (const ApiError& error) {
      throw renamed(error, names_);
    }
  }
  void take_ignored(std::vector<std::string>& into) {
    for (std::string& each : unknown_.ignored) into.push_back(std::move(each));
  }
  void ignore(std::string field) { unknown_.ignored.push_back(std::move(field)); }
  const FieldNames& names() const { return names_; }
  // What the client calls a field of the other body.
  void rename(const std::string& other, const std::string& name) { names_.emplace_back(other, name); }

 private:
  void set_default(const char* key, OrderedJson value) {
    if (!out_.contains(key)) out_[key] = std::move(value);
  }

  void add_message(const Json& value, const OrderedJson& ordered, const std::string& path) {
    const RequestFields message(value, kOllamaMessage, unknown_, path);
    OrderedJson turn = {{"role", message.string("role").value_or("")}};
    turn["content"] = message.string("content").value_or("");
    if (message.has("thinking")) turn["reasoning_content"] = message.string("thinking").value_or("");
    if (message.has("tool_name")) turn["name"] = message.string("tool_name").value_or("");
    if (message.has("tool_call_id")) turn["tool_call_id"] = message.string("tool_call_id").value_or("");
    rename(path + ".name", path + ".tool_name");
    rename(path + ".reasoning_content", path + ".thinking");
    const Json* const calls = message.list("tool_calls");
    for (std::size_t i = 0; calls && i < calls->size(); ++i) {
      const std::string here = indexed(path + ".tool_calls", i);
      turn["tool_calls"].push_back(call_of((*calls)[i], ordered["tool_calls"][i], here));
    }
    out_["messages"].push_back(std::move(turn));
  }

  // Arguments are an object here, and a text that holds one in OpenAI's messages.
  OrderedJson call_of(const Json& value, const OrderedJson& ordered, const std::string& path) {
    const RequestFields call(value, kOllamaCall, unknown_, path);
    const auto function = call.object("function", kOllamaFunction, unknown_);
    if (!function) call.refuse("function", "is missing");
    const Json* const arguments = function->find("arguments");
    if (arguments && !arguments->is_object()) function->refuse_type("arguments", "an object", *arguments);
    OrderedJson out = {{"type", "function"}, {"id", call.string("id").value_or("")}};
    out["function"] = {{"name", function->string("name").value_or("")},
                       {"arguments", arguments ? ordered["function"]["arguments"].dump() : "{}"}};
    return out;
  }

  const OrderedJson ordered_;
  const RequestContext& context_;
  OrderedJson out_ = OrderedJson::object();
  FieldNames names_;
  UnknownFields unknown_;
  const RequestFields fields_;
};

}  // namespace

std::string without_tag(const std::string& name, const RequestContext& context) {
  constexpr std::string_view kTag = ":latest";
  if (!name.ends_with(kTag) || names_base(name, context)) return name;
  return name.substr(0, name.size() - kTag.size());
}

OllamaRequest parse_ollama_chat(std::string_view text, const RequestContext& context) {
  const Body body = parse_body(text);
  FromOllama from(body, kOllamaChat, context);
  OllamaRequest out{.model = from.model()};
  const Json* const messages = from.fields().list("messages");
  out.loads = !messages || messages->empty();
  if (out.loads) return out;
  from.read_common();
  from.read_think();
  from.read_messages();
  out.chat = from.parsed(parse_chat, "messages");
  return out;
}

OllamaRequest parse_ollama_generate(std::string_view text, const RequestContext& context, bool has_template) {
  const Body body = parse_body(text);
  FromOllama from(body, kOllamaGenerate, context);
  const RequestFields& fields = from.fields();
  OllamaRequest out{.model = from.model()};
  const bool raw = fields.boolean("raw", false);
  const std::string prompt = fields.string("prompt").value_or("");
  const bool has_system = !fields.string("system").value_or("").empty();
  out.loads = prompt.empty();
  if (out.loads) return out;
  from.read_common();
  if (has_template && !raw) {
    from.read_think();
    from.read_prompt_as_message();
    out.chat = from.parsed(parse_chat, "prompt");
    return out;
  }
  if (has_system) fields.refuse("system", raw ? "does not go with `raw`" : "needs a model with a chat template");
  if (fields.has("think") && *fields.find("think") != false) from.ignore("think");
  from.body()["prompt"] = prompt;
  out.completion = from.parsed(parse_completion, "prompt");
  return out;
}

// `truncate`, which is true if it is missing, cuts the ends of inputs that are too long.
EmbeddingRequest parse_ollama_embed(std::string_view text, const RequestContext& context) {
  const Body body = parse_body(text);
  FromOllama from(body, kOllamaEmbed, context);
  from.read_options();  // refuses what is wrong; no other option changes an embedding
  from.body() = {{"model", from.model()}};
  for (const char* const key : {"input", "dimensions"})
    if (from.fields().has(key)) from.body()[key] = OrderedJson(*from.fields().find(key));
  EmbeddingRequest out = parse_embeddings(from.body().dump(), context);
  out.form = EmbeddingRequest::Form::ollama;
  if (from.fields().boolean("truncate", true)) out.cut = Cut{.tokens = context.limits.max_total_tokens};
  out.cut_field = "truncate";
  from.take_ignored(out.ignored);
  return out;
}

EmbeddingRequest parse_ollama_embeddings(std::string_view text, const RequestContext& context) {
  const Body body = parse_body(text);
  FromOllama from(body, kOllamaEmbeddings, context);
  const auto prompt = from.fields().string("prompt");
  if (!prompt) from.fields().refuse("prompt", "is missing");
  from.read_options();  // refuses what is wrong
  from.rename("input", "prompt");
  try {
    EmbeddingRequest out = parse_embeddings(OrderedJson{{"model", from.model()}, {"input", *prompt}}.dump(), context);
    out.form = EmbeddingRequest::Form::ollama_one;
    out.normalize = false;
    out.cut = Cut{.tokens = context.limits.max_total_tokens};
    out.inputs.field = "prompt";
    from.take_ignored(out.ignored);
    return out;
  } catch (const ApiError& error) {
    throw renamed(error, from.names());
  }
}

std::string parse_ollama_show(std::string_view text, const RequestContext& context) {
  const Body body = parse_body(text);
  return FromOllama(body, kOllamaShow, context).model();
}

}  // namespace serve
