// tenon-serve-small MODEL [PORT [HOST]]: a service with cpp-httplib in front, to copy into your own program. It speaks
// enough of LoRAX's and OpenAI's API for their clients; adapters are folders below MODEL/adapters. tenon-serve
// (apps/serve) adds keys, TLS, metrics, logs, chat, schemas, every parameter, and limits for slow clients.
#include <httplib.h>
#include <tenon/tenon.h>

#include <ctime>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace {

using Json = nlohmann::ordered_json;
using Kind = tenon::Error::Kind;
constexpr int kYes = 1;
constexpr auto kShallow = [](int depth, auto, auto&) { return depth < 64; };  // copies of Json recurse
// [service]
using Engine = tenon::Engine<tenon::Gpt2, tenon::Scheduler<tenon::ContinuousPolicy>, tenon::Cache<tenon::PagedKV>,
                             tenon::Weights<tenon::ZeroPointInt8>, tenon::Adapter<tenon::GatheredLoRA>>;
using Service = tenon::Service<Engine>;

// One thread runs the engine. Each thread of the server submits a request and waits for its own answer alone.
std::unique_ptr<Service> load(const std::filesystem::path& model) {
  tenon::EngineOptions options;
  options.adapters.folder_of = [root = model / "adapters"](const std::string& name) {
    return tenon::adapter_below(root, name);  // requests reach no other folder
  };
  return std::make_unique<Service>(tenon::ServiceOptions{.max_waiting = 64}, tenon::load_checkpoint(model),
                                   tenon::ContinuousPolicy{}, options);
}
// [/service]

// FieldReader of a request; null is absent. A field that no take() read is not supported: it is refused by its name,
// unless its value is null, false or empty.
class FieldReader {
 public:
  explicit FieldReader(Json json) : json_(std::move(json)) {
    if (!json_.is_object()) throw tenon::Error(Kind::invalid_request, "body", "must be a JSON object");
  }
  template <class Value>
  Value take(const char* name, Value otherwise) try {
    read_.insert(name);
    const auto found = json_.find(name);
    return found == json_.end() || found->is_null() ? otherwise : found->template get<Value>();
  } catch (const Json::exception&) {
    throw tenon::Error(Kind::invalid_request, name, "has the wrong type");
  }
  void finish() const {
    for (const auto& [name, value] : json_.items()) {
      const bool says_no = value.is_null() || value == false || (value.is_structured() && value.empty());
      if (!says_no && read_.count(name) == 0) throw tenon::Error(Kind::invalid_request, name, "is not supported here");
    }
  }

 private:
  Json json_;
  std::set<std::string> read_;
};

struct Ask {
  tenon::Request request;
  bool stream = false, details = false;
  std::string model;  // or adapter, as OpenAI's clients name it
};

// Reads the fields that both APIs share.
Ask asked(const Service& service, FieldReader& fields, const std::string& prompt, bool sample) {
  Ask ask;
  ask.request.input_ids = service.tokenizer()->encode_prompt(prompt, /*parse_special=*/false);
  tenon::Options& o = ask.request.options;
  o.temperature = fields.take("temperature", sample ? 1.0F : 0.0F);
  o.top_p = fields.take("top_p", 1.0F);
  o.top_k = fields.take("top_k", 0);
  o.repetition_penalty = fields.take("repetition_penalty", 1.0F);
  o.seed = fields.take("seed", std::uint64_t{std::random_device()()});
  const Json stop = fields.take("stop", Json::array());
  o.stop = FieldReader(Json{{"stop", stop.is_string() ? Json::array({stop}) : stop}}).take("stop", o.stop);
  return ask;
}

Ask lorax_ask(const Service& service, const std::string& body, bool stream) {
  FieldReader all(Json::parse(body, kShallow, false)), fields(all.take("parameters", Json::object()));
  Ask ask = asked(service, fields, all.take("inputs", std::string()), fields.take("do_sample", false));
  ask.stream = all.take("stream", stream) || stream;
  ask.details = fields.take("details", false);
  ask.request.options.max_new_tokens = fields.take("max_new_tokens", 20);
  ask.request.options.ignore_eos = fields.take("ignore_eos_token", false);
  ask.request.options.include_stop = true;  // LoRAX leaves the stop string in the text
  ask.request.options.top_logprobs = 0;
  if (const auto name = fields.take("adapter_id", std::string()); !name.empty()) ask.request.adapters = {{name}};
  for (const char* unused : {"adapter_source", "api_token"}) fields.take(unused, Json());
  all.finish();
  fields.finish();
  return ask;
}

Ask openai_ask(const Service& service, const std::string& body, const std::string& model) {
  FieldReader fields(Json::parse(body, kShallow, false));
  Ask ask = asked(service, fields, fields.take("prompt", std::string()), true);
  ask.stream = fields.take("stream", false);
  ask.request.options.max_new_tokens = fields.take("max_tokens", 16);
  ask.model = fields.take("model", model);
  if (ask.model != model) ask.request.adapters = {{ask.model}};
  fields.finish();
  return ask;
}

struct Reply {
  std::vector<Json> tokens;  // as LoRAX writes them
  std::string text;
  const char* reason = nullptr;  // LoRAX's name for it; null until the answer has ended
};

// Calls tell(reply) after each token, the last time with the reason. False cancels the request.
template <class Tell>
Reply run(tenon::AnswerStream& stream, const Ask& ask, Tell tell) {
  Reply reply;
  for (const tenon::Event& event : stream.events()) {
    if (event.kind == tenon::Event::Kind::error) throw tenon::Error(event.error_kind, "", event.error);
    const bool ends = event.kind == tenon::Event::Kind::finished;
    if (ends && event.reason == tenon::FinishReason::deadline)
      throw tenon::Error(Kind::overloaded, "", "the answer took too long");
    if (!ends && !reply.tokens.empty() && !tell(reply)) break;  // one token late: the last one brings the reason
    reply.text += event.text;
    if (!ends || reply.tokens.empty()) {
      reply.tokens.push_back({{"id", event.token}, {"text", event.text}, {"logprob", event.logprob}});
      reply.tokens.back().update({{"special", ends}, {"skipped", false}});
    }
    if (ends) reply.reason = ask.request.options.stop.empty() ? "eos_token" : "stop_sequence";
    if (ends && event.reason == tenon::FinishReason::length) reply.reason = "length";
  }
  if (reply.reason) tell(reply);
  return reply;
}

Json lorax_json(const Ask& ask, const Reply& reply, bool as_event) {
  Json json = {{"generated_text", nullptr}};
  if (as_event) json = {{"token", reply.tokens.back()}, {"generated_text", nullptr}, {"details", nullptr}};
  if (!reply.reason) return json;
  json["generated_text"] = reply.text;  // also in the last event of a stream
  if (!ask.details) return json;
  Json& details = json["details"] = {{"finish_reason", reply.reason}, {"seed", nullptr}, {"skipped_tokens", 0}};
  details.update({{"prompt_tokens", ask.request.input_ids.size()}, {"generated_tokens", reply.tokens.size()}});
  details.update({{"prefill", Json::array()}, {"tokens", as_event ? Json::array() : Json(reply.tokens)}});
  if (ask.request.options.temperature > 0) details["seed"] = ask.request.options.seed;
  return json;
}

Json openai_json(const Ask& ask, const Reply& reply, bool as_event) {
  const std::size_t prompt = ask.request.input_ids.size(), count = reply.tokens.size();
  Json choice = {{"index", 0}, {"text", as_event ? reply.tokens.back()["text"] : Json(reply.text)}};
  choice.update({{"logprobs", nullptr}, {"finish_reason", nullptr}});
  if (reply.reason) choice["finish_reason"] = reply.reason == std::string("length") ? "length" : "stop";
  Json json = {{"id", "cmpl-" + std::to_string(ask.request.options.seed)}, {"object", "text_completion"}};
  json.update({{"created", std::time(nullptr)}, {"model", ask.model}, {"choices", Json::array({choice})}});
  json["usage"] = {{"prompt_tokens", prompt}, {"completion_tokens", count}, {"total_tokens", prompt + count}};
  return json;
}

Json lorax_error(const std::string& what) { return {{"error", what}, {"error_type", "generation"}}; }
Json openai_error(const std::string& what) {
  return {{"error", {{"message", what}, {"type", "invalid_request_error"}, {"param", nullptr}, {"code", nullptr}}}};
}

struct Api {
  Json (*json)(const Ask&, const Reply&, bool as_event);
  Json (*error)(const std::string&);
  const char* end;  // of a stream
};
constexpr Api kLorax{lorax_json, lorax_error, ""}, kOpenAi{openai_json, openai_error, "[DONE]"};

std::string one_line(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

// [answer]
// Submits in the thread of the connection. An error here sets the HTTP status. A later one can only be reported in the
// stream.
void respond(Service& service, const Ask& ask, const Api& api, bool as_list, httplib::Response& response) {
  auto stream = std::make_shared<tenon::AnswerStream>(
      service.submit(ask.request, {.timeout = std::chrono::seconds(60), .adapter_wait = std::chrono::seconds(5)}));
  if (!ask.stream) {
    const Json json = api.json(ask, run(*stream, ask, [](auto&) { return true; }), false);
    return response.set_content(one_line(as_list ? Json::array({json}) : json), "application/json");
  }
  response.set_chunked_content_provider("text/event-stream", [=](std::size_t, httplib::DataSink& sink) {
    const auto send = [&](const std::string& s) { return sink.write(("data: " + s + "\n\n").data(), s.size() + 8); };
    try {  // if the client has left, the write fails and the request is cancelled
      run(*stream, ask, [&](const Reply& reply) { return send(one_line(api.json(ask, reply, true))); });
    } catch (const std::exception& error) {
      send(one_line(api.error(error.what())));
    }
    if (*api.end) send(api.end);
    sink.done();
    return true;
  });
}
// [/answer]

template <class Parse>
void add(httplib::Server& http, Service& service, const char* path, const Api& api, bool as_list, Parse parse) {
  http.Post(path, [&, as_list, parse](const httplib::Request& request, httplib::Response& response) {
    try {
      respond(service, parse(request.body), api, as_list, response);
    } catch (const tenon::Error& error) {
      const bool busy = error.kind() == Kind::overloaded || error.kind() == Kind::capacity;
      response.status = busy ? 429 : error.kind() == Kind::internal ? 500 : 422;
      response.set_content(one_line(api.error(error.what())), "application/json");
    }
  });
}

int serve(const std::filesystem::path& model, int port, const std::string& host) {
  const std::unique_ptr<Service> service = load(model);
  httplib::Server http;
  http.new_task_queue = [] { return new httplib::ThreadPool(64); };  // each answers one request; others wait
  http.set_read_timeout(5).set_write_timeout(10).set_payload_max_length(1 << 20);
  http.set_socket_options([](auto s) { ::setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &kYes, sizeof kYes); });
  http.set_keep_alive_max_count(1);  // an idle connection would hold a thread
  http.set_pre_routing_handler([](auto& request, auto& response) {
    const bool plain = !request.has_header("Transfer-Encoding") && !request.has_header("Content-Encoding");
    if (plain && (request.method == "GET" || request.has_header("Content-Length")))
      return httplib::Server::HandlerResponse::Unhandled;
    return response.status = 411, httplib::Server::HandlerResponse::Handled;  // only a length bounds what is read
  });
  const auto lorax = [&](bool stream) { return [&, stream](auto& b) { return lorax_ask(*service, b, stream); }; };
  const std::string name = model.filename().string();
  add(http, *service, "/", kLorax, true, lorax(false));
  add(http, *service, "/generate", kLorax, false, lorax(false));
  add(http, *service, "/generate_stream", kLorax, false, lorax(true));
  add(http, *service, "/v1/completions", kOpenAi, false, [&](auto& body) { return openai_ask(*service, body, name); });
  http.Get("/health", [&](auto&, auto& response) { response.status = service->stats().healthy ? 200 : 503; });
  if (port == 0 ? (port = http.bind_to_any_port(host)) < 0 : !http.bind_to_port(host, port))
    throw tenon::Error(Kind::io, host, "the port is taken, or this is no address of this machine");
  std::cerr << "listening on http://" << host << ':' << port << std::endl;
  return http.listen_after_bind() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 2 || argc > 4) throw std::invalid_argument("usage: tenon-serve-small MODEL [PORT [HOST]]");
  return serve(argv[1], argc > 2 ? std::stoi(argv[2]) : 8080, argc > 3 ? argv[3] : "127.0.0.1");
} catch (const std::exception& error) {
  std::cerr << "tenon-serve-small: " << error.what() << '\n';
  return 1;
}
