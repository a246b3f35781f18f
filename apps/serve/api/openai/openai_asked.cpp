#include "serve/api/openai/openai_asked.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <variant>

#include "serve/api/anthropic/messages_request.h"
#include "serve/api/anthropic/messages_writer.h"
#include "serve/api/asked.h"
#include "serve/api/ollama/ollama_request.h"
#include "serve/api/ollama/ollama_writer.h"
#include "serve/api/openai/openai_request.h"
#include "serve/api/openai/openai_writer.h"
#include "serve/api/openai/responses_request.h"
#include "serve/api/openai/responses_writer.h"
#include "serve/api/requested_adapters.h"

namespace serve {
namespace {

std::string as_text(const Model& model, std::vector<tenon::TokenId> ids, bool skip_special) {
  if (skip_special) std::erase_if(ids, [&](tenon::TokenId id) { return model.tokenizer().is_special(id); });
  return tenon::sanitize_utf8(model.tokenizer().decode(ids));
}

// What both OpenAI routes have in common.
struct OpenAiAsked {
  OpenAiAsked(Model& model, const SamplingRequest& request, const AnswerIdentity& identity)
      : terms{.id = identity.id,
              .model = request.model.empty() ? model.name() : request.model,
              .created = identity.created,
              .fingerprint = model.fingerprint(),
              .n = request.options.n,
              .stream = request.stream,
              .include_usage = request.include_usage,
              .continuous_usage = request.continuous_usage,
              .logprobs = request.options.top_logprobs >= 0,
              .alternatives = request.options.top_logprobs,
              .prompt_logprobs = request.prompt_logprobs,
              .return_token_ids = request.return_token_ids},
        common{.adapters = request.adapters, .options = request.options} {
    need_adapters(model, request.adapters, request.adapter_field);
    if (!request.seed_given) common.options.seed = identity.seed;
    need_tokens(model, request.options.stop_ids, "stop_token_ids");
    if (request.form) {
      common.constraint = model.constraint(*request.form);
      common.constraint_source = request.form->source();
    }
    if (request.prediction) {
      common.prediction = model.predicted(*request.prediction);
      terms.tells_prediction = !request.resumable;  // the count is of one run alone
    }
    asked.stream = request.stream;
    asked.resumable = request.resumable;
    asked.ignored = request.ignored;
    asked.adapter = name_of(request.adapters);
  }

  void add(const Model& model, const SamplingRequest& request, std::vector<tenon::TokenId> ids, std::string echo) {
    tenon::Request one = common;
    one.options.max_new_tokens =
        openai_new_tokens(request.max_tokens, ids.size(), model.limits(), request.length_field, request.prompt_field);
    check_least(one.options, "min_tokens");
    one.input_ids = ids;
    asked.max_new_tokens = std::max(asked.max_new_tokens, one.options.max_new_tokens);
    asked.requests.push_back(std::move(one));
    terms.prompts.push_back(std::move(ids));
    terms.echoes.push_back(std::move(echo));
  }

  Asked finish(Model& model) {
    take_listed(model, asked, "logprobs");
    terms.skip_special = common.options.skip_special_tokens;
    terms.ends = ends_of(model, common.options);
    asked.writer = std::make_unique<OpenAiWriter>(std::move(terms), model.tokenizer());
    return std::move(asked);
  }

  OpenAiWriter::Terms terms;
  tenon::Request common;
  Asked asked;
};

// All of the style, on one line.
std::string as_text(const AnswerStyle& style) {
  tenon::OrderedJson all = {style.think.begin, style.think.end, style.thinking};
  if (const auto& t = style.tools) {
    for (const std::string* each : {&t->name, &t->marker, &t->begin, &t->between, &t->end, &t->parameters})
      all.push_back(*each);
    all.push_back(t->most);
    all.push_back(t->at_start);
    all.push_back(t->short_ids);
    for (const std::string& each : style.starts) all.push_back(each);
  }
  return one_line(all);
}

// Adds the prompt of a conversation, with what its answer may be. How the answer is read.
AnswerStyle add_chat(Model& model, ChatRequest& request, OpenAiAsked& made) {
  const bool calls = request.tools.kind != ToolChoice::Kind::none;
  made.asked.characters = characters_of(request.conversation.messages);
  const bool has_tools = !request.conversation.tools.is_null();
  Model::Chat chat = model.chat_prompt(std::move(request.conversation), made.terms.created, request.prompt_field);
  model.add_chat_stops(made.common.options);
  AnswerStyle style = program::answer_style(model.chat_template(), request.tools, chat.thinking,
                                            /*has_form=*/request.form || !request.tells_reasoning);
  for (std::string& field : unheeded_fields(request.reasoning, model.chat_template(), has_tools))
    made.asked.ignored.push_back(std::move(field));
  program::show_markers(style, model.tokenizer(), made.common.options);
  if (calls && request.form) style.starts = program::call_starts(request.tools, style);
  if (calls) model.constrain_calls(request.tools, style, made.common, request.form ? request.form->field : "");
  made.asked.reading = as_text(style);
  keep_last(chat.ids, request.truncate);
  made.add(model, request, std::move(chat.ids), {});
  return style;
}

void add_prompts(const Model& model, const CompletionRequest& request, OpenAiAsked& made) {
  for (const CompletionRequest::Prompt& prompt : request.prompts) {
    const auto* const text = std::get_if<std::string>(&prompt);
    std::vector<tenon::TokenId> ids;
    if (text) {
      ids = model.tokens(*text, {.parse_special = request.parse_special,
                                 .add_special_tokens = request.add_special_tokens,
                                 .truncate = request.truncate.value_or(0)});
    } else {
      ids = std::get<std::vector<tenon::TokenId>>(prompt);
      need_tokens(model, ids, request.prompt_field);
      keep_last(ids, request.truncate);
    }
    // The text of a cut prompt is that of the tokens that are kept: offsets of log-probabilities are places in it.
    const bool may_be_cut = request.truncate && ids.size() >= static_cast<std::size_t>(*request.truncate);
    std::string echo = text && !may_be_cut ? *text : as_text(model, ids, request.options.skip_special_tokens);
    made.asked.characters += characters(text ? *text : echo);
    made.add(model, request, std::move(ids), request.echo ? std::move(echo) : std::string());
  }
}

Asked ollama_asked(Model& model, OllamaRequest& asked, bool is_chat, const AnswerIdentity& identity) {
  OllamaWriter::Terms terms{.model = asked.model.empty() ? model.name() : asked.model, .chat = is_chat};
  if (asked.loads) {
    Asked out;
    if (!names_base(asked.model, model.context())) need_adapters(model, {{.name = asked.model}}, "model");
    terms.loads = true;
    out.writer = std::make_unique<OllamaWriter>(std::move(terms));
    return out;
  }
  const SamplingRequest& request = asked.chat ? static_cast<const SamplingRequest&>(*asked.chat) : *asked.completion;
  OpenAiAsked made(model, request, identity);
  if (asked.chat)
    terms.style = add_chat(model, *asked.chat, made);
  else
    add_prompts(model, *asked.completion, made);
  terms.prompt_tokens = static_cast<int>(made.terms.prompts.front().size());
  terms.stream = request.stream;
  made.asked.writer = std::make_unique<OllamaWriter>(std::move(terms));
  return std::move(made.asked);
}

}  // namespace

Asked completion_asked(Model& model, std::string_view body, const AnswerIdentity& identity) {
  const CompletionRequest request = parse_completion(body, model.context());
  OpenAiAsked made(model, request, identity);
  made.terms.echo = request.echo;
  add_prompts(model, request, made);
  return made.finish(model);
}

Asked chat_asked(Model& model, std::string_view body, const AnswerIdentity& identity) {
  ChatRequest request = parse_chat(body, model.context());
  OpenAiAsked made(model, request, identity);
  made.terms.chat = true;
  made.terms.shows_reasoning = request.shows_reasoning;
  AnswerStyle style = add_chat(model, request, made);
  if (style.tools || !style.think.end.empty()) made.terms.style = std::move(style);
  return made.finish(model);
}

Asked responses_asked(Model& model, std::string_view body, const AnswerIdentity& identity) {
  ResponsesRequest request = parse_responses(body, model.context());
  OpenAiAsked made(model, request.chat, identity);
  AnswerStyle style = add_chat(model, request.chat, made);
  ResponsesWriter::Terms terms{.id = identity.id,
                               .model = made.terms.model,
                               .created = made.terms.created,
                               .prompt_tokens = static_cast<int>(made.terms.prompts.front().size()),
                               .stream = request.chat.stream,
                               .shows_reasoning = request.chat.shows_reasoning,
                               .style = std::move(style),
                               .request = std::move(request)};
  made.asked.writer = std::make_unique<ResponsesWriter>(std::move(terms));
  return std::move(made.asked);
}

Asked messages_asked(Model& model, std::string_view body, const AnswerIdentity& identity) {
  ChatRequest request = parse_messages(body, model.context());
  OpenAiAsked made(model, request, identity);
  made.common.options.include_stop = true;  // the answer names its stop sequence
  AnswerStyle style = add_chat(model, request, made);
  made.asked.writer = std::make_unique<MessagesWriter>(
      MessagesWriter::Terms{.id = identity.id,
                            .model = made.terms.model,
                            .prompt_tokens = static_cast<int>(made.terms.prompts.front().size()),
                            .stream = request.stream,
                            .shows_reasoning = request.shows_reasoning,
                            .style = std::move(style),
                            .stops = made.common.options.stop,
                            .client_stops = request.options.stop.size(),
                            .keeps_stop = request.options.include_stop,
                            .ends = ends_of(model, made.common.options)});
  return std::move(made.asked);
}

Asked ollama_chat_asked(Model& model, std::string_view body, const AnswerIdentity& identity) {
  OllamaRequest request = parse_ollama_chat(body, model.context());
  return ollama_asked(model, request, /*is_chat=*/true, identity);
}

Asked ollama_generate_asked(Model& model, std::string_view body, const AnswerIdentity& identity) {
  OllamaRequest request = parse_ollama_generate(body, model.context(), model.has_chat_template());
  return ollama_asked(model, request, /*is_chat=*/false, identity);
}

}  // namespace serve
