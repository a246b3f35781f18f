#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "serve/api/anthropic/messages_request.h"
#include "serve/api/asked.h"
#include "serve/api/body.h"
#include "serve/api/handle.h"
#include "serve/api/ignored_fields.h"
#include "serve/api/lorax/lorax_request.h"
#include "serve/api/openai/chat_fields.h"
#include "serve/api/openai/reasoning_fields.h"
#include "serve/api/requested_adapters.h"
#include "serve/api/routes.h"
#include "serve/api/writer.h"
#include "tenon/engine/prepared_request.h"
#include "tenon/tokenizer/stream_decoder.h"
#include "tenon/version.h"

namespace serve {
namespace {

using tenon::OrderedJson;

OrderedJson model_json(const Model& model, const std::string& name) {
  const bool base = names_base(name, model.context());
  return {{"id", name},
          {"object", "model"},
          {"created", model.created()},
          {"owned_by", "tenon"},
          {"root", name},
          {"parent", base ? OrderedJson(nullptr) : OrderedJson(model.name())},
          {"max_model_len", model.limits().max_total_tokens}};
}

void list_models(Model& model, HttpResponse& response) {
  const std::string body = model.list().body([&model] {
    OrderedJson all = OrderedJson::array();
    for (const std::string& name : model.names()) all.push_back(model_json(model, name));
    for (const std::string& name : model.adapters().list())
      if (!names_base(name, model.context())) all.push_back(model_json(model, name));  // else requests cannot name it
    return one_line({{"object", "list"}, {"data", std::move(all)}});
  });
  response.set_content(body, "application/json");
}

void show_model(Model& model, const std::string& name, HttpResponse& response) {
  if (!names_base(name, model.context()) && !model.adapters().is_known(name)) throw unknown_adapter(name);
  answer_json(response, model_json(model, name));
}

// llama.cpp's: what is resident. Requests name their adapters themselves, so there is nothing to switch.
void list_adapters(Model& model, HttpResponse& response) {
  OrderedJson all = OrderedJson::array();
  for (const auto& [number, name] : model.numbered_adapters())
    all.push_back({{"id", number}, {"path", name}, {"scale", 1.0}});
  answer_json(response, all);
}

void show_info(Serving& serving, HttpResponse& response) {
  Model& model = serving.model();
  const Settings& settings = model.settings();
  const tenon::ServiceStats stats = model.service().stats();
  answer_json(response, {{"model_id", model.name()},
                         {"model_sha", nullptr},
                         {"model_dtype", settings.model.weights},
                         {"model_device_type", settings.model.device},
                         {"model_pipeline_tag", "text-generation"},
                         {"max_concurrent_requests", settings.max_concurrent_requests},
                         {"max_best_of", settings.max_best_of},
                         {"max_stop_sequences", settings.max_stop_sequences},
                         {"max_input_length", model.limits().max_input_tokens},
                         {"max_total_tokens", model.limits().max_total_tokens},
                         {"waiting_served_ratio", 0.0},
                         {"max_batch_total_tokens", stats.cache.capacity_tokens},
                         {"max_waiting_tokens", 0},
                         {"validation_workers", settings.max_concurrent_requests},
                         {"eager_prefill", true},
                         {"version", tenon::kVersion},
                         {"sha", nullptr},
                         {"docker_label", nullptr},
                         {"request_logger_url", nullptr}});
}

// Offsets in characters of the text. `before` and `after`: the number of tokens around the prompt that the model
// expects, which stand nowhere in the text. As long as an input may be.
OrderedJson tokens_json(const Model& model, const std::string& inputs, const std::vector<tenon::TokenId>& ids,
                        std::size_t before, std::size_t after) {
  lorax_new_tokens(1, ids.size(), model.limits());  // refuses what is longer
  const tenon::Tokenizer& tokenizer = model.tokenizer();
  tenon::StreamDecoder decoder(tokenizer);
  OrderedJson all = OrderedJson::array();
  std::size_t at = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const tenon::TokenId id = ids[i];
    const bool special = tokenizer.is_special(id), around = i < before || i + after >= ids.size();
    std::string text = special ? text_of(tokenizer, id) : decoder.push(id);
    if (!special && at == 0 && text.starts_with(' ') && !inputs.starts_with(' ')) text.erase(0, 1);  // SentencePiece's
    const std::size_t length = around ? 0 : characters(text);
    all.push_back({{"id", id}, {"text", text}, {"start", at}, {"stop", at + length}});
    at += length;
  }
  return all;
}

OrderedJson vllm_tokens(const Model& model, const std::vector<tenon::TokenId>& ids, bool with_texts) {
  OrderedJson texts = nullptr;
  if (with_texts) texts = OrderedJson::array();
  for (std::size_t i = 0; with_texts && i < ids.size(); ++i) texts.push_back(text_of(model.tokenizer(), ids[i]));
  return {{"count", ids.size()},
          {"max_model_len", model.limits().max_total_tokens},
          {"tokens", ids},
          {"token_strs", std::move(texts)}};
}

// A piece that is no UTF-8 is a list of its bytes.
OrderedJson llama_cpp_tokens(const tenon::Tokenizer& tokenizer, const std::vector<tenon::TokenId>& ids,
                             bool with_pieces) {
  if (!with_pieces) return {{"tokens", ids}};
  OrderedJson tokens = OrderedJson::array();
  for (const tenon::TokenId id : ids) {
    const std::string bytes(tokenizer.bytes(id));
    OrderedJson piece = bytes;
    if (tenon::sanitize_utf8(bytes) != bytes) {
      piece = OrderedJson::array();
      for (const char c : bytes) piece.push_back(static_cast<unsigned char>(c));
    }
    tokens.push_back({{"id", id}, {"piece", std::move(piece)}});
  }
  return {{"tokens", std::move(tokens)}};
}

// Bounds the memory of an answer that has more than an id per token.
void check_count(const Model& model, std::size_t count, const char* field, const std::string& advice = {}) {
  constexpr std::size_t kContexts = 4;
  const std::size_t most = kContexts * static_cast<std::size_t>(std::max(model.limits().max_total_tokens, 1));
  if (count <= most) return;
  throw ApiError(ApiError::Kind::invalid,
                 std::string("`") + field + "`: " + std::to_string(count) + " tokens, at most " + std::to_string(most) +
                     " are possible, " + std::to_string(kContexts) + " times the context" + advice,
                 field);
}

// The prompt of a conversation. Adds the fields that its template cannot heed to `ignored`.
Model::Chat prompt_of(Model& model, tenon::chat::Conversation conversation, const ReasoningWish& reasoning,
                      const std::string& field, std::vector<std::string>& ignored) {
  const bool has_tools = !conversation.tools.is_null();
  Model::Chat chat = model.chat_prompt(std::move(conversation), {}, field);
  for (std::string& each : unheeded_fields(reasoning, model.chat_template(), has_tools))
    ignored.push_back(std::move(each));
  return chat;
}

// The text of a conversation by the model's chat template, as llama.cpp shows it.
void apply_template(Serving& serving, const HttpRequest& asked, HttpResponse& response, const Caller& caller) {
  Model& model = serving.taking_model();
  const auto ticket = enter_as(serving, caller);
  const Body body = parse_body(asked.body);
  UnknownFields unknown{.lenient = model.context().lenient};
  const RequestFields fields(body.json, kTemplate, unknown);
  ReasoningWish reasoning;
  tenon::chat::Conversation conversation = conversation_of(body, fields, unknown, &reasoning);
  const Model::Chat chat = prompt_of(model, std::move(conversation), reasoning, "messages", unknown.ignored);
  tell_ignored(response, serving, unknown.ignored);
  answer_json(response, {{"prompt", chat.text}});
}

// Anthropic's: the tokens of the prompt that /v1/messages makes of the same body.
void count_tokens(Serving& serving, const HttpRequest& asked, HttpResponse& response, const Caller& caller) {
  Model& model = serving.taking_model();
  const auto ticket = enter_as(serving, caller);
  ChatRequest request = parse_messages(asked.body, model.context(), /*writes=*/false);
  need_adapters(model, request.adapters, request.adapter_field);
  Model::Chat chat =
      prompt_of(model, std::move(request.conversation), request.reasoning, request.prompt_field, request.ignored);
  tell_ignored(response, serving, request.ignored);
  keep_last(chat.ids, request.truncate);
  answer_json(response, {{"input_tokens", chat.ids.size()}});
}

void tokenize(Serving& serving, const HttpRequest& asked, HttpResponse& response, const Caller& caller) {
  Model& model = serving.taking_model();
  const auto ticket = enter_as(serving, caller);
  TokenizeRequest request = parse_tokenize(asked.body, model.context());
  if (request.conversation) {
    const Model::Chat chat =
        prompt_of(model, std::move(*request.conversation), request.reasoning, "messages", request.ignored);
    tell_ignored(response, serving, request.ignored);
    return answer_json(response, tokens_json(model, chat.text, chat.ids, 0, 0));
  }
  tell_ignored(response, serving, request.ignored);
  const tenon::Tokenizer& tokenizer = model.tokenizer();
  const bool placed = request.shape == TokenShape::placed;
  if (placed) tenon::check_length_of_text(request.inputs, tokenizer, model.limits().max_input_tokens);
  const auto ids = request.add_special_tokens ? tokenizer.encode_prompt(request.inputs, request.parse_special)
                                              : tokenizer.encode(request.inputs, request.parse_special);
  const std::size_t before = request.add_special_tokens ? tokenizer.before_prompt().size() : 0;
  const std::size_t after = request.add_special_tokens ? tokenizer.after_prompt().size() : 0;
  if (placed) return answer_json(response, tokens_json(model, request.inputs, ids, before, after));
  if (request.with_pieces)  // an object or text of its own takes a hundred times the memory of an id
    check_count(model, ids.size(), request.shape == TokenShape::vllm ? "return_token_strs" : "with_pieces",
                "; leave it out for longer texts");
  answer_json(response, request.shape == TokenShape::vllm ? vllm_tokens(model, ids, request.with_pieces)
                                                          : llama_cpp_tokens(tokenizer, ids, request.with_pieces));
}

// vLLM reads `prompt`, llama.cpp `content`.
void detokenize(Serving& serving, const HttpRequest& asked, HttpResponse& response, const Caller& caller) {
  Model& model = serving.taking_model();
  const auto ticket = enter_as(serving, caller);
  const DetokenizeRequest request = parse_detokenize(asked.body, model.context());
  tell_ignored(response, serving, request.ignored);
  check_count(model, request.tokens.size(), "tokens", "; send them in parts");
  need_tokens(model, request.tokens, "tokens");
  const std::string text = tenon::sanitize_utf8(model.tokenizer().decode(request.tokens));
  answer_json(response, {{"prompt", text}, {"content", text}});
}

}  // namespace

void add_model_routes(HttpServer& http, Serving& serving) {
  using Request = const HttpRequest&;
  using Response = HttpResponse&;
  using From = const Caller&;
  add_plain(http, serving, "GET", "/info", [&](Request, Response response, From) { show_info(serving, response); });
  add_plain(http, serving, "GET", "/v1/models",
            [&](Request, Response response, From) { list_models(serving.model(), response); });
  add_plain(http, serving, "GET", "/v1/models/*",
            [&](Request request, Response response, From) { show_model(serving.model(), request.rest, response); });
  using Handler = void (*)(Serving&, Request, Response, From);
  const auto add_reading = [&](const char* path, Handler handle) {
    add_plain(http, serving, "POST", path, [&serving, handle](Request request, Response response, From caller) {
      handle(serving, request, response, caller);
      if (caller.tenant) caller.tenant->tell(response, tenon::Clock::now());
    });
  };
  add_reading("/tokenize", tokenize);
  add_reading("/detokenize", detokenize);
  add_reading("/apply-template", apply_template);
  add_reading("/v1/messages/count_tokens", count_tokens);
  add_plain(http, serving, "GET", "/lora-adapters",
            [&](Request, Response response, From) { list_adapters(serving.model(), response); });
  add_plain(http, serving, "POST", "/lora-adapters", [](Request, Response, From) {
    throw ApiError(ApiError::Kind::not_implemented,
                   "scales of all requests are not supported: each request names its adapter");
  });
}

}  // namespace serve
